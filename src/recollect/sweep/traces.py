"""Curves of trials: every term of the loss at some fifty moments. Values stay on the device until a trial has ended."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor

from recollect.core import Terms
from recollect.problem import Problem, State, losses
from recollect.slots import look_every
from recollect.solve import Snapshot

_MOMENTS = 50
_LEAST_APART = 20
"""Steps between two moments: losses take up to half as long as a step, and tracing should take next to nothing."""


def trace_every(steps: int) -> int:
    """After how many steps terms are noted; somebody looks at the trials then anyway.

    >>> trace_every(25_000), trace_every(1075), trace_every(30)
    (500, 20, 20)
    """
    look = look_every(steps)
    return max(_LEAST_APART, steps // _MOMENTS) // look * look


def traced_steps(steps: int) -> list[int]:
    """All moments of a trial that comes to its end.

    >>> traced_steps(50), traced_steps(1075)[-2:], len(traced_steps(25_000))
    ([20, 40, 50], [1060, 1075], 50)
    """
    every = trace_every(steps)
    return [*range(every, steps, every), steps]


def is_traced(step: int, steps: int) -> bool:
    return step % trace_every(steps) == 0 or step == steps


@dataclass
class Notes:
    """Terms at one moment after the other, of one trial or of several."""

    _terms: list[Terms] = field(default_factory=list)

    def add(self, terms: Terms) -> None:
        self._terms.append(terms)

    def read(self) -> dict[str, Float[Tensor, "p ..."]]:
        """From the device, all at once."""
        if not self._terms:
            return {}
        together = torch.stack([torch.stack(list(terms.values())) for terms in self._terms]).float().cpu()
        return dict(zip(self._terms[0], together.unbind(dim=1), strict=True))


@dataclass
class Tracing:
    """Notes on a batch while it runs; a trial that diverged has no values any more."""

    every: int
    notes: Notes = field(default_factory=Notes)

    def __call__(self, snapshot: Snapshot) -> None:
        device = snapshot.states[0].step.device
        alive = torch.cat([state.alive.to(device) for state in snapshot.states])
        self.notes.add({name: value.masked_fill(~alive, math.nan) for name, value in snapshot.terms.items()})


@torch.no_grad()
def terms_of(problem: Problem, state: State, rows: Int[Tensor, " k"]) -> Terms:
    """Losses of some trials."""
    return losses(problem.for_trials(rows), {name: value[rows] for name, value in state.variables.items()})
