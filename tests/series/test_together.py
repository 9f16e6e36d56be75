"""Members of a series that run at the same time, in processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recollect.series.together import Together

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
steps = 100
trials = [{ lr_x = 0.6, lr_duals = 0.01, init_scale = 0.01 }]
[match]
score = "ssim"
[[series]]
key = "training.weight_decay"
values = [1e-3, 1e-2, 1e-1]
"""
SLUGS = ["weight-decay-0.001", "weight-decay-0.01", "weight-decay-0.1"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def record(folder: Path) -> dict[str, Any]:
    found = json.loads((folder / "series.json").read_text())
    return found | {"members": [{**member, "seconds": None} for member in found["members"]]}


def states(folder: Path) -> dict[str, str]:
    return json.loads((folder / "status.json").read_text())["members"]


def series(folder: Path, *more: str, name: str = "run") -> list[str]:
    (folder / "decay.toml").write_text(SERIES)
    return [sys.executable, "-m", "recollect", "reproduce", "decay.toml", "--out", name, *more]


def test_two_at_a_time_find_what_one_after_the_other_does(tmp_path: Path) -> None:
    said = ""
    for name, jobs in (("alone", "1"), ("together", "2")):
        words = series(tmp_path, "--jobs", jobs, name=name)
        ended = subprocess.run(words, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr
        said = ended.stderr
    assert said.count(", running\n") == said.count(", done\n") == 3
    assert "Member 2 of 3: weight decay 0.01, done\n" in said
    assert record(tmp_path / "together") == record(tmp_path / "alone")
    assert states(tmp_path / "together") == dict.fromkeys(SLUGS, "done")
    for slug in SLUGS:
        for file in ("candidates.safetensors", "model/weights.safetensors", "matches.json", "config.toml"):
            one, other = (tmp_path / name / "members" / slug / file for name in ("alone", "together"))
            assert one.read_bytes() == other.read_bytes()


def test_an_interrupt_ends_all_of_them_and_the_series_goes_on(tmp_path: Path, command: Command) -> None:
    words = series(tmp_path, "--jobs", "2", "--set", "attack.steps=1000000")
    traces = [tmp_path / "run" / "members" / slug / "trace.jsonl" for slug in SLUGS[:2]]
    with subprocess.Popen(words, cwd=tmp_path, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True) as running:
        deadline = time.monotonic() + 120
        while not all(trace.exists() and trace.stat().st_size for trace in traces):
            assert running.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        running.send_signal(signal.SIGINT)
        said = running.communicate()[1]
    assert running.returncode == 130
    assert said.strip().splitlines()[-1] == "Interrupted. Go on with: recollect reproduce --resume run"
    assert states(tmp_path / "run") == {SLUGS[0]: "running", SLUGS[1]: "running", SLUGS[2]: "pending"}
    for trace in traces:  # nobody works on the members any more
        length = trace.stat().st_size
        time.sleep(0.2)
        assert trace.stat().st_size == length
    for slug in SLUGS:
        config = tmp_path / "run" / "members" / slug / "config.toml"
        config.write_text(config.read_text().replace("steps = 1000000", "steps = 100"))
        for name in ("checkpoint.safetensors", "trace.jsonl"):
            (config.parent / name).unlink(missing_ok=True)
    ended = command("reproduce", "--resume", "run", "--jobs", "2", "--json")
    assert ended.code == 0, ended.err
    assert states(tmp_path / "run") == dict.fromkeys(SLUGS, "done")


def test_one_that_fails_or_is_killed_does_not_stop_the_others(tmp_path: Path, command: Command) -> None:
    words = series(tmp_path, "--set", "attack.steps=20", "--set", "training.epochs=20")[3:]
    assert command(*words, "--json").code == 0
    for slug, damage in ((SLUGS[0], "pending"), (SLUGS[2], "pending")):
        path = tmp_path / "run" / "members" / slug / "status.json"
        path.write_text(path.read_text().replace('"done"', f'"{damage}"'))
    (tmp_path / "run" / "members" / SLUGS[0] / "config.toml").write_text("steps = [")
    said = command("reproduce", "--resume", "run", "--jobs", "2", "--json").error
    assert f"1 of 3 members failed, the first of them, '{SLUGS[0]}'" in said
    assert "config.toml" in said
    assert states(tmp_path / "run") == {SLUGS[0]: "failed", SLUGS[1]: "done", SLUGS[2]: "done"}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import os; os.kill(os.getpid(), 9)", "its process was ended by SIGKILL."),
        ("raise SystemExit(3)", "it ended without a word."),
        ("import sys; sys.exit('error: no data.')", "no data."),
    ],
)
def test_how_a_process_ended(code: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{code}"\n')
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    news = list(Together(2, ["cpu"]).go([tmp_path / "a", tmp_path / "b", tmp_path / "c"]))
    assert [own.failure for own in news if own.state == "failed"] == [expected] * 3
    assert {own.folder.name for own in news if own.state == "running"} == {"a", "b", "c"}


def test_a_program_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))
    *_, last = Together(1, ["cpu"]).go([tmp_path])
    assert last.failure == "its process could not be started (No such file or directory)."


def test_stages_are_told_as_they_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "python"
    status = '{"format": 1, "name": "a", "stages": {"train": "%s", "attack": "%s"}}'
    lines = ["#!/bin/sh", 'while [ "$1" != --resume ]; do shift; done', 'mkdir "$2"']
    for train, attack in (("running", "pending"), ("done", "running"), ("done", "done")):
        lines.append(f'printf \'{status % (train, attack)}\' > "$2/part"; mv "$2/part" "$2/status.json"; sleep 0.5')
    program.write_text("\n".join(lines))
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr("recollect.series.together._LOOK_EVERY", 0.05)
    told = [(own.state, own.stage) for own in Together(1, ["cpu"]).go([tmp_path / "a"])]
    assert told == [("running", None), ("running", "train"), ("running", "attack"), ("done", None)]


def test_members_take_turns_on_several_devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "python"
    program.write_text('#!/bin/sh\nsleep 0.3\nfor word; do last=$word; done\necho "error: on $last" >&2\nexit 2\n')
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    news = Together(4, ["cuda:0", "cuda:1"]).go([tmp_path / str(number) for number in range(4)])
    assert sorted(own.failure for own in news if own.failure) == ["on cuda:0"] * 2 + ["on cuda:1"] * 2


def test_a_single_run_has_no_members(command: Command, tmp_path: Path) -> None:
    said = command("reproduce", "demo", "--jobs", "2").error
    assert "'demo' is a single run, --jobs is for series of runs; leave it out." in said
    assert list(tmp_path.iterdir()) == []
