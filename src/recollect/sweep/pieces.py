"""Trials that ended together, as the tensors that a run folder keeps and that other machines send back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor

from recollect.config import TrialSettings

SETTINGS = tuple(TrialSettings.model_fields)


@dataclass(frozen=True)
class Ended:
    """How one trial ended, and what it found if that counts."""

    number: int
    settings: TrialSettings
    score: float
    steps: int
    seconds: float
    diverged: bool = False
    stalled: bool = False
    pruned: bool = False
    rungs: tuple[float, ...] = ()
    trace: Mapping[str, Float[Tensor, " p"]] = field(default_factory=dict)
    """Every term at the moments that the trial came to."""
    candidates: Float[Tensor, "m ..."] | None = None
    duals: Float[Tensor, " m"] | None = None


def as_tensors(ended: Sequence[Ended], labels: Int[Tensor, " m"], traced: Sequence[int]) -> dict[str, Tensor]:
    """All of it by name; rows of ``candidates`` and ``duals`` belong to ``kept``, the trials that came to their end.

    ``traced`` are the steps of the moments in a trace.
    """
    ended = sorted(ended, key=lambda trial: trial.number)
    kept = [trial for trial in ended if trial.candidates is not None]
    most = max(len(trial.rungs) for trial in ended)
    rungs = [[*trial.rungs, *[math.nan] * (most - len(trial.rungs))] for trial in ended]
    tensors = {
        "number": torch.tensor([trial.number for trial in ended]),
        "score": _doubles([trial.score for trial in ended]),
        "steps": torch.tensor([trial.steps for trial in ended]),
        "seconds": _doubles([trial.seconds for trial in ended]),
        "diverged": torch.tensor([trial.diverged for trial in ended]).byte(),
        "stalled": torch.tensor([trial.stalled for trial in ended]).byte(),
        "pruned": torch.tensor([trial.pruned for trial in ended]).byte(),
        "rungs": torch.tensor(rungs, dtype=torch.float64).reshape(len(ended), most),
        "kept": torch.tensor([trial.number for trial in kept], dtype=torch.int64),
        "labels": labels.cpu(),
        "trace.step": torch.tensor(traced),
        **_traces(ended, len(traced)),
    }
    for key in SETTINGS:
        tensors[f"settings.{key}"] = _doubles([getattr(trial.settings, key) for trial in ended])
    if kept:
        tensors["candidates"] = _stacked([trial.candidates for trial in kept])
    if kept and kept[0].duals is not None:
        tensors["duals"] = _stacked([trial.duals for trial in kept])
    return tensors


def _traces(ended: Sequence[Ended], moments: int) -> dict[str, Float[Tensor, "T p"]]:
    """Terms of all trials at all moments; nan where a trial did not come."""
    names = dict.fromkeys(name for trial in ended for name in trial.trace)
    traces = {f"trace.{name}": torch.full((len(ended), moments), math.nan) for name in names}
    for row, trial in enumerate(ended):
        for name, values in trial.trace.items():
            traces[f"trace.{name}"][row, : len(values)] = values
    return traces


def _doubles(values: Sequence[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def _stacked(values: Sequence[Tensor | None]) -> Tensor:
    return torch.stack([value.float().cpu() for value in values if value is not None])
