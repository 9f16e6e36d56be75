"""Whole series, small: one command, one folder, killed and gone on with, judged again, and members that fail."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recollect.config import read_run_config
from recollect.core import RecollectError
from recollect.pipeline import STAGES
from recollect.presets import load_preset

Command = Callable[..., Any]

SERIES = """
name = "decay"
checkpoint_seconds = 0
[data]
name = "sample"
n = 4
holdout_count = 20
[model]
hidden = [16, 16]
[training]
epochs = 100
dtype = "float32"
[attack]
candidates = 8
steps = 300
trials = [{ lr_x = 0.6, lr_duals = 0.01, init_scale = 0.01 }]
[match]
score = "ssim"
[[series]]
key = "training.weight_decay"
values = [1e-3, 1e-2]
[series.lines]
"none" = [{ "training.weight_decay" = 0.0, "model.first_layer_scale" = 1e-3 }]
"""
SLUGS = ["weight-decay-0.001", "weight-decay-0.01", "none"]


@pytest.fixture(scope="module")
def _whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("series")
    (folder / "decay.toml").write_text(SERIES)
    words = [sys.executable, "-m", "recollect", "reproduce", "decay.toml", "--out", "whole", "--json"]
    ended = subprocess.run(words, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    assert json.loads(ended.stdout) == record(folder / "whole")
    return folder / "whole"


@pytest.fixture
def whole(_whole: Path, tmp_path: Path) -> Path:
    """A copy of a series that nobody interrupted; the test may change it."""
    return shutil.copytree(_whole, tmp_path / "whole")


ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def record(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "series.json").read_text())


def without_times(folder: Path) -> dict[str, Any]:
    found = record(folder)
    return found | {"members": [{**member, "seconds": None} for member in found["members"]]}


def status(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "status.json").read_text())


def files(folder: Path) -> dict[str, tuple[bytes, int]]:
    found = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns) for path in found}


def test_a_row_for_each_member_with_the_figures_of_its_own_folder(whole: Path) -> None:
    assert status(whole)["members"] == dict.fromkeys(SLUGS, "done")
    assert status(whole)["stages"] == {"members": "done", "report": "done"}
    rows = record(whole)["members"]
    assert [row["member"] for row in rows] == SLUGS
    assert rows[2]["settings"] == {"training.weight_decay": 0.0, "model.first_layer_scale": 1e-3}
    for row in rows:
        member = whole / "members" / row["member"]
        summary = json.loads((member / "summary.json").read_text())
        training = json.loads((member / "model" / "model.json").read_text())["training"]
        for key in ("good_ssim04", "null_good_ssim04", "recovered", "top10_ssim", "mean_dssim", "reference_count"):
            assert row[key] == summary[key], key
        assert row["training_loss"] == training["loss"]
        assert row["training_error"] == training["error"]
        assert row["test_error"] == training["test_error"]
        assert row["seconds"] == pytest.approx(training["seconds"] + summary["seconds"])
        config = read_run_config(member / "config.toml")
        assert config.training.weight_decay == row["settings"]["training.weight_decay"]
        assert set(json.loads((member / "status.json").read_text())["stages"].values()) == {"done"}
        assert (member / "report.html").is_file()
    assert rows[0]["training_loss"] != rows[1]["training_loss"]


def test_killed_in_the_second_member_and_gone_on_with(whole: Path, command: Command, tmp_path: Path) -> None:
    run = tmp_path / "run"
    (tmp_path / "decay.toml").write_text(SERIES)
    words = [sys.executable, "-m", "recollect", "reproduce", "decay.toml", "--out", "run", "--json"]
    trace = run / "members" / SLUGS[1] / "trace.jsonl"
    with subprocess.Popen(words, cwd=tmp_path, env=ENVIRONMENT) as running:
        deadline = time.monotonic() + 120
        while not trace.exists() or trace.read_bytes().count(b"\n") < 5:
            assert running.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.005)
        running.send_signal(signal.SIGKILL)
    assert status(run)["members"] == {SLUGS[0]: "done", SLUGS[1]: "running", SLUGS[2]: "pending"}
    assert [row["state"] for row in record(run)["members"]] == ["done", "pending", "pending"]
    before = files(run / "members" / SLUGS[0])
    ended = command("reproduce", "--resume", run, "--json")
    assert ended.code == 0, ended.err
    assert files(run / "members" / SLUGS[0]) == before
    assert without_times(run) == without_times(whole)
    for slug in SLUGS:
        for name in ("candidates.safetensors", "model/weights.safetensors", "matches.json", "config.toml"):
            assert (run / "members" / slug / name).read_bytes() == (whole / "members" / slug / name).read_bytes()
    assert files(run).keys() == files(whole).keys()


def test_interrupted_by_hand(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "decay.toml").write_text(SERIES)
    small = ["--set", "attack.steps=20", "--set", "training.epochs=20", "--set", "series.0.lines={}"]
    with monkeypatch.context() as patch:
        patch.setattr("recollect.pipeline.STAGES", broken_for(0.01, KeyboardInterrupt))
        ended = command("reproduce", "decay.toml", "--out", "run", *small)
    assert ended.code == 130
    assert ended.out == ""
    assert ended.err.strip().splitlines()[-1] == "Interrupted. Go on with: recollect reproduce --resume run"
    assert "1 of 2 members are done" in (tmp_path / "run" / "report.html").read_text()
    assert command("reproduce", "--resume", "run", "--json").code == 0
    assert status(tmp_path / "run")["members"] == dict.fromkeys(SLUGS[:2], "done")


def test_gone_on_with_after_its_end_leaves_every_member_alone(whole: Path, command: Command) -> None:
    before = files(whole / "members")
    found = record(whole)
    ended = command("reproduce", "--resume", whole)
    assert ended.code == 0, ended.err
    assert "3 of 3 members are done" in ended.out
    assert all(name in ended.out for name in ("weight decay 0.001", "none", "test error"))
    assert ended.out.strip().splitlines()[-1] == f"Look at {whole / 'report.html'}"
    assert files(whole / "members") == before
    assert record(whole) == found


def test_a_member_killed_between_its_first_two_files_is_begun_again(whole: Path, command: Command) -> None:
    member = whole / "members" / SLUGS[2]
    expected = (member / "candidates.safetensors").read_bytes()
    stages = (member / "status.json").read_text().replace('"done"', '"pending"')
    shutil.rmtree(member)
    member.mkdir()
    (member / "status.json").write_text(stages)
    assert command("reproduce", "--resume", whole, "--json").code == 0
    assert (member / "candidates.safetensors").read_bytes() == expected


def test_what_resume_would_ignore_is_refused_for_a_series_too(whole: Path, command: Command) -> None:
    refused = command("reproduce", "--resume", whole, "--set", "attack.steps=7").error
    assert "so --set cannot change it; leave it out" in refused


def test_a_dry_run_adds_the_members_up_and_writes_nothing(command: Command, tmp_path: Path) -> None:
    (tmp_path / "decay.toml").write_text(SERIES)
    shown = json.loads(command("reproduce", "decay.toml", "--dry-run", "--json").out)
    assert list(shown["members"]) == SLUGS
    for total in ("train_seconds", "attack_seconds"):
        assert shown[total] == pytest.approx(sum(member[total] for member in shown["members"].values()))
    assert shown["attack_bytes"] == max(member["attack_bytes"] for member in shown["members"].values())
    options = ["--set", "attack.steps=123", "--set", "series.0.lines={}"]
    text = command("reproduce", "decay.toml", "--dry-run", *options).out
    for words in ("[[series]]", "# members  2", "# training about", "in all", "steps = 123"):
        assert words in text
    assert [path.name for path in tmp_path.iterdir()] == ["decay.toml"]


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("series.0.key=training.weight_decey", "unknown key 'training.weight_decey'; did you mean 'weight_decay'?"),
        ("training.weight_decay=1", "the series varies 'training.weight_decay'"),
        ('series.1={key = "data.n", values = [4, 5]}', "must be a position"),
        ('series=[{key = "data.n", values = [4, 5]}]', "n = 5 samples cannot be split into 2 equal classes"),
        ('series=[{key = "attack.layer_weights", values = [[1.0]]}]', "layer"),
    ],
)
def test_a_mistake_in_any_member_is_said_before_anything_is_written(
    command: Command, tmp_path: Path, override: str, expected: str
) -> None:
    (tmp_path / "decay.toml").write_text(SERIES)
    assert expected in command("reproduce", "decay.toml", "--set", override).error
    assert [path.name for path in tmp_path.iterdir()] == ["decay.toml"]


def test_a_series_is_overwritten_and_made_smaller_by_set(whole: Path, command: Command, tmp_path: Path) -> None:
    (tmp_path / "decay.toml").write_text(SERIES)
    words = ["reproduce", "decay.toml", "--out", whole, "--set", "series.0.lines={}"]
    assert "already holds a run; go on with --resume" in command(*words).error
    small = ["--set", "series.0.values=[0.5]", "--set", "attack.steps=20", "--set", "training.epochs=20"]
    assert command(*words, *small, "--overwrite", "--json").code == 0
    assert [path.name for path in (whole / "members").iterdir()] == ["weight-decay-0.5"]
    assert read_run_config(whole / "members" / "weight-decay-0.5" / "config.toml").attack.steps == 20


def test_match_and_report_do_it_for_all_members(whole: Path, command: Command) -> None:
    before = [row["mean_dssim"] for row in record(whole)["members"]]
    ended = command("match", whole, "--set", "match.scaling=clamp", "--json")
    assert ended.code == 0, ended.err
    rows = json.loads(ended.out)["members"]
    assert [row["mean_dssim"] for row in rows] != before
    assert read_run_config(whole / "config.toml").match.scaling == "clamp"
    for slug, row in zip(SLUGS, rows, strict=True):
        member = whole / "members" / slug
        assert read_run_config(member / "config.toml").match.scaling == "clamp"
        assert json.loads((member / "summary.json").read_text())["mean_dssim"] == row["mean_dssim"]
        (member / "report.html").unlink()
    (whole / "report.html").unlink()
    (whole / "series.json").unlink()
    assert command("report", whole).out == f"{whole / 'report.html'}\n"
    assert [row["mean_dssim"] for row in record(whole)["members"]] == [row["mean_dssim"] for row in rows]
    assert all((whole / "members" / slug / "report.html").is_file() for slug in SLUGS)
    refused = command("match", whole, "--set", "attack.steps=5")
    assert "'recollect match' can change match and data alone" in refused.error


def test_a_member_that_fails_does_not_stop_the_others(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "decay.toml").write_text(SERIES)
    small = ["--set", "attack.steps=20", "--set", "training.epochs=20"]
    words = ["reproduce", "decay.toml", "--out", "run", *small, "--set", "series.0.lines={}", "--json"]
    with monkeypatch.context() as patch:
        patch.setattr("recollect.pipeline.STAGES", broken_for(0.001))
        said = command(*words).error
    assert f"1 of 2 members failed, the first of them, '{SLUGS[0]}': it went wrong; the others are in" in said
    assert status(tmp_path / "run")["members"] == {SLUGS[0]: "failed", SLUGS[1]: "done"}
    assert "weight decay 0.001 failed: it went wrong." in (tmp_path / "run" / "report.html").read_text()
    assert command("reproduce", "--resume", "run", "--json").code == 0
    assert [(row["state"], row["failure"]) for row in record(tmp_path / "run")["members"]] == [("done", None)] * 2


def broken_for(weight_decay: float, problem: type[BaseException] = RecollectError) -> dict[str, Any]:
    """The stages, one of which goes wrong for one member."""

    def train(run: Any) -> None:
        if run.config.training.weight_decay == weight_decay:
            raise problem("it went wrong.")
        STAGES["train"](run)

    return {**STAGES, "train": train}


def test_a_damaged_series_is_explained(whole: Path, command: Command) -> None:
    changed = status(whole) | {"members": {"other": "done"}}
    (whole / "status.json").write_text(json.dumps(changed))
    assert "does not fit config.toml, it has another plan or other members" in command("report", whole).error
    (whole / "config.toml").unlink()
    assert "has no config.toml, nothing was begun there" in command("reproduce", "--resume", whole).error


def test_networks_of_a_series_can_be_trained_alone(command: Command, tmp_path: Path) -> None:
    (tmp_path / "decay.toml").write_text(SERIES)
    ended = command("train", "--config", "decay.toml", "--set", "training.epochs=20", "--json")
    assert ended.code == 0, ended.err
    rows = json.loads(ended.out)["members"]
    assert all(row["training_loss"] > 0 and row["recovered"] is None for row in rows)
    run = tmp_path / "runs" / "decay"
    assert (run / "members" / "none" / "model" / "weights.safetensors").is_file()
    assert "No member has been matched" in (run / "report.html").read_text()
    assert "no member of 'runs/decay' has candidates yet" in command("match", "runs/decay").error


def test_a_run_has_no_series_in_its_configuration() -> None:
    assert load_preset("demo").series == ()
