"""What a run will need, before it runs: operations, memory, time. Printed by --dry-run."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from recollect.config import AttackConfig, Config
from recollect.zoo.training import DTYPES

_LAUNCH_SECONDS = {"cpu": 3e-4, "cuda": 2e-4}
"""Overhead of one step or epoch that no amount of arithmetic explains; measured on small problems."""


@dataclass(frozen=True)
class Estimate:
    """Seconds and bytes; rough by design: good to a factor of two for time."""

    train_seconds: float
    attack_seconds: float
    attack_bytes: int


def estimate(
    net: nn.Module, sample_shape: tuple[int, ...], config: Config, samples: int | None, device: torch.device
) -> Estimate:
    """From the network's size and the matrix-product rate that this machine reaches now."""
    forward = _forward_products(net, sample_shape)
    train_seconds = 0.0
    if samples is not None and config.source is None:
        batches = 1 if config.training.batch_size is None else -(-samples // config.training.batch_size)
        work = 6 * forward * samples / _rate(DTYPES[config.training.dtype], device)
        train_seconds = config.training.epochs * (work + batches * _LAUNCH_SECONDS[device.type])
    attack_seconds = sum(
        _attack_seconds(net, forward, attack, device) for attack in (config.attack, *config.baselines.values())
    )
    return Estimate(train_seconds, attack_seconds, attack_bytes(net, sample_shape, config.attack))


def attack_bytes(net: nn.Module, sample_shape: tuple[int, ...], attack: AttackConfig) -> int:
    """Peak memory: five copies of the candidates, ten of every hidden activation, four of the parameters' gradients."""
    width = 8 if attack.precision == "fp64" else 4
    values = torch.Size(sample_shape).numel()
    hidden = sum(part.out_features for part in net.modules() if isinstance(part, nn.Linear))
    parameters = sum(p.numel() for p in net.parameters())
    per_trial = attack.candidates * (5 * values + 10 * hidden) + 4 * parameters
    return width * (len(attack.trials) * per_trial + parameters)


def _attack_seconds(net: nn.Module, forward: int, attack: AttackConfig, device: torch.device) -> float:
    if attack.method == "weights":
        return 0.0
    dtype = torch.float64 if attack.precision == "fp64" else torch.float32
    # Forward, backward and the derivative of both: seven products per weight.
    passes = 7 if attack.method == "kkt" else 2
    work = 2 * passes * forward * attack.candidates * len(attack.trials) / _rate(dtype, device)
    return attack.steps * (work + 3 * _LAUNCH_SECONDS[device.type])


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
