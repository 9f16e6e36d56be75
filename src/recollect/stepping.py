"""How steps are taken: one after the other, compiled, or as a recorded CUDA graph. All give the same trials."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import cache, partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from recollect.compilation import before_compiling
from recollect.core import Variables, per_trial
from recollect.problem import Precision, Problem, Schedule, State, gradient
from recollect.sharing import everywhere
from recollect.wide_products import products_of_linear_layers

Advance = Callable[[State, int], State]
"""``advance(state, count)`` takes that many steps. On a GPU it works on the buffers of the state it was made with."""

log = logging.getLogger("recollect")

_RECOMPILATIONS = 64
"""Batches of different sizes that one process may prepare; PyTorch gives up after 8 and goes on without a word."""


def stepper_within_memory(problem: Problem, state: State) -> tuple[Advance, int]:
    """A stepper that fits: where the device runs out of memory, less is worked on at once. Also says how many times."""
    times = 0
    while True:
        try:
            with _limited(problem):
                return stepper(problem, state), times
        except torch.OutOfMemoryError:
            smaller = problem.objective.in_smaller_chunks()
            if smaller is None:
                raise
            problem, times = replace(problem, objective=smaller), times + 1
        if problem.rng.device.type == "cuda":
            torch.cuda.empty_cache()
        log.warning("out of memory on %s, going on with less at once", problem.rng.device)


@contextmanager
def _limited(problem: Problem) -> Iterator[None]:
    """The limit asked for, kept by PyTorch's own allocator while the step is tried and recorded."""
    device = problem.rng.device
    if problem.memory_limit is None or device.type != "cuda":
        yield
        return
    torch.cuda.empty_cache()
    share = problem.memory_limit / torch.cuda.get_device_properties(device).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, share), device.index)
    try:
        yield
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0, device.index)


def stepper(problem: Problem, state: State) -> Advance:
    """The fastest way this problem allows here."""
    if problem.rng.device.type != "cuda":
        return _one_by_one(problem, state)
    try:
        return _graphed(problem, state)
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:  # a network that looks at values waits for the device, which no recording can
        log.warning("a step cannot be recorded on %s, going on without: %s", problem.rng.device, _first_line(error))
        return _one_by_one(problem, state)


@torch.no_grad()
def step(problem: Problem, state: State) -> State:
    """One update of all trials. A trial that stops being finite ends there: it is marked and never moves again."""
    rate = rate_at(problem.schedule, state.step, problem.steps)
    moved, optimiser = problem.optimiser.update(
        state.variables, gradient(problem, state.variables, state.step), state.optimiser, rate
    )
    return State(
        step=state.step + 1,
        variables=_where(state.moving, moved, state.variables),
        optimiser=_where(state.moving, optimiser, state.optimiser),
        alive=state.alive & everywhere(_finite(moved), problem.total),
        stalled=state.stalled,
    )


def _one_by_one(problem: Problem, state: State) -> Advance:
    take = _compiled_or(partial(step, problem), problem, state)
    # No compiler can look through it.
    fast_products = (
        nullcontext()
        if problem.compiled
        else products_of_linear_layers(len(problem.labels), problem.target.params.values())
    )

    def advance(state: State, count: int) -> State:
        with fast_products:
            for _ in range(count):
                state = take(state)
        return state

    return advance


def _graphed(problem: Problem, state: State) -> Advance:
    """One step recorded as a CUDA graph over fixed buffers: a replay costs one launch instead of hundreds."""
    device = problem.rng.device
    buffers = _tensors(state)
    before = [buffer.cpu() for buffer in buffers]

    def overwrite(state: State) -> State:
        for buffer, value in zip(_tensors(state), _tensors(step(problem, state)), strict=True):
            buffer.copy_(value)
        return state

    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.device(device):
            take = _compiled_or(overwrite, problem, state)
            side = _recording_stream(device)
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):  # workspaces and autotuning happen before the recording
                for _ in range(3):
                    take(state)
            torch.cuda.current_stream().wait_stream(side)
            torch.cuda.empty_cache()  # the recording has memory of its own
            with torch.cuda.graph(graph, stream=side):
                take(state)
    finally:  # the warm-up took steps of its own
        for buffer, value in zip(buffers, before, strict=True):
            buffer.copy_(value)

    def advance(state: State, count: int) -> State:
        with torch.cuda.device(device):
            for _ in range(count):
                graph.replay()
        return state

    return advance


@cache
def _recording_stream(device: torch.device) -> torch.cuda.Stream:
    """One for all recordings: cuBLAS keeps a workspace for every stream that it has seen, and never frees it."""
    return torch.cuda.Stream(device)


def _compiled_or(take: Callable[[State], State], problem: Problem, state: State) -> Callable[[State], State]:
    """``take`` compiled, which fuses what lies between the matrix products; as it is where that cannot be done."""
    if not problem.compiled:
        return take
    try:
        before_compiling()
        # A smaller batch is another program, not the same one with sizes left open, which would be slower.
        compiled = torch.compile(take, dynamic=False)
        with torch._dynamo.config.patch(recompile_limit=_RECOMPILATIONS):  # pyright: ignore[reportPrivateImportUsage]
            compiled(state)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # a missing compiler, an operation it does not know: none of it concerns the result
        log.warning("torch.compile is not available here, going on without: %s", _first_line(error))
        return take
    return compiled


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


@contextmanager
def matmul_precision(precision: Precision, device: torch.device) -> Iterator[None]:
    """TF32 where asked for, on GPUs only, and sums in float32; the settings are global in PyTorch and are put back."""
    rounded = precision in ("tf32", "fp16") and device.type == "cuda"
    products = torch.backends.cuda.matmul
    cudnn = torch.backends.cudnn
    before = torch.get_float32_matmul_precision(), products.allow_fp16_reduced_precision_reduction, cudnn.allow_tf32
    torch.set_float32_matmul_precision("high" if rounded else "highest")
    products.allow_fp16_reduced_precision_reduction, cudnn.allow_tf32 = False, rounded
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before[0])
        products.allow_fp16_reduced_precision_reduction, cudnn.allow_tf32 = before[1:]


def _tensors(state: State) -> list[Tensor]:
    groups = (state.variables, state.optimiser)
    return [state.step, state.alive, state.stalled, *(group[name] for group in groups for name in sorted(group))]


def _where(moving: Tensor, new: Variables, old: Variables) -> Variables:
    """New values for trials that move; what is not finite becomes so large that the next step cannot miss it."""
    return {
        name: torch.where(per_trial(moving, value), value.nan_to_num(*_huge(value)), old[name])
        for name, value in new.items()
    }


def _huge(value: Tensor) -> tuple[float, float, float]:
    """In place of nan, inf and -inf: finite, and inf when multiplied with itself."""
    huge = torch.finfo(value.dtype).max ** 0.8
    return huge, huge, -huge


def _finite(variables: Variables) -> Bool[Tensor, " T"]:
    # All variables of a trial meet in one residual: what goes wrong in one is in all of them a step later, and the
    # smallest costs nothing to look at.
    values = list(variables.values())
    sizes = [value.numel() for value in values]
    return values[sizes.index(min(sizes))].flatten(1).isfinite().all(dim=1)


def rate_at(schedule: Schedule, step: Int[Tensor, "*T"], steps: int) -> Float[Tensor, "*T"]:
    """The schedule's factor: one for all trials, or one for each where they did not begin together."""
    if schedule == "constant":
        return torch.ones((), device=step.device)
    return 0.5 * (1 + torch.cos(step * (math.pi / steps)))
