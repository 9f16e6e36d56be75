"""``python -m benchmarks.trial_scores --out FOLDER``: which traits of a trial tell how much it recovers.

For each target, random settings, half of them from broad ranges and half from usual ones, two trials of each; for each
trial its traits, which need no training data, and the number of training samples that it recovers beyond the null,
which does.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks.agreement import agreement
from benchmarks.traits import floor, traits
from recollect.analysis import MatchRule, judge
from recollect.build import build_problems
from recollect.candidates.subspace import signal_basis
from recollect.config import Config, SearchConfig, with_settings
from recollect.datasets import heldout_data, training_data
from recollect.presets import load_preset
from recollect.problem import split
from recollect.solve import solve
from recollect.zoo import build_network, fitted, train

COMMON = {"init_scale": [1e-5, 0.1], "dual_min": [0.01, 0.8], "smoothing": [10.0, 300.0]}
BROAD = {
    "momentum": COMMON | {"lr_x": [1e-3, 1.0], "lr_duals": [1e-4, 1.0]},
    "adam": COMMON | {"lr_x": [3e-4, 0.3], "lr_duals": [3e-4, 0.3]},
}

FIRST = {"attack.layer_weights": [1.0, 0.0, 0.0]}
LARGE: dict[str, Any] = FIRST | {
    "attack.candidates": 1000,
    "attack.steps": 10_000,
    "attack.schedule": "cosine",
    "attack.space": "row",
    "attack.precision": "fp16",
    "training.epochs": 50_000,
    "training.dtype": "tf32",
}
DIGITS = {"data.name": "mnist", "match.score": "ncc"}
CLOTHES = {"data.name": "fashion_mnist", "match.score": "ssim"}
SMALL: dict[str, Any] = FIRST | {"attack.steps": 3000, "attack.schedule": "cosine"}
TEN = {"data.task": "classes", "training.loss": "cross_entropy", "training.lr": 0.1}
DECAY = {"training.lr": 0.03, "training.epochs": 150_000}
"""Weight decay has had time to act when rate, decay and epochs multiply to 3 or more."""
KERNELS = {
    "attack.steps": 3000,
    "attack.space": "full",
    "attack.precision": "tf32",
    "attack.layer_weights": None,
    "match.vote_ratio": 1.5,
}
LONG = {"training.lr": 0.05, "training.epochs": 100_000}
FEW_KERNELS: dict[str, Any] = {
    "model.kernel": 5,
    "model.channels": 8,
    "model.hidden": [200],
    "training.lr": 0.05,
    "training.epochs": 30_000,
    "training.dtype": "float32",
    "data.task": "odd_even",
    "data.n": 50,
    "attack.candidates": 100,
    "attack.steps": 1000,
    "attack.precision": "fp32",
}
ADAM: dict[str, Any] = {"attack.optimiser": "adam", "attack.search": {"trials": 1}}
"""With the ranges that suit it."""

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "cifar-binary-500": ("haim-cifar10", LARGE),
    "cifar-binary-100": ("haim-cifar10", LARGE | {"data.n": 100, "attack.candidates": 300}),
    "cifar-binary-200": ("haim-cifar10", LARGE | {"data.n": 200, "attack.candidates": 600}),
    "mnist-binary-500": ("haim-mnist", LARGE),
    "mnist-binary-100": ("haim-mnist", LARGE | {"data.n": 100, "attack.candidates": 300}),
    "fashion-binary-200": ("haim-mnist", LARGE | CLOTHES | {"data.n": 200, "attack.candidates": 600}),
    "cifar-classes-500": ("buzaglo-multiclass-pooled", LARGE),
    "cifar-classes-200": ("buzaglo-multiclass-pooled", LARGE | {"data.n": 200, "attack.candidates": 600}),
    "mnist-classes-200": ("buzaglo-multiclass-pooled", LARGE | DIGITS | {"data.n": 200, "attack.candidates": 600}),
    "mnist-classes-100": ("buzaglo-multiclass-pooled", LARGE | DIGITS | {"data.n": 100, "attack.candidates": 300}),
    "fashion-classes-300": ("buzaglo-multiclass-pooled", LARGE | CLOTHES | {"data.n": 300, "attack.candidates": 800}),
    "cifar-regression-300": ("buzaglo-regression-l2", LARGE | DECAY | {"data.n": 300, "attack.candidates": 800}),
    "cifar-regression-100": ("buzaglo-regression-l2", LARGE | DECAY | {"data.n": 100, "attack.candidates": 300}),
    "fashion-regression-100": (
        "buzaglo-regression-l2",
        LARGE | DECAY | CLOTHES | {"data.task": "odd_even", "data.n": 100, "attack.candidates": 300},
    ),
    "cifar-conv-100": ("buzaglo-conv", LARGE | KERNELS | LONG | {"data.n": 100, "attack.candidates": 200}),
    "cifar-conv-200": ("buzaglo-conv", LARGE | KERNELS | LONG | {"data.n": 200, "attack.candidates": 400}),
    "mnist-conv-100": (
        "buzaglo-conv",
        LARGE | KERNELS | LONG | DIGITS | {"data.task": "odd_even", "data.n": 100, "attack.candidates": 200},
    ),
    "small-conv-digits-50": ("buzaglo-conv", KERNELS | FEW_KERNELS | DIGITS),
    "small-conv-clothes-50": ("buzaglo-conv", KERNELS | FEW_KERNELS | CLOTHES | {"model.kernel": 3}),
    "small-mnist-20": ("demo", SMALL | {"data.name": "mnist"}),
    "small-fashion-40": ("demo", SMALL | CLOTHES | {"data.n": 40, "match.score": "ncc"}),
    "small-classes-50": ("demo", SMALL | TEN | {"data.name": "mnist", "data.n": 50}),
}
CASES |= {f"{name}-adam": (preset, settings | ADAM) for name, (preset, settings) in CASES.items()}


def settled(case: str) -> Config:
    preset, settings = CASES[case]
    return with_settings(load_preset(preset), settings, "benchmark")


def collect(case: str, trials: int, batch: int, device: torch.device) -> dict[str, Any]:
    """Settings, traits and truth of every trial of one target."""
    config = settled(case)
    data = training_data(config)
    holdout = heldout_data(config, data)
    assert holdout is not None
    architecture = fitted(config.model, config.training.loss, data.classes)
    shape = tuple(data.x.shape[1:])
    net = build_network(architecture, shape, config.seed)
    started = time.monotonic()
    last = train(net, data.x, data.y, config.training, config.seed, device)
    trained = time.monotonic() - started
    usual = SearchConfig(trials=1) if config.attack.search is None else config.attack.search
    ranges = [SearchConfig.model_validate({"trials": trials // 4} | BROAD[config.attack.optimiser])]
    ranges.append(usual.model_copy(update={"trials": trials // 4}))
    drawn = [each for own in ranges for each in own.draw(config.seed) for _ in range(2)]
    attack = config.attack.model_copy(update={"trials": drawn, "search": None})
    rule = MatchRule(each_candidate_once=config.match.each_candidate_once, vote_ratio=config.match.vote_ratio)
    rows: list[dict[str, Any]] = []
    lowest = noise_floor(net)
    seen: list[torch.Tensor] = []
    for start in range(0, trials, batch):
        numbers = range(start, min(trials, start + batch))
        parts = build_problems(net, shape, attack, config.seed, [device], numbers)
        state = solve(parts)
        (own,) = split(state, parts)
        found = {name: value.tolist() for name, value in traits(parts[0], own).items()}
        candidates = parts[0].candidates.decode(own.variables)
        seen.append(candidates.float())
        for index, number in enumerate(numbers):
            row = {"trial": number, **drawn[number].model_dump(), "diverged": not bool(own.alive[index])}
            row |= {name: values[index] for name, values in found.items()}
            row |= {"over_floor": abs(math.log(row["residual_0"] / lowest)) if row["residual_0"] > 0 else math.nan}
            if not row["diverged"] and bool(candidates[index].isfinite().all()):
                args = [t.to(device) for t in (candidates[index].float(), data.x.float(), data.mean.float())]
                verdict = judge(*args, holdout.x.float().to(device), rule, config.match.score)
                assert verdict.recovered is not None
                row |= {"recovered": int(verdict.recovered.sum()), "mean_ncc": float(verdict.matches.ncc.mean())}
                row |= {"ncc80": int((verdict.matches.ncc >= 0.8).sum())}
                if verdict.matches.ssim is not None:
                    row |= {"ssim04": int((verdict.matches.ssim > 0.4).sum())}
            rows.append(row)
    for name, values in agreement(torch.cat(seen), [number // 2 for number in range(trials)]).items():
        for row, value in zip(rows, values, strict=True):
            row[name] = value
    seconds = {"train": trained, "all": time.monotonic() - started}
    return {"case": case, "n": len(data.x), "loss": last.loss, "seconds": seconds, "trials": rows}


def noise_floor(net: nn.Module) -> float:
    """That of the directions of the first layer that stand out from the noise."""
    weight = next(net.parameters()).detach().flatten(1)
    basis = signal_basis(weight, min(weight.shape))
    return floor(weight, basis.shape[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES), metavar="CASE")
    parser.add_argument("--trials", type=int, default=48)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    for case in chosen.cases:
        found = collect(case, chosen.trials, chosen.batch, torch.device(chosen.device))
        (chosen.out / f"{case}.json").write_text(json.dumps(found), encoding="utf-8")
        print(case, found["loss"], found["seconds"], flush=True)


if __name__ == "__main__":
    main()
