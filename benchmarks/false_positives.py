"""Does an audit keep to the false-positive rate it was asked for? Networks audited with data they never saw.

    python -m benchmarks.false_positives --networks 20 --budget 8s

Digits of the bundled sample are dealt anew for each network: some to train on, as many that are passed off as its
training data, the rest held out. What is "recovered" of the second is a false positive. Each network is audited with
its own training data too, to show that the audit is not merely blind.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from scipy.stats import binomtest

from recollect import pipeline
from recollect.audit.budget import Ledger, parse_budget
from recollect.audit.running import go, plan_audit, start
from recollect.config import parse_config
from recollect.data import LabelledImages, load
from recollect.progress import Narrator

_QUIET = Narrator(quiet=True)


@dataclass(frozen=True)
class Outcome:
    recovered: int
    samples: int
    held_out_passed: int
    leak: bool


def deal(digits: LabelledImages, count: int, seed: int, folder: Path) -> None:
    """``trained.npz``, ``claimed.npz`` and ``rest.npz``, each with as many odd digits as even ones but for the rest."""
    shuffled = torch.randperm(len(digits.labels), generator=torch.Generator().manual_seed(seed))
    odd, even = (shuffled[digits.labels[shuffled] % 2 == parity] for parity in (1, 0))
    half = count // 2
    parts = {
        "trained": torch.cat([odd[:half], even[:half]]),
        "claimed": torch.cat([odd[half:count], even[half:count]]),
        "rest": torch.cat([odd[count:], even[count:]]),
    }
    for name, index in parts.items():
        np.savez(folder / f"{name}.npz", images=digits.images[index].numpy(), labels=digits.labels[index].numpy() % 2)


def train(folder: Path, seed: int) -> None:
    text = (
        f'seed = {seed}\ndevice = "cpu"\n[data]\nname = "{folder / "trained.npz"}"\ntask = "binary"\n'
        '[model]\nhidden = [64, 64]\n[training]\nlr = 0.05\nepochs = 6000\ndtype = "float32"\n'
    )
    pipeline.go(pipeline.start(parse_config(text, "benchmark"), folder / "net", "train", _QUIET, "benchmark"))


def audited(folder: Path, claimed: str, seed: int, budget: str, rate: float) -> Outcome:
    text = (
        f'name = "audit"\nseed = {seed}\ndevice = "cpu"\n[source]\nfolder = "{folder / "net"}"\n'
        f'[data]\nname = "{folder / claimed}.npz"\nholdout = "{folder / "rest.npz"}"\ntask = "binary"\n'
    )
    ledger = Ledger(parse_budget(budget))
    prepared = plan_audit(parse_config(text, "benchmark"), "centred", None, rate, ledger, _QUIET)
    begun = start(prepared, folder / f"audit-{claimed}", rate, 0, ledger, _QUIET, "benchmark")
    go(begun)
    found = begun.record
    return Outcome(found["recovered"], found["reference_count"], found["null_recovered"], found["leak"])


def summary(what: str, outcomes: list[Outcome], rate: float) -> str:
    passed, samples = sum(one.recovered for one in outcomes), sum(one.samples for one in outcomes)
    low, high = binomtest(passed, samples).proportion_ci(method="exact")
    leaks = sum(one.leak for one in outcomes)
    return (
        f"{what}: {passed} of {samples} recovered, {passed / samples:.2%} ({low:.2%} to {high:.2%}), asked for "
        f"{rate:.2%}; {leaks} of {len(outcomes)} audits say that the network leaks"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", type=int, default=20)
    parser.add_argument("--samples", type=int, default=40)
    parser.add_argument("--budget", default="8s")
    parser.add_argument("--rate", type=float, default=0.01)
    chosen = parser.parse_args()
    train_part, test_part = load("sample", "train"), load("sample", "test")
    images, labels = (
        torch.cat([getattr(part, name) for part in (train_part, test_part)]) for name in ("images", "labels")
    )
    digits = LabelledImages(images, labels, "digits")
    found: dict[str, list[Outcome]] = {"claimed": [], "trained": []}
    for seed in range(chosen.networks):
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            deal(digits, chosen.samples, seed, folder)
            train(folder, seed)
            for claimed, outcomes in found.items():
                outcomes.append(audited(folder, claimed, seed, chosen.budget, chosen.rate))
        others, own = found["claimed"][-1], found["trained"][-1]
        print(
            f"network {seed:2d}: {others.recovered} of {others.samples} others, {own.recovered} of its own", flush=True
        )
    print(summary("data the networks never saw", found["claimed"], chosen.rate))
    print(summary("their own training data", found["trained"], chosen.rate))


if __name__ == "__main__":
    main()
