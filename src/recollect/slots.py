"""Trials that are over leave, and what is left runs as a smaller problem: the others do not pay for them.

A trial is over when it diverged, or when it came to rest. Which trials run together depends on the state alone, and is
decided at fixed steps, so that a resumed run takes the same steps as one that was never interrupted.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from recollect.problem import Problem, State
from recollect.stepping import Advance, rate_at, stepper_within_memory

_LOOKS = 500
"""How often in a run somebody looks whether trials are over."""


def look_every(steps: int) -> int:
    return max(1, steps // _LOOKS)


@dataclass
class Slots:
    """The trials of one problem, those that still move in a problem of their own."""

    problem: Problem
    state: State
    """All trials; of those that run, up to date only after ``collected``."""
    _running: Int[Tensor, " k"] | None = None
    _own: State = field(init=False)
    _advance: Advance | None = None

    def __post_init__(self) -> None:
        self._own = self.state
        self._shrink()

    def advance(self, count: int) -> None:
        if self._advance is None and bool(self._own.moving.any()):
            problem = self.problem if self._running is None else self.problem.for_trials(self._running)
            self._advance, times = stepper_within_memory(problem, self._own)
            self.problem = doing_less_at_once(self.problem, times)
        if self._advance is not None:
            self._own = self._advance(self._own, count)

    def collected(self, step: int) -> State:
        """The state of all trials after ``step`` steps."""
        if self._running is None:
            self.state = self._own
        else:
            self.state = _scattered(self.state, self._own, self._running)
        self.state = replace(self.state, step=torch.full_like(self.state.step, step))
        return self.state

    def look(self) -> None:
        """Mark what has come to rest; trials that are over leave where that repays preparing a smaller step."""
        ahead = self.problem.steps - int(self._own.step)
        if self.problem.stall and ahead > self.problem.steps / 50:  # with less ahead there is nothing to be gained
            problem = self.problem if self._running is None else self.problem.for_trials(self._running)
            self._own.stalled.logical_or_(at_rest(problem, self._own))
        self._shrink()

    def _shrink(self) -> None:
        moving, slots = int(self._own.moving.sum()), len(self._own.alive)
        prepared = self.problem.compiled or self.problem.rng.device.type == "cuda"
        if moving == slots or (prepared and 2 * moving > slots):
            return
        self.collected(int(self._own.step))
        self._running = self.state.moving.nonzero().flatten()
        self._own, self._advance = self.state.for_trials(self._running), None


def doing_less_at_once(problem: Problem, times: int) -> Problem:
    """What did not fit for the step would not fit for the losses either."""
    for _ in range(times):
        smaller = problem.objective.in_smaller_chunks()
        if smaller is not None:
            problem = replace(problem, objective=smaller)
    return problem


@torch.no_grad()
def at_rest(problem: Problem, state: State) -> Bool[Tensor, " T"]:
    """Whether a fiftieth of all steps, each as long as the last, would move no variable by the tolerance."""
    rate = rate_at(problem.schedule, state.step, problem.steps)
    ahead = problem.optimiser.displacement(state.optimiser, rate)
    resting = [
        problem.steps / 50 * _size(problem, ahead[name]) < problem.stall * _size(problem, value)
        for name, value in state.variables.items()
    ]
    return torch.stack(resting).all(dim=0)


def _size(problem: Problem, value: Tensor) -> Tensor:
    return problem.total(value.flatten(1).square().sum(dim=1)).sqrt()


def _scattered(whole: State, part: State, rows: Tensor) -> State:
    def put(old: Tensor, new: Tensor) -> Tensor:
        return old.index_copy(0, rows, new)

    return State(
        step=part.step,
        variables={name: put(value, part.variables[name]) for name, value in whole.variables.items()},
        optimiser={name: put(value, part.optimiser[name]) for name, value in whole.optimiser.items()},
        alive=put(whole.alive, part.alive),
        stalled=put(whole.stalled, part.stalled),
    )
