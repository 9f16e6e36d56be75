"""The only loop. It moves variables, and reads nothing back to the host between two callbacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from recollect.core import Terms
from recollect.problem import Problem, State, initial_state, losses
from recollect.stepping import matmul_precision, stepper_within_memory


@dataclass(frozen=True)
class Snapshot:
    """What a callback sees. Tensors are on the device; reading them is what costs."""

    step: int
    problem: Problem
    state: State

    @cached_property
    def terms(self) -> Terms:
        """Losses at this moment, each ``[T]``; the search itself needs only their gradients."""
        terms = losses(self.problem, self.state.variables)
        return {name: value.detach() for name, value in terms.items()}


class Callback(Protocol):
    """Called after every ``every`` steps and after the last one."""

    every: int

    def __call__(self, snapshot: Snapshot) -> None: ...


def solve(problem: Problem, callbacks: Sequence[Callback] = (), state: State | None = None) -> State:
    """Run all trials to the last step, from the start or from a saved state."""
    with matmul_precision(problem.precision, problem.rng.device):
        state = initial_state(problem) if state is None else state
        advance = stepper_within_memory(problem, state)
        done = int(state.step)
        while done < problem.steps:
            pause = min([problem.steps, *(_next_multiple(done, callback.every) for callback in callbacks)])
            state = advance(state, pause - done)
            done = pause
            for callback in callbacks:
                if done % callback.every == 0 or done == problem.steps:
                    callback(Snapshot(done, problem, state))
    return state


def _next_multiple(done: int, every: int) -> int:
    return (done // every + 1) * every
