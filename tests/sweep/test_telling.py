"""Trackers of sweeps: what TensorBoard reads back, what the others are sent, and what is said where one is missing."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from recollect import trackers
from recollect.config import TrialSettings
from recollect.core import RecollectError
from recollect.sweep.ready import require_ready
from recollect.sweep.record import Trial
from recollect.sweep.settings import SweepConfig
from recollect.sweep.telling import LOGS, PACKAGES, figures, tracking

COMPLETE = Trial(3, TrialSettings(lr_x=0.25), 0.5, False, False, 1.0, "", steps=800)
PRUNED = Trial(4, TrialSettings(lr_x=0.5), 0.75, False, False, 1.0, "", pruned=True, steps=100)
DIVERGED = Trial(7, TrialSettings(lr_x=9.0), math.nan, True, False, 1.0, "", steps=800)


def test_what_is_told_of_a_trial() -> None:
    told = figures(COMPLETE)
    assert (told["score"], told["steps"], told["pruned"], told["settings/lr_x"]) == (0.5, 800.0, 0.0, 0.25)
    assert figures(PRUNED)["pruned"] == 1.0
    assert "score" not in figures(DIVERGED)
    assert all(math.isfinite(value) for value in figures(DIVERGED).values())


def test_tensorboard_reads_back_what_was_told(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TensorBoard's own, at import
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        told = tracking("tensorboard", "mine", tmp_path, print)
        told([COMPLETE, PRUNED])
        told([DIVERGED])
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [(point.step, point.value) for point in events.Scalars("trial/score")] == [(3, 0.5), (4, 0.75)]
    assert [(point.step, point.value) for point in events.Scalars("trial/settings/lr_x")] == [
        (3, 0.25),
        (4, 0.5),
        (7, 9),
    ]


class Recorder:
    """Stands for a package: remembers every call."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple, dict]] = []

    def __getattr__(self, name: str) -> Callable[..., Recorder]:
        def called(*values: Any, **named: Any) -> Recorder:
            self.calls.append((name, values, named))
            return self

        return called


@pytest.mark.parametrize("package", ["wandb", "mlflow"])
def test_what_is_sent_to_the_others(package: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    recorder = Recorder()
    monkeypatch.setattr(trackers, "importlib", SimpleNamespace(import_module=lambda name: {package: recorder}[name]))
    tracking(package, "mine", tmp_path, print)([COMPLETE])
    if package == "wandb":
        assert recorder.calls[0] == ("init", (), {"project": "recollect", "name": "mine", "dir": str(tmp_path)})
        assert recorder.calls[1:] == [("log", ({**figures(COMPLETE), "trial": 3},), {})]
    else:
        assert recorder.calls[:2] == [("set_experiment", ("recollect",), {}), ("start_run", (), {"run_name": "mine"})]
        ((name, (told,), named),) = recorder.calls[2:]
        assert (name, named, told["settings.lr_x"], told["score"]) == ("log_metrics", {"step": 3}, 0.25, 0.5)


@pytest.mark.parametrize("tracker", ["tensorboard", "wandb", "mlflow"])
def test_a_missing_package_is_said_before_anything_begins(tracker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert LOGS.keys() == PACKAGES.keys()
    monkeypatch.setitem(sys.modules, PACKAGES[tracker], None)
    with pytest.raises(RecollectError, match=rf"pip install 'recollect\[{tracker}\]'"):
        require_ready(SweepConfig(tracker=tracker))


def test_a_tracker_that_fails_at_the_start_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def nobody(name: str, folder: Path) -> Any:
        raise PermissionError("no API key configured.\nlog in first")

    monkeypatch.setitem(LOGS, "wandb", nobody)
    with pytest.raises(RecollectError, match=r"'wandb' cannot be used \(no API key configured\); .*--tracker none"):
        tracking("wandb", "mine", tmp_path, print)


def test_a_tracker_that_fails_later_is_warned_of_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls, said = [], []

    def log(known: Any, number: int) -> None:
        calls.append(number)
        if number == 4:
            raise ConnectionError("server is gone")

    monkeypatch.setitem(LOGS, "mlflow", lambda name, folder: log)
    told = tracking("mlflow", "mine", tmp_path, said.append)
    told([COMPLETE, PRUNED])
    told([DIVERGED])
    assert calls == [3, 4]
    assert len(said) == 1
    assert "server is gone" in said[0]


@pytest.mark.parametrize("package", ["wandb", "mlflow"])
def test_a_sweep_tells_a_stand_in(
    package: str, command: Any, tiny: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package as a module on the path, from the command line; a sweep that goes on may do without it."""
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / f"{package}.py").write_text(
        "calls = []\n"
        "def _called(*values, **named):\n    calls.append((values, named))\n    return __import__(__name__)\n"
        "init = log = set_experiment = start_run = log_metrics = _called\n"
    )
    monkeypatch.syspath_prepend(tmp_path / "path")
    monkeypatch.setitem(sys.modules, package, None)  # remembered as absent, so that the stand-in goes with the test
    del sys.modules[package]
    run = tmp_path / "run"
    options = ("--trials", "3", "--batch", "2", "--tracker", package, "--json")
    ended = command("sweep", "--preset", "demo", *tiny, *options, "--out", run)
    assert ended.code == 0, ended.err
    told = [values[0] for values, _ in sys.modules[package].calls if values and isinstance(values[0], dict)]
    assert len(told) == 3
    assert all(row["steps"] == 60 for row in told)
    sys.modules[package].calls.clear()
    ended = command("sweep", "--resume", run, "--trials", "4")
    assert ended.code == 0, ended.err
    told = [values[0] for values, _ in sys.modules[package].calls if values and isinstance(values[0], dict)]
    assert len(told) == 1, "trials that had ended before are told again"
    assert "100%  4 of 4" in ended.err
    assert "of 4 recovered" in ended.err
    monkeypatch.setitem(sys.modules, package, None)
    assert "pip install" in command("sweep", "--resume", run, "--trials", "5").error
    assert command("sweep", "--resume", run, "--trials", "5", "--tracker", "none", "--json").code == 0
