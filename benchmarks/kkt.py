"""``python -m benchmarks.kkt --device cpu``: the engine against the published loop, ratios measured in one run.

Prints a table, and JSON with ``--json FILE``. Rates are achieved matrix-product operations over the rate that a
large product reaches on this machine in the same precision, measured just before.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.published_loop import PublishedLoop
from recollect.build import build_problem
from recollect.config import AttackConfig, TrialSettings
from recollect.problem import initial_state
from recollect.stepping import matmul_precision, stepper
from recollect.zoo import MLP, MLPArchitecture, build_network


@dataclass(frozen=True)
class Case:
    """A target and an attack on it."""

    name: str
    sample_shape: tuple[int, ...]
    hidden: tuple[int, ...]
    m: int
    first_layer_alone: bool = False
    rank: int | None = None
    """Dimensions of the row space that the engine searches; None is full dimension."""

    @property
    def widths(self) -> tuple[int, ...]:
        return (self.rank or torch.Size(self.sample_shape).numel(), *self.hidden, 1)

    def network(self) -> MLP:
        """Untrained, but with a first layer that has a signal of the rank that training would leave."""
        net = build_network(MLPArchitecture(hidden=self.hidden), self.sample_shape, seed=0)
        weight = next(net.parameters())
        if self.rank is not None:
            generator = torch.Generator().manual_seed(0)
            sides = [(weight.shape[0], self.rank), (self.rank, weight.shape[1])]
            left, right = (torch.randn(*side, generator=generator, dtype=weight.dtype) for side in sides)
            with torch.no_grad():
                weight.add_(1e-3 * left @ right)
        return net

    def operations(self) -> int:
        """Per trial-step: ``2 m (5 d h + 7 h^2)`` for d-h-h-1; the first layer alone needs ``4 h^2``, not ``7 h^2``."""
        sizes = [a * b for a, b in pairwise(self.widths)]
        inner = sum(sizes[1:])
        return 2 * self.m * (5 * sizes[0] + (4 if self.first_layer_alone else 7) * inner)


CASES = {
    "cuda": [
        Case("CIFAR 3072-1000-1000-1, m 1000", (3, 32, 32), (1000, 1000), 1000),
        Case("the same, first layer alone", (3, 32, 32), (1000, 1000), 1000, first_layer_alone=True),
        Case("row space of 512, all layers", (3, 32, 32), (1000, 1000), 1000, rank=512),
        Case("row space of 512, first layer alone", (3, 32, 32), (1000, 1000), 1000, True, 512),
        Case("MNIST 784-1000-1000-1, m 1000", (1, 28, 28), (1000, 1000), 1000),
        Case("depth 4: 3072-1000-500-100-50-1, m 1000", (3, 32, 32), (1000, 500, 100, 50), 1000),
    ],
    "cpu": [
        Case("MNIST 784-1000-1000-1, m 500", (1, 28, 28), (1000, 1000), 500),
        Case("row space of 200, first layer alone", (1, 28, 28), (1000, 1000), 500, True, 200),
    ],
}


@dataclass(frozen=True)
class Row:
    case: str
    who: str
    precision: str
    trials: int
    ms_per_step_per_trial: float
    ratio: float
    fraction_of_product_rate: float
    peak_gib: float | None


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


def product_rate(dtype: torch.dtype, device: torch.device, size: int) -> float:
    a, b = (torch.randn(size, size, dtype=dtype, device=device) for _ in range(2))

    def products(count: int) -> None:
        for _ in range(count):
            torch.mm(a, b)

    return 2 * size**3 / seconds_per_call(products, device)


def measure_published(case: Case, dtype: torch.dtype, device: torch.device) -> float:
    net = case.network().to(device, dtype)
    generator = torch.Generator().manual_seed(0)
    x = 1e-3 * torch.randn(case.m, *case.sample_shape, generator=generator, dtype=torch.float64)
    duals = torch.rand(case.m, generator=generator, dtype=torch.float64)
    labels = torch.where(torch.arange(case.m) < case.m // 2, 1, -1)
    loop = PublishedLoop(net, x.to(device, dtype), duals.to(device, dtype), labels.to(device), (1e-3, 1e-4))

    def steps(count: int) -> None:
        for _ in range(count):
            loop.step()

    return seconds_per_call(steps, device)


def measure_engine(case: Case, precision: str, trials: int, device: torch.device) -> tuple[float, float | None]:
    settings = TrialSettings(lr_x=1e-3, lr_duals=1e-4, init_scale=1e-3, dual_min=0.5, smoothing=20)
    weights = (1.0, *[0.0] * len(case.hidden)) if case.first_layer_alone else None
    attack = AttackConfig.model_validate(
        {"candidates": case.m, "steps": 10**9, "precision": precision, "layer_weights": weights, "compile": "on"}
        | {"trials": [settings] * trials, "space": "full" if case.rank is None else "row"}
    )
    problem = build_problem(case.network(), case.sample_shape, attack, seed=0, device=device)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    state = initial_state(problem)
    advance = stepper(problem, state)

    def steps(count: int) -> None:
        nonlocal state
        state = advance(state, count)

    with matmul_precision(problem.precision, device):
        seconds = seconds_per_call(steps, device)
    peak = torch.cuda.max_memory_allocated() / 2**30 if device.type == "cuda" else None
    return seconds / trials, peak


def _synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def compare(case: Case, device: torch.device, precision: str, trials: list[int]) -> list[Row]:
    """The published loop in float64 and float32, then the engine; every ratio is against float64."""
    size = 8192 if device.type == "cuda" else 2048
    published = {
        "fp64": measure_published(case, torch.float64, device),
        "fp32": measure_published(case, torch.float32, device),
    }
    rates = {name: _rate(name, device, size) for name in ("fp64", "fp32", precision)}

    def row(who: str, name: str, count: int, seconds: float, peak: float | None) -> Row:
        fraction = case.operations() / seconds / rates[name]
        return Row(case.name, who, name, count, 1000 * seconds, published["fp64"] / seconds, fraction, peak)

    rows = [row("published loop", name, 1, seconds, None) for name, seconds in published.items()]
    for count in trials:
        rows.append(row("engine", precision, count, *measure_engine(case, precision, count, device)))
    return rows


def _rate(precision: str, device: torch.device, size: int) -> float:
    with matmul_precision("tf32" if precision == "tf32" else "fp32", device):
        return product_rate(torch.float64 if precision == "fp64" else torch.float32, device, size)


def show(rows: list[Row], device: torch.device) -> None:
    name = torch.cuda.get_device_name() if device.type == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    columns = ("case", "who", "precision", "T", "ms per step and trial", "ratio", "of product rate", "peak GiB")
    table = Table(*columns, title=f"{name}, torch {torch.__version__}")
    for row in rows:
        peak = "" if row.peak_gib is None else f"{row.peak_gib:.2f}"
        speed = (f"{row.ms_per_step_per_trial:.4g}", f"{row.ratio:.1f}x", f"{row.fraction_of_product_rate:.0%}", peak)
        table.add_row(row.case, row.who, row.precision, str(row.trials), *speed)
    Console(width=140).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--json", type=Path, help="write the rows to this file as well")
    chosen = parser.parse_args()
    device = torch.device(chosen.device)
    precision, trials = ("tf32", [1, 8, 32]) if device.type == "cuda" else ("fp32", [1, 2])
    rows = [row for case in CASES[device.type] for row in compare(case, device, precision, trials)]
    show(rows, device)
    if chosen.json is not None:
        chosen.json.write_text(json.dumps([asdict(row) for row in rows], indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
