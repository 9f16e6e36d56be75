"""``RECOLLECT_DATA=folder python -m benchmarks.optimisers``: what is found by momentum, by Adam, as images, and smooth.

Small networks, trained anew; the same number of candidates, steps and trials for all, settings drawn from ranges that
suit each. A Markdown row for each as it is known: samples recovered beyond the null, pooled and by single trials.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import torch
from torch import Tensor

from recollect.analysis import MatchRule, judge
from recollect.build import build_problem
from recollect.config import Config, with_settings
from recollect.data import TaskData
from recollect.datasets import heldout_data, training_data
from recollect.given import Given
from recollect.presets import load_preset
from recollect.solve import solve
from recollect.zoo import build_network, fitted, train

SMALL = {"data.name": "mnist", "data.n": 50, "data.holdout_count": 1000, "model.hidden": [150, 150]}
TEN = {"data.task": "classes", "training.loss": "cross_entropy", "training.lr": 0.1, "training.epochs": 6000}
FITTED = {"data.task": "odd_even", "training.lr": 0.1, "training.epochs": 20_000, "training.dtype": "float32"}
PHOTOGRAPHS = {"data.name": "cifar10", "data.task": "vehicles_animals"}

TARGETS: dict[str, tuple[str, dict[str, Any]]] = {
    "the demo": ("demo", {}),
    "digits, odd or even, n = 50": ("demo", SMALL | {"training.epochs": 6000}),
    "digits, ten classes, n = 50": ("demo", SMALL | TEN),
    "digits, ten classes, n = 200": ("demo", SMALL | TEN | {"data.n": 200}),
    "digits, regression, n = 50": ("buzaglo-regression-l2", SMALL | FITTED),
    "photographs, n = 50": ("demo", SMALL | PHOTOGRAPHS | {"training.epochs": 6000}),
}

BY_MOMENTUM = {"lr_x": [0.03, 1.0], "lr_duals": [1e-4, 0.3]}
BY_ADAM = {"lr_x": [5e-3, 3e-2], "lr_duals": [5e-3, 3e-2], "init_scale": [1e-3, 0.1], "dual_min": [0.05, 0.3]}
SHORT = {"optimiser": "adam", "search": BY_ADAM}

SEARCHES: dict[str, dict[str, Any]] = {
    "momentum": {"optimiser": "momentum", "search": BY_MOMENTUM},
    "Adam (0.9, 0.999)": SHORT | {"adam_betas": [0.9, 0.999]},
    "Adam (0.9, 0.9)": SHORT,
    "the same, row space": SHORT | {"space": "row"},
    "the same, images": SHORT | {"space": "box"},
    "the same, smooth": SHORT | {"variation_weight": 3e-7},
}


def found(config: Config, changes: dict[str, Any], data: TaskData, holdout: TaskData, net: torch.nn.Module) -> str:
    """One row: how many samples all trials recover together, each by itself, and what luck gives."""
    drawn = {"trials": 4} | changes["search"]
    if data.classes is not None and changes["optimiser"] == "momentum":
        drawn |= {"lr_x": [3e-4, 0.3], "lr_duals": [1e-3, 1.0], "smoothing": [20.0, 200.0]}
    common = {"candidates": max(60, 2 * len(data.x)), "steps": 1000, "schedule": "cosine", "trials": [{}]}
    common |= {"layer_weights": [1.0, *[0.0] * (len(config.model.model_dump()["hidden"]))], "precision": "fp32"}
    settings = {f"attack.{key}": value for key, value in (common | changes | {"search": drawn}).items()}
    attack = with_settings(config, settings, "benchmark").attack
    attack = attack.drawn(0)
    started = time.monotonic()
    problem = build_problem(net, tuple(data.x.shape[1:]), attack, 0, torch.device("cpu"), given=Given(mean=data.mean))
    state = solve(problem)
    seconds = time.monotonic() - started
    candidates = problem.candidates.decode(state.variables).float()[state.alive]
    known = (data.x.float(), data.mean.float(), holdout.x.float(), MatchRule(), "ncc")
    pooled, alone = judge(candidates.flatten(0, 1), *known), [judge(own, *known) for own in candidates]
    assert pooled.null is not None
    assert pooled.matches.ssim is not None
    assert pooled.null.ssim is not None
    each = ", ".join(str(int(one.recovered.sum())) for one in alone if one.recovered is not None)
    ncc = f"{float(pooled.matches.ncc.mean()):.2f} ({float(pooled.null.ncc.mean()):.2f})"
    dssim = f"{_mean_dssim(pooled.matches.ssim):.3f} ({_mean_dssim(pooled.null.ssim):.3f})"
    count = 0 if pooled.recovered is None else int(pooled.recovered.sum())
    return f"{count} of {len(data.x)} | {each} | {ncc} | {dssim} | {seconds:.0f} s"


def _mean_dssim(similarity: Tensor) -> float:
    return (1 - float(similarity.mean())) / 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--targets", nargs="+", default=list(TARGETS), choices=list(TARGETS))
    chosen = parser.parse_args().targets
    print("| network | search | recovered, four trials pooled | each | mean NCC (null) | mean DSSIM (null) | time |")
    print(f"|{'---|' * 7}")
    for name in chosen:
        preset, settings = TARGETS[name]
        config = with_settings(load_preset(preset), settings, "benchmark")
        data = training_data(config)
        holdout = heldout_data(config, data)
        assert holdout is not None
        network = fitted(config.model, config.training.loss, data.classes)
        net = build_network(network, tuple(data.x.shape[1:]), config.seed)
        train(net, data.x, data.y, config.training, config.seed, torch.device("cpu"))
        for title, changes in SEARCHES.items():
            print(f"| {name} | {title} | {found(config, changes, data, holdout, net)} |", flush=True)


if __name__ == "__main__":
    main()
