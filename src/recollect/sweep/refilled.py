"""Slots in which trials come and go while others go on: shapes stay, contents are rewritten in place.

So a step is prepared once, compiled or recorded as a CUDA graph, however many trials pass through.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from jaxtyping import Bool, Int
from torch import Tensor

from recollect.problem import Problem, State, initial_state
from recollect.slots import at_rest, doing_less_at_once, look_every
from recollect.stepping import Advance, stepper_within_memory


@dataclass
class RefilledSlots:
    """Trials on one device, each at a step of its own."""

    problem: Problem
    state: State
    _advance: Advance | None = None

    @classmethod
    def opened(cls, problem: Problem) -> RefilledSlots:
        return cls(problem, _at_steps_of_their_own(initial_state(problem)))

    def advance(self, count: int) -> None:
        """So many steps of every trial that moves."""
        if self._advance is None:
            self._advance, times = stepper_within_memory(self.problem, self.state)
            self.problem = doing_less_at_once(self.problem, times)
        self.state = self._advance(self.state, count)

    def look(self) -> None:
        """Mark what has come to rest, at the same steps of a trial as when it runs alone (`recollect.slots`)."""
        steps, done = self.problem.steps, self.state.step
        if self.problem.stall:
            due = (done % look_every(steps) == 0) & (steps - done > steps / 50)
            self.state.stalled.logical_or_(at_rest(self.problem, self.state) & due)

    def empty(self, rows: Int[Tensor, " k"]) -> None:
        """What is left in these slots no longer moves."""
        self.state.stalled.index_fill_(0, rows, True)

    def refill(self, rows: Int[Tensor, " k"], newcomers: Problem) -> None:
        """Other trials begin in these slots."""
        for part in ("objective", "candidates", "optimiser"):
            own = getattr(self.problem, part)
            _rewrite(own, own.for_trials(rows), rows, getattr(newcomers, part))
        start = _at_steps_of_their_own(initial_state(newcomers))
        _rewrite(self.state, self.state.for_trials(rows), rows, start)
        trials = list(self.problem.rng.trials)
        for row, number in zip(rows.tolist(), newcomers.rng.trials, strict=True):
            trials[row] = number
        self.problem = replace(self.problem, rng=replace(self.problem.rng, trials=tuple(trials)))

    def shrunk(self, occupied: Bool[Tensor, " T"]) -> RefilledSlots | None:
        """Only the occupied slots, where that repays preparing a smaller step; None where it does not."""
        prepared = self.problem.compiled or self.problem.rng.device.type == "cuda"
        left = int(occupied.sum())
        if not left or left == len(occupied) or (prepared and 2 * left > len(occupied)):
            return None
        rows = occupied.nonzero().flatten()
        return RefilledSlots(self.problem.for_trials(rows), self.state.for_trials(rows))


def _at_steps_of_their_own(state: State) -> State:
    return replace(state, step=state.step.expand(len(state.alive)).clone())


def _rewrite(old: Any, chosen: Any, rows: Int[Tensor, " k"], new: Any) -> None:
    """Put what ``new`` has into rows of ``old``, in place.

    ``chosen`` is what ``for_trials`` made of ``old``: what it left alone is the same for all trials.
    """
    if old is chosen:
        return
    if isinstance(old, Tensor):
        old.index_copy_(0, rows, new)
    elif isinstance(old, Mapping):
        for key in old:
            _rewrite(old[key], chosen[key], rows, new[key])
    elif is_dataclass(old):
        for field in fields(old):
            own, picked, brought = (getattr(one, field.name) for one in (old, chosen, new))
            _rewrite(own, picked, rows, brought)
