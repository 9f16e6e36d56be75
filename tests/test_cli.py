"""The command line: help, dry runs, JSON, folders, and one sentence for every mistake."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import typer

from recollect import __version__
from recollect.cli import app
from recollect.config import parse_config, read_run_config
from recollect.presets import load_preset

Command = Callable[..., Any]
ROOT = Path(__file__).parent.parent
COMMANDS: dict[str, Any] = typer.main.get_command(app).commands  # pyright: ignore[reportAttributeAccessIssue]
PARAMETERS = [(name, parameter) for name, command in COMMANDS.items() for parameter in command.params]


def test_the_commands_that_were_promised_are_there() -> None:
    assert set(COMMANDS) >= {"demo", "train", "attack", "match", "report", "reproduce", "presets"}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_says_what_it_does(command: Command, name: str) -> None:
    assert COMMANDS[name].help
    shown = command(name, "--help")
    assert shown.code == 0
    assert "Usage" in shown.out


@pytest.mark.parametrize(("name", "parameter"), PARAMETERS, ids=lambda part: getattr(part, "name", part))
def test_every_option_says_what_it_does(name: str, parameter: Any) -> None:
    assert parameter.help, f"{name}: {parameter.opts}"


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("document", ["docs/cli.md", "README.md"])
def test_every_command_is_documented(name: str, document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    assert not text or f"recollect {name}" in text


@pytest.mark.parametrize(("name", "parameter"), PARAMETERS, ids=lambda part: getattr(part, "name", part))
def test_every_option_is_documented(name: str, parameter: Any) -> None:
    option = max(parameter.opts, key=len)
    if option.startswith("-"):
        assert option in (ROOT / "docs/cli.md").read_text(encoding="utf-8"), f"{name} {option}"


def test_version_and_nothing(command: Command) -> None:
    assert command("--version").out == f"{__version__}\n"
    assert "Usage" in command().out


def test_a_dry_run_prints_the_configuration_and_the_cost_and_writes_nothing(
    command: Command, tiny: list[str], tmp_path: Path
) -> None:
    shown = command("demo", "--dry-run", *tiny, "--set", "seed=7", "--set", "attack.trials.0.lr_x=0.125")
    assert shown.code == 0, shown.err
    config = parse_config(shown.out, "the dry run")
    expected = load_preset("demo", [*tiny[1::2], "seed=7", "attack.trials.0.lr_x=0.125"])
    assert config == expected
    assert config.attack.trials[0].lr_x == 0.125
    for word in ("# device   cpu", "# memory   about", "# training about", "# attack   about"):
        assert word in shown.out
    assert not list(tmp_path.iterdir())


def test_a_dry_run_as_json(command: Command, tiny: list[str], tmp_path: Path) -> None:
    shown = command("demo", "--dry-run", "--json", *tiny)
    described = json.loads(shown.out)
    assert shown.err == ""
    assert described["config"]["attack"]["steps"] == 60
    assert described["device"] == "cpu"
    assert described["attack_bytes"] > 8 * 784 * 4
    assert described["train_seconds"] > 0
    assert described["attack_seconds"] > 0
    assert not list(tmp_path.iterdir())


def test_a_dry_run_fails_where_the_run_would(command: Command) -> None:
    assert "n = 3 samples" in command("demo", "--dry-run", "--set", "data.n=3").error
    assert "layer" in command("demo", "--dry-run", "--set", "attack.layer_weights=[1.0]").error


def test_a_dry_run_draws_random_settings(command: Command, tiny: list[str]) -> None:
    shown = command("demo", "--dry-run", "--json", *tiny, "--set", "attack.search.trials=3", "--set", "seed=5")
    config = json.loads(shown.out)["config"]
    assert len(config["attack"]["trials"]) == 3
    assert config["attack"]["search"] is None


def test_json_alone_goes_to_stdout_and_the_folder_is_named_after_the_run(
    command: Command, tiny: list[str], tmp_path: Path
) -> None:
    ended = command("demo", "--json", *tiny)
    assert ended.code == 0
    assert ended.err == ""
    assert json.loads(ended.out) == json.loads((tmp_path / "runs" / "demo" / "summary.json").read_text())
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]
    refused = command("demo", "--json", *tiny)
    assert "already holds a run; go on with --resume runs/demo, start anew with --overwrite" in refused.error


def test_words_on_stdout_and_progress_on_stderr(command: Command, tiny: list[str], tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    ended = command("demo", "--out", "run", *tiny)
    assert ended.code == 0
    assert "of 4" in ended.out
    assert "run/report.html" in ended.out
    assert "Training 784-16-16-1 on 4 samples of sample" in ended.err
    assert "Searching for candidates by kkt: 1 trial of 8 candidates, 60 steps (cpu, fp32)" in ended.err
    assert "Training" not in ended.out


def test_train_then_attack_what_was_trained(command: Command, tiny: list[str], finished: Path, tmp_path: Path) -> None:
    trained = command("train", "--preset", "demo", "--out", "trained", "--json", *tiny)
    assert trained.code == 0, trained.err
    assert json.loads(trained.out)["epochs"] == 60
    weights = "model/weights.safetensors"
    assert (tmp_path / "trained" / weights).read_bytes() == (finished / weights).read_bytes()
    assert "Network saved in trained/model: training loss" in command("attack", "--resume", "trained").out
    options = ("--preset", "demo", *tiny)
    ended = command("attack", "trained", *options, "--out", "attacked", "--json")
    assert ended.code == 0, ended.err
    name = "candidates.safetensors"
    assert (tmp_path / "attacked" / name).read_bytes() == (finished / name).read_bytes()


@pytest.mark.parametrize("words", [("attack",), ("sweep", "--trials", "2")])
def test_what_is_set_about_data_that_nobody_named_is_refused(
    command: Command, finished: Path, words: tuple[str, ...]
) -> None:
    ended = command(words[0], finished, *words[1:], "--set", "data.centred=false", "--out", "attacked")
    assert ended.code == 2
    assert "--set data.centred=false says more about --data, which is not there" in ended.err
    assert not Path("attacked").exists()


@pytest.mark.parametrize("words", [("attack",), ("sweep", "--trials", "2")])
def test_what_is_set_about_data_holds_for_those_that_are_named(
    command: Command, finished: Path, tiny: list[str], words: tuple[str, ...]
) -> None:
    said = ("--data", "sample", "--task", "odd_even", "--n", "8", "--set", "data.holdout_count=30")
    said += ("--set", "data.mean_group=flip", "--set", "data.n=6")
    ended = command(words[0], finished, *words[1:], *tiny, *said, "--out", "attacked", "--json")
    assert ended.code == 0, ended.err
    config = read_run_config(Path("attacked/config.toml"))
    assert config.data is not None
    assert (config.data.name, config.data.n, config.data.holdout_count) == ("sample", 8, 30), "an option comes last"
    assert config.data.mean_group == "flip"
    ended = command(
        "match", "attacked", "--data", "sample", "--task", "odd_even", "--set", "data.holdout_count=20", "--json"
    )
    assert json.loads(ended.out)["null_count"] == 20


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
@pytest.mark.parametrize("device", ["cuda", "cuda:0"])
def test_a_gpu_that_is_not_there(command: Command, finished: Path, device: str, tmp_path: Path) -> None:
    expected = f"device '{device}' was asked for, but PyTorch sees 0 GPUs here; use --device cpu."
    assert expected in command("demo", "--device", device, "--out", "new").error
    assert expected in command("demo", "--device", device, "--dry-run").error
    assert expected in command("demo", "--device", device, "--resume", finished).error
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["reproduce", "haim-mnst"], "there is no preset 'haim-mnst'; did you mean 'haim-mnist'?"),
        (["reproduce"], "name a preset ('recollect presets' lists them), or give --resume RUN"),
        (["demo", "--set", "attack.stepz=5"], "unknown key 'attack.stepz'; did you mean 'steps'?"),
        (["demo", "--set", "attack.steps=many"], "attack.steps: input should be a valid integer"),
        (["demo", "--set", "attack.steps"], "--set needs path.to.key=value, got 'attack.steps'"),
        (["demo", "--set", "data.n=7"], "n = 7 samples cannot be split into 2 equal classes; the nearest"),
        (["demo", "--set", "data.n=100000"], "ask for at most"),
        (["demo", "--set", "data.name=mnist"], "set RECOLLECT_DATA to a folder holding mnist_train.npz"),
        (["demo", "--set", "data.name=mnits"], "the nearest name is 'mnist'"),
        (["demo", "--set", "data.task=odd"], "there is no task 'odd'"),
        (["demo", "--set", "model.outputs=2"], "model.outputs = 2, but the loss 'logistic' on this task needs 1"),
        (["demo", "--set", "model.hidden=[100000000000]"], "there is not enough memory"),
        (["demo", "--set", "match.ssim_window=31"], "SSIM window 31 does not fit images of 28 x 28 pixels"),
        (["demo", "--set", "match.group=permutations:0"], "there is no group 'permutations:0'"),
        (["reproduce", "circle-2d", "--set", "match.group=flip"], "cannot be mirrored"),
        (["demo", "--set", "attack.asymmetry.weight=1"], "attack.asymmetry.weight works against a symmetry"),
        (["demo", "--set", "attack.asymmetry.init=2"], "attack.asymmetry.init works against a symmetry"),
        (["demo", "--device", "tpu"], "there is no device 'tpu'; use auto, cpu, cuda, cuda:N"),
        (["demo", "--device", "meta"], "device 'meta' is not supported"),
        (["demo", "--device", ""], "there is no device ''"),
        (["demo", "--resume", "absent"], "'absent' is no run folder (it has no status.json)"),
        (["demo", "--out", "thesis"], "'thesis' holds other files and is no run folder"),
        (["demo", "--out", "thesis/thesis.tex"], "is a file; choose another folder with --out"),
        (["train", "--config", "absent.toml"], "cannot read the configuration 'absent.toml'"),
        (["train", "--config", "thesis", "--preset", "demo"], "give --config or --preset, not both"),
        (["train"], "no data were named; give --set data.name=NAME, or [data] in the configuration"),
        (["attack"], "an existing network is given by a folder, or by module, weights and sample_shape"),
        (["attack", "thesis"], "holds no network (no model.json)"),
        (["attack", "thesis", "--module", "a:b"], "two networks were named"),
        (["match", "thesis"], "'thesis' is no run folder"),
        (["report", "thesis"], "'thesis' is no run folder"),
    ],
)
def test_a_mistake_is_one_sentence_and_loses_nothing(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], expected: str
) -> None:
    monkeypatch.delenv("RECOLLECT_DATA", raising=False)
    monkeypatch.setattr("recollect.data.sources.read_hub", lambda name, split: None)
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.tex").write_text("years of work")
    ended = command(*words)
    assert expected in ended.error
    assert ended.error.startswith("error: ")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path.read_text() for path in files] == ["years of work"]


@pytest.mark.parametrize("words", [["demo", "--sett", "a=1"], ["dem"], ["match"], ["attack", "--n", "many"]])
def test_a_mistyped_command_is_explained(command: Command, words: list[str]) -> None:
    ended = command(*words)
    assert ended.code == 2
    assert ended.out == ""
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["demo", "--set", "attack.steps=7"], "--set"),
        (["demo", "--out", "elsewhere"], "--out"),
        (["demo", "--overwrite"], "--overwrite"),
        (["train", "--preset", "demo"], "--preset"),
        (["attack", "--data", "sample"], "--data"),
        (["attack", "--data", ""], "--data"),
        (["attack", "--n", "0"], "--n"),
        (["attack", "model"], "MODEL"),
    ],
)
def test_what_resume_would_ignore_is_refused(command: Command, finished: Path, words: list[str], option: str) -> None:
    assert f"so {option} cannot change it; leave it out" in command(*words, "--resume", finished).error


def test_the_same_options_again_may_stand_beside_resume(command: Command, tiny: list[str], finished: Path) -> None:
    assert command("reproduce", "demo", "--out", finished, *tiny, "--resume", finished, "--json").code == 0
    shown = command("demo", "--resume", finished, "--dry-run")
    assert parse_config(shown.out, "the dry run") == parse_config((finished / "config.toml").read_text(), "the run")


def test_a_bug_is_not_hidden(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(config: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("recollect.show.describe", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        command("demo", "--dry-run")
