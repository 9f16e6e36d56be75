"""Real processes, killed at many moments: a run that is gone on with ends with the bits of one never interrupted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

Command = Callable[..., Any]

SETTINGS = {
    "data.n": "4",
    "data.holdout_count": "20",
    "model.hidden": "[16, 16]",
    "training.epochs": "1000",
    "training.batch_size": "3",
    "attack.candidates": "8",
    "attack.steps": "1500",
    "attack.schedule": "cosine",
    "attack.trials": "[{lr_x = 0.6, lr_duals = 0.01, init_scale = 0.01}, {lr_x = 1e30}]",
    "baselines": '{other = {method = "activation", candidates = 6, steps = 1000}}',
    "checkpoint_seconds": "0",
}
OPTIONS = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]
CURVE, TRACE, BASELINE = "model/curve.jsonl", "trace.jsonl", "baselines/other/trace.jsonl"


@contextmanager
def process(folder: Path, *words: str | Path) -> Iterator[subprocess.Popen[str]]:
    """``recollect`` with one thread, as the test's own process has."""
    started = subprocess.Popen(
        [sys.executable, "-m", "recollect", *(str(word) for word in words)],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield started
    finally:
        started.kill()
        started.communicate()


def wait_for_lines(path: Path, count: int, running: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 120
    while not path.exists() or path.read_bytes().count(b"\n") < count:
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < deadline, f"{path} never had {count} lines"
        time.sleep(0.005)


def kill_when(run: Path, diary: str, lines: int, *words: str | Path) -> None:
    with process(run.parent, *words) as running:
        wait_for_lines(run / diary, lines, running)
        running.send_signal(signal.SIGKILL)
        running.communicate()
        assert running.returncode == -signal.SIGKILL


def diary(path: Path, key: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert all(before[key] < after[key] for before, after in pairwise(lines)), "lines were written twice"
    assert all(before["seconds"] <= after["seconds"] for before, after in pairwise(lines)), "time ran backwards"
    return [{name: value for name, value in line.items() if name != "seconds"} for line in lines]


def assert_same_run(run: Path, reference: Path) -> None:
    for name in ("candidates.safetensors", "baselines/other/candidates.safetensors", "model/weights.safetensors"):
        found, expected = load_file(run / name), load_file(reference / name)
        assert found.keys() == expected.keys()
        assert all(torch.equal(found[key], expected[key]) for key in expected), name
    assert (run / "matches.json").read_bytes() == (reference / "matches.json").read_bytes()
    assert diary(run / CURVE, "epoch") == diary(reference / CURVE, "epoch")
    assert diary(run / TRACE, "step") == diary(reference / TRACE, "step")
    assert diary(run / BASELINE, "step") == diary(reference / BASELINE, "step")
    files = [{str(path.relative_to(folder)) for path in folder.rglob("*")} for folder in (run, reference)]
    assert files[0] == files[1]


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that nobody interrupts; in a process of its own, with --json and its promise about stdout."""
    folder = tmp_path_factory.mktemp("reference")
    with process(folder, "demo", *OPTIONS, "--out", "run", "--json") as running:
        out, err = running.communicate()
    assert running.returncode == 0, err
    assert err == ""
    assert json.loads(out) == json.loads((folder / "run" / "summary.json").read_text())
    return folder / "run"


def test_killed_in_every_stage(reference: Path, command: Command, tmp_path: Path) -> None:
    run = tmp_path / "run"
    resume = ("demo", "--resume", run, "--json")
    kill_when(run, CURVE, 40, "demo", *OPTIONS, "--out", run, "--json")
    assert (run / "model" / "training.safetensors").exists()
    kill_when(run, TRACE, 25, *resume)
    assert int(load_file(run / "checkpoint.safetensors")["step"]) > 0
    kill_when(run, BASELINE, 50, *resume)
    assert command(*resume).code == 0
    assert_same_run(run, reference)
    facts = json.loads((run / "summary.json").read_text())
    assert facts["diverged_trials"] == 1
    assert facts["ms_per_step_per_trial"] == pytest.approx(1000 * facts["seconds"] / (1500 * 2))


def test_killed_before_any_checkpoint(reference: Path, command: Command, tmp_path: Path) -> None:
    run = tmp_path / "run"
    kill_when(run, TRACE, 60, "demo", *OPTIONS, "--set", "checkpoint_seconds=1000", "--out", run, "--json")
    assert not (run / "checkpoint.safetensors").exists()
    assert command("demo", "--resume", run, "--json").code == 0
    assert_same_run(run, reference)


def test_interrupted_by_hand_while_another_process_looks_on(reference: Path, command: Command, tmp_path: Path) -> None:
    run = tmp_path / "my run"
    with process(tmp_path, "demo", *OPTIONS, "--out", run) as running:
        wait_for_lines(run / TRACE, 10, running)
        assert f"another process is working on '{run}'" in command("demo", "--resume", run).error
        assert "another process" in command("demo", *OPTIONS, "--out", run, "--overwrite").error
        assert "another process" in command("report", run).error
        running.send_signal(signal.SIGINT)
        out, err = running.communicate()
    assert running.returncode == 130, err
    assert out == ""
    assert "Traceback" not in err
    assert err.strip().splitlines()[-1] == f"Interrupted. Go on with: recollect demo --resume '{run}'"
    assert command("demo", "--resume", run, "--json").code == 0
    assert_same_run(run, reference)


def test_a_half_written_start_says_how_to_start_anew(command: Command, tiny: list[str], tmp_path: Path) -> None:
    """Killed between the first two files: nothing is lost, since nothing was computed."""
    run = tmp_path / "run"
    run.mkdir()
    (run / "status.json").write_text(
        json.dumps({"format": 1, "version": "0", "name": "demo", "stages": {"train": "pending"}})
    )
    assert "has no config.toml, nothing was begun there" in command("demo", "--resume", run).error
    assert command("demo", *tiny, "--out", run, "--overwrite", "--json").code == 0
