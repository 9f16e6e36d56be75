"""What a run will need, before it runs: operations, memory, time. Printed by --dry-run."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from recollect.candidates.generator import Generator
from recollect.config import AttackConfig, Config
from recollect.memory import footprint_of, step_bytes
from recollect.objectives import KKT
from recollect.problem import Problem, initial_state
from recollect.solve import Snapshot
from recollect.stepping import matmul_precision, stepper_within_memory
from recollect.targets import inside, is_perceptron
from recollect.zoo.arithmetic import DTYPES, training_arithmetic

_LAUNCH_SECONDS = {"cpu": 3e-4, "cuda": 2e-4}
"""Overhead of one step or epoch that no amount of arithmetic explains; measured on small problems."""


@dataclass(frozen=True)
class Estimate:
    """Seconds and bytes; rough by design: good to a factor of two for time."""

    train_seconds: float
    attack_seconds: float
    attack_bytes: int


def estimate(
    net: nn.Module,
    sample_shape: tuple[int, ...],
    problem: Problem | None,
    config: Config,
    samples: int | None,
    device: torch.device,
) -> Estimate:
    """From the network's size and the matrix-product rate that this machine reaches now."""
    forward = _forward_products(net, sample_shape)
    train_seconds = 0.0
    if samples is not None and config.source is None:
        batches = 1 if config.training.batch_size is None else -(-samples // config.training.batch_size)
        with training_arithmetic(config.training.dtype, device):
            work = 6 * forward * samples / _rate(DTYPES[config.training.dtype], device)
        train_seconds = config.training.epochs * (work + batches * _LAUNCH_SECONDS[device.type])
    attacks = {"": config.attack, **config.baselines}
    seconds = {name: _attack_seconds(forward, attack, device) for name, attack in attacks.items()}
    if problem is None:
        return Estimate(train_seconds, sum(seconds.values()), 0)
    if device.type != "cuda":
        return Estimate(train_seconds, sum(seconds.values()), attack_bytes(problem))
    step_seconds, peak = tried(problem)
    seconds[""] = config.attack.steps * step_seconds
    return Estimate(train_seconds, sum(seconds.values()), peak)


def tried(problem: Problem) -> tuple[float, int]:
    """Seconds of a step and its peak memory on a GPU, of a few steps taken: what a compiler keeps, no formula knows."""
    device, steps = problem.rng.device, 20
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)
    state = initial_state(problem)
    with matmul_precision(problem.precision, device):
        advance, _ = stepper_within_memory(problem, state)
        state = advance(state, 1)
        torch.cuda.synchronize(device)
        started = time.perf_counter()
        state = advance(state, steps)
        torch.cuda.synchronize(device)
        seconds = (time.perf_counter() - started) / steps
        # A run also looks at its losses, and ends with its candidates as samples.
        _ = Snapshot(steps, [problem], [state]).terms
        if not isinstance(problem.candidates, Generator):
            _ = problem.candidates.decode(state.variables)
    return seconds, torch.cuda.max_memory_allocated(device)


def attack_bytes(problem: Problem) -> int:
    """Peak memory of a step. For networks that are no plain MLP a guess: what they keep inside is not known."""
    target, trials = problem.target, len(problem.rng.trials)
    size = torch.finfo(problem.rng.dtype).bits // 8
    m, values = problem.candidates.candidates, torch.Size(target.sample_shape).numel()
    inner, moves = inside(target)
    if is_perceptron(inner):
        at_once = problem.objective.at_once if isinstance(problem.objective, KKT) else None
        compiled = problem.compiled and problem.rng.device.type == "cuda"
        footprint = footprint_of(size, inner.half, compiled, problem.optimiser.copies)
        return step_bytes(inner.widths, trials, m, at_once, footprint, moves)
    parameters = sum(p.numel() for p in target.params.values())
    return size * (trials * (20 * m * values + 4 * parameters) + parameters)


def _attack_seconds(forward: int, attack: AttackConfig, device: torch.device) -> float:
    if attack.method == "weights":
        return 0.0
    dtype = torch.float64 if attack.precision == "fp64" else torch.float32
    rows = attack.generator.batch if attack.method == "generator" else attack.candidates
    work = 2 * _passes(attack) * forward * rows * len(attack.trials) / _rate(dtype, device)
    return attack.steps * (work + 3 * _LAUNCH_SECONDS[device.type])


def _passes(attack: AttackConfig) -> int:
    """Products per weight of the network, or as many as take the same time."""
    if attack.method == "generator":
        # The generator costs about as much as the network, and convolutions reach a fraction of the rate of matrices.
        return 45 if "gradient_norm" in attack.generator.term_weights else 15
    # Forward, backward and the derivative of both.
    return 7 if attack.method == "kkt" else 2


def _forward_products(net: nn.Module, sample_shape: tuple[int, ...]) -> int:
    first = next(net.parameters())
    counter = FlopCounterMode(display=False)
    with counter, torch.no_grad():
        net(torch.zeros(1, *sample_shape, dtype=first.dtype, device=first.device))
    return counter.get_total_flops() // 2


def _rate(dtype: torch.dtype, device: torch.device) -> float:
    """Operations per second of a matrix product of this machine, measured for a fifth of a second."""
    a, b = (torch.randn(1024, 1024, dtype=dtype, device=device) for _ in range(2))
    (a @ b)[0, 0].item()
    done, started = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - started) < 0.2:
        (a @ b)[0, 0].item()
        done += 1
    return done * 2 * 1024**3 / elapsed
