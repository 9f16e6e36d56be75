"""The only loop. It moves variables, and reads nothing back to the host between two callbacks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from recollect.core import Candidates, Objective, Optimiser, Target, Terms, TrialRng, Variables, per_trial

Precision = Literal["tf32", "fp32", "fp64"]
Schedule = Literal["constant", "cosine"]
Prior = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Problem:
    """Everything that is fixed while T trials run: what to minimise, over what, and how."""

    target: Target
    objective: Objective
    candidates: Candidates
    optimiser: Optimiser
    labels: Int[Tensor, " m"]
    rng: TrialRng
    steps: int
    priors: Mapping[str, Prior]
    schedule: Schedule = "constant"
    precision: Precision = "fp32"


@dataclass(frozen=True)
class State:
    """Everything that changes. Saving it and going on later gives the same bits as never having stopped."""

    step: Int[Tensor, ""]
    variables: Variables
    optimiser: Variables
    alive: Bool[Tensor, " T"]
    terms: Terms


@dataclass(frozen=True)
class Snapshot:
    """What a callback sees. Tensors are on the device; reading them is what costs."""

    step: int
    problem: Problem
    state: State


class Callback(Protocol):
    """Called after every ``every`` steps and after the last one."""

    every: int

    def __call__(self, snapshot: Snapshot) -> None: ...


def solve(problem: Problem, callbacks: Sequence[Callback] = (), state: State | None = None) -> State:
    """Run all trials to the last step, from the start or from a saved state."""
    with matmul_precision(problem.precision, problem.rng.device):
        state = initial_state(problem) if state is None else state
        advance = _stepper(problem, state)
        done = int(state.step)
        while done < problem.steps:
            pause = min([problem.steps, *(_next_multiple(done, callback.every) for callback in callbacks)])
            state = advance(state, pause - done)
            done = pause
            for callback in callbacks:
                if done % callback.every == 0 or done == problem.steps:
                    callback(Snapshot(done, problem, state))
    return state


def initial_state(problem: Problem) -> State:
    """Variables as drawn, no step taken; the terms are those of the start."""
    variables = problem.candidates.init(problem.rng) | problem.objective.init(problem.rng)
    terms = losses(problem, variables)
    return State(
        step=torch.zeros((), dtype=torch.int64, device=problem.rng.device),
        variables=variables,
        optimiser=problem.optimiser.init(variables),
        alive=torch.ones(len(problem.rng.trials), dtype=torch.bool, device=problem.rng.device),
        terms={name: value.detach() for name, value in terms.items()},
    )


def losses(problem: Problem, variables: Variables) -> Terms:
    """Every term of the objective and every prior, each ``[T]``."""
    x = problem.candidates.decode(variables)
    terms = problem.objective(problem.target, x, problem.labels, variables)
    return terms | {name: prior(x) for name, prior in problem.priors.items()}


def step(problem: Problem, state: State) -> State:
    """One update of all trials. A trial whose loss or gradient is not finite stays where it was, for good."""
    leaves = {name: value.detach().requires_grad_() for name, value in state.variables.items()}
    with torch.enable_grad():
        terms = losses(problem, leaves)
        total = torch.stack(list(terms.values())).sum(dim=0)
    # Trials share no variable, so the gradient of the sum holds each trial's own gradient.
    grads = dict(zip(leaves, torch.autograd.grad(total.sum(), list(leaves.values())), strict=True))
    rate = _rate(problem.schedule, state.step, problem.steps)
    moved, optimiser = problem.optimiser.update(state.variables, grads, state.optimiser, rate)
    alive = state.alive & total.isfinite() & _finite(moved)
    return State(
        step=state.step + 1,
        variables=_where(alive, moved, state.variables),
        optimiser=_where(alive, optimiser, state.optimiser),
        alive=alive,
        terms=_where(alive, {name: value.detach() for name, value in terms.items()}, state.terms),
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


def _stepper(problem: Problem, state: State) -> Callable[[State, int], State]:
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
    groups = (state.variables, state.optimiser, state.terms)
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
