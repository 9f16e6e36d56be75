"""Two diaries of a run as data: the attack's trace and the target's training curve."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from recollect.report.parsing import numbers, read_lines
from recollect.report.plots import thinned

MOST_TRIALS = 200
"""Lines of each term that a chart can hold."""
WILD = 10
"""Times the loss that trials begin with: one that comes there has diverged or is about to."""


@dataclass(frozen=True)
class Trace:
    """Losses during the attack, per term and trial; nan where they were not finite."""

    steps: list[float]
    terms: dict[str, Float[Tensor, "steps T"]]

    @property
    def trials(self) -> int:
        return max((values.shape[1] for values in self.terms.values()), default=0)

    def wild(self) -> Bool[Tensor, " T"]:
        """Trials whose loss would flatten the lines of all others; none where there are no others."""
        none = torch.zeros(self.trials, dtype=torch.bool)
        if not self.trials:
            return none
        values = torch.stack(list(self.terms.values()))
        known = values.isfinite().any(dim=0)
        began = values.nan_to_num(0).sum(dim=0)[known.int().argmax(dim=0), torch.arange(self.trials)]
        usual = began[began > 0]
        found = (values > WILD * usual.median()).any(dim=0).any(dim=0) if len(usual) else none
        return found if bool((known.any(dim=0) & ~found).any()) else none

    def drawn(self) -> Trace:
        """What a chart holds: of very many trials some, evenly chosen; wild ones are cut off where the others end.

        A term that is zero in all trials is left out, unless all terms are.
        """
        if not self.trials:
            return self
        chosen, tame = thinned(self.trials, MOST_TRIALS), ~self.wild()
        told = {name: values for name, values in self.terms.items() if (values.nan_to_num(0) != 0).any()} or self.terms
        edge = {name: values[:, tame].nan_to_num(-math.inf).max() for name, values in told.items()}
        return Trace(self.steps, {name: values[:, chosen].clamp(max=edge[name]) for name, values in told.items()})


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
