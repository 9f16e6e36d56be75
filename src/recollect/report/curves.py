"""Two diaries of a run as data: the attack's trace and the target's training curve."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from recollect.report.parsing import numbers, read_lines


@dataclass(frozen=True)
class Trace:
    """Losses during the attack, per term and trial; nan where they were not finite."""

    steps: list[float]
    terms: dict[str, Float[Tensor, "steps T"]]


@dataclass(frozen=True)
class Curve:
    """Loss and share of wrong labels while the target was trained."""

    epochs: list[float]
    loss: list[float]
    error: list[float]


def read_curve(path: Path) -> Curve | None:
    """None when the file is missing or empty."""
    lines = read_lines(path)
    if not lines:
        return None
    columns = {key: numbers([line.get(key) for line in lines]) for key in ("epoch", "loss", "error")}
    return Curve(columns["epoch"], columns["loss"], columns["error"])


def read_trace(path: Path) -> Trace | None:
    """None when the file is missing or empty; trials that a line leaves out are nan."""
    lines = read_lines(path)
    if not lines:
        return None
    rows = [line["terms"] if isinstance(line.get("terms"), dict) else {} for line in lines]
    trials = max((len(numbers(values)) for row in rows for values in row.values()), default=0)
    terms: dict[str, Tensor] = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [numbers(row.get(name)) for row in rows]
        terms[name] = torch.tensor([line + [math.nan] * (trials - len(line)) for line in values])
    return Trace(numbers([line.get("step") for line in lines]), terms)
