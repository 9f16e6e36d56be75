"""Trackers: what TensorBoard reads back, what is said where a package is missing, and that the search is untouched."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from tests.cases import SAMPLE_SHAPE, chain

from recollect import AttackConfig, Reconstruction, TrialSettings, attack, trackers
from recollect.callbacks import Tracker
from recollect.core import RecollectError

CONFIG = AttackConfig(candidates=4, steps=5, precision="fp64", trials=(TrialSettings(), TrialSettings(lr_x=0.1)))


def search(*callbacks: Tracker) -> Reconstruction:
    return attack(chain((12, 5, 1), (True, False)), SAMPLE_SHAPE, CONFIG, device="cpu", callbacks=callbacks)


def test_a_tracker_gets_every_term_of_every_trial_and_changes_nothing() -> None:
    logged: list[tuple[str, float, int]] = []
    found = search(Tracker(lambda *entry: logged.append(entry), every=2))
    assert torch.equal(found.candidates, search().candidates)
    assert [step for name, _, step in logged if name == "box/trial_1"] == [2, 4, 5]
    assert {name for name, _, _ in logged} == {f"{term}/trial_{trial}" for term in found.terms for trial in (0, 1)}
    last = {name: value for name, value, step in logged if step == 5}
    assert last == {
        f"{term}/trial_{trial}": float(value[trial]) for term, value in found.terms.items() for trial in (0, 1)
    }


def test_tensorboard_reads_back_what_was_logged(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TensorBoard's own, at import
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        found = search(trackers.tensorboard(str(tmp_path), every=2))
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    assert events.Tags()["scalars"]
    for term, values in found.terms.items():
        for trial in (0, 1):
            curve = events.Scalars(f"{term}/trial_{trial}")
            assert [point.step for point in curve] == [2, 4, 5]
            assert curve[-1].value == pytest.approx(float(values[trial]), rel=1e-6)


@pytest.mark.skipif(importlib.util.find_spec("wandb") is not None, reason="wandb is installed")
def test_a_missing_wandb_is_explained() -> None:
    with pytest.raises(RecollectError, match=r"pip install 'recollect\[wandb\]'"):
        trackers.wandb("project")


@pytest.mark.skipif(importlib.util.find_spec("mlflow") is not None, reason="mlflow is installed")
def test_a_missing_mlflow_is_explained() -> None:
    with pytest.raises(RecollectError, match=r"pip install 'recollect\[mlflow\]'"):
        trackers.mlflow("experiment")


class Recorder:
    """Stands for a package: remembers every call."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple, dict]] = []

    def __getattr__(self, name: str) -> Callable[..., Recorder]:
        def called(*values: object, **named: object) -> Recorder:
            self.calls.append((name, values, named))
            return self

        return called


@pytest.mark.parametrize("package", ["wandb", "mlflow"])
def test_what_is_sent_to_the_other_trackers(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    recorder = Recorder()
    monkeypatch.setattr(trackers, "importlib", SimpleNamespace(import_module=lambda name: {package: recorder}[name]))
    found = search(getattr(trackers, package)("mine", every=5))
    box = float(found.terms["box"][1])
    if package == "wandb":
        assert recorder.calls[0] == ("init", (), {"project": "mine", "name": None, "mode": None})
        assert ("log", ({"box/trial_1": box, "step": 5},), {}) in recorder.calls
    else:
        assert recorder.calls[:2] == [("set_experiment", ("mine",), {}), ("start_run", (), {"run_name": None})]
        assert ("log_metric", ("box.trial_1", box), {"step": 5}) in recorder.calls
