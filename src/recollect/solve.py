"""The only loop. It moves variables, and reads nothing back to the host between two callbacks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from recollect.core import Terms, Variables, per_trial
from recollect.problem import Precision, Problem, Schedule, State, gradient, initial_state, losses


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
        advance = stepper(problem, state)
        done = int(state.step)
        while done < problem.steps:
            pause = min([problem.steps, *(_next_multiple(done, callback.every) for callback in callbacks)])
            state = advance(state, pause - done)
            done = pause
            for callback in callbacks:
                if done % callback.every == 0 or done == problem.steps:
                    callback(Snapshot(done, problem, state))
    return state


@torch.no_grad()
def step(problem: Problem, state: State) -> State:
    """One update of all trials. A trial that stops being finite stays where it was, for good."""
    rate = _rate(problem.schedule, state.step, problem.steps)
    moved, optimiser = problem.optimiser.update(
        state.variables, gradient(problem, state.variables), state.optimiser, rate
    )
    alive = state.alive & _finite(moved)
    return State(
        step=state.step + 1,
        variables=_where(alive, moved, state.variables),
        optimiser=_where(alive, optimiser, state.optimiser),
        alive=alive,
    )


@contextmanager
def matmul_precision(precision: Precision, device: torch.device) -> Iterator[None]:
    """TF32 where asked for, on GPUs only; the setting is global in PyTorch and is put back."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if precision == "tf32" and device.type == "cuda" else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def stepper(problem: Problem, state: State) -> Callable[[State, int], State]:
    if problem.rng.device.type == "cuda":
        return _graphed(problem, state)

    def eager(state: State, count: int) -> State:
        for _ in range(count):
            state = step(problem, state)
        return state

    return eager


def _graphed(problem: Problem, state: State) -> Callable[[State, int], State]:
    """One step recorded as a CUDA graph over fixed buffers: a replay costs one launch instead of hundreds."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # workspaces and autotuning happen before the recording
        for _ in range(3):
            step(problem, state)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        after = step(problem, state)
        for buffer, value in zip(_tensors(state), _tensors(after), strict=True):
            buffer.copy_(value)

    def replay(state: State, count: int) -> State:
        for _ in range(count):
            graph.replay()
        return state

    return replay


def _tensors(state: State) -> list[Tensor]:
    groups = (state.variables, state.optimiser)
    return [state.step, state.alive, *(group[name] for group in groups for name in sorted(group))]


def _where(alive: Tensor, new: Variables, old: Variables) -> Variables:
    return {name: torch.where(per_trial(alive, value), value, old[name]) for name, value in new.items()}


def _finite(variables: Variables) -> Bool[Tensor, " T"]:
    # The sum of a trial's values is finite only if each of them is, and costs one pass.
    sums = [value.flatten(1).sum(dim=1) for value in variables.values()]
    return torch.stack(sums).isfinite().all(dim=0)


def _rate(schedule: Schedule, step: Tensor, steps: int) -> Float[Tensor, ""]:
    if schedule == "constant":
        return torch.ones((), device=step.device)
    return 0.5 * (1 + torch.cos(step * (math.pi / steps)))


def _next_multiple(done: int, every: int) -> int:
    return (done // every + 1) * every
