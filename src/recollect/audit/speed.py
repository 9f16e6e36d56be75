"""How fast the search is here: a few steps, timed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import nn

from recollect.build import build_problems
from recollect.config import AttackConfig
from recollect.problem import Problem
from recollect.solve import solve

_LEAST_SECONDS = 0.5
_MOST_STEPS = 1000


def seconds_per_step(
    net: nn.Module, sample_shape: tuple[int, ...], attack: AttackConfig, seed: int, devices: Sequence[torch.device]
) -> float:
    """Of all trials of the attack together, after a step that nobody times."""
    parts = build_problems(net, sample_shape, attack, seed, devices)
    _timed(parts, 1)
    steps = 2
    while (elapsed := _timed(parts, steps)) < _LEAST_SECONDS and steps < _MOST_STEPS:
        steps *= 2
    return elapsed / steps


def _timed(parts: Sequence[Problem], steps: int) -> float:
    short = [replace(part, steps=steps) for part in parts]
    started = time.monotonic()
    solve(short)
    for part in parts:
        if part.rng.device.type == "cuda":
            torch.cuda.synchronize(part.rng.device)
    return time.monotonic() - started
