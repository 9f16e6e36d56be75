"""Seconds and bytes of the published loop, of the engine and of a matrix product, on this machine."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from benchmarks.cases import Case
from benchmarks.published_loop import PublishedLoop
from recollect.build import build_problem
from recollect.config import AttackConfig, TrialSettings
from recollect.estimate import attack_bytes
from recollect.objectives.cotangents import balanced_labels
from recollect.problem import Precision, initial_state
from recollect.stepping import matmul_precision, stepper_within_memory
from recollect.wide_products import times


@dataclass(frozen=True)
class Measured:
    """Per trial-step, and the most memory a step had; bytes are those of PyTorch's allocator, on GPUs only."""

    seconds: float
    peak_bytes: int | None = None
    reserved_bytes: int | None = None
    estimated_bytes: int | None = None


def seconds_per_call(call: Callable[[int], None], device: torch.device, least: float = 1.0) -> float:
    """``call(count)`` takes that many steps; as many as fill ``least`` seconds, after a warm-up."""
    call(2)
    count = 2
    while True:
        _synchronise(device)
        started = time.perf_counter()
        call(count)
        _synchronise(device)
        elapsed = time.perf_counter() - started
        if elapsed >= least:
            return elapsed / count
        count = max(count + 1, int(count * min(10.0, 1.2 * least / max(elapsed, 1e-6))))


def product_rate(precision: Precision, device: torch.device) -> float:
    """Operations per second of a large product by the engine's library, operands rounded to ``precision``."""
    size = 8192 if device.type == "cuda" else 2048
    dtype = {"fp64": torch.float64, "fp16": torch.float16}.get(precision, torch.float32)
    a, b = (torch.randn(1, size, size, device=device).to(dtype) for _ in range(2))

    def products(count: int) -> None:
        for _ in range(count):
            times(a, b)

    with matmul_precision(precision, device):
        return 2 * size**3 / seconds_per_call(products, device)


def measure_published(case: Case, dtype: torch.dtype, device: torch.device) -> Measured:
    net = case.network().to(device, dtype)
    generator = torch.Generator().manual_seed(0)
    x = 1e-3 * torch.randn(case.m, *case.sample_shape, generator=generator, dtype=torch.float64)
    duals = torch.rand(case.m, generator=generator, dtype=torch.float64)
    labels = balanced_labels(case.m, case.outputs)
    loop = PublishedLoop(net, x.to(device, dtype), duals.to(device, dtype), labels.to(device), (1e-3, 1e-4))

    def steps(count: int) -> None:
        for _ in range(count):
            loop.step()

    with matmul_precision("fp32", device):
        return Measured(seconds_per_call(steps, device))


def measure_engine(
    case: Case, precision: Precision, trials: int, device: torch.device, memory_limit: str | None = None
) -> Measured:
    settings = TrialSettings(lr_x=1e-3, lr_duals=1e-4, init_scale=1e-3, dual_min=0.5, smoothing=20)
    weights = (1.0, *[0.0] * len(case.hidden)) if case.first_layer_alone else None
    attack = AttackConfig.model_validate(
        {"candidates": case.m, "steps": 10**9, "precision": precision, "layer_weights": weights, "compile": "on"}
        | {"optimiser": "momentum", "schedule": "constant"}
        | {"trials": [settings] * trials, "space": "full" if case.rank is None else "row"}
        | {"memory_limit": memory_limit}
    )
    if device.type == "cuda":
        gc.collect()  # what was measured before has reference cycles
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    problem = build_problem(case.network(), case.sample_shape, attack, seed=0, device=device)
    state = initial_state(problem)
    with matmul_precision(problem.precision, device):
        advance, _ = stepper_within_memory(problem, state)

        def steps(count: int) -> None:
            nonlocal state
            state = advance(state, count)

        seconds = seconds_per_call(steps, device) / trials
    if device.type != "cuda":
        return Measured(seconds)
    peaks = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
    return Measured(seconds, *peaks, attack_bytes(problem))


def _synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()
