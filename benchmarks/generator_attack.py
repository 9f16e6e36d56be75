"""Ordinary classifiers attacked by generators and by activation maximisation: the rows of docs/generator.md.

``RECOLLECT_DATA=folder python -m benchmarks.generator_attack tldr-mnist-1000 tldr-fashion-1000 --device cuda`` prints a
row for each attack of each preset as soon as it is known. A preset with a series (``tldr-ablation``) has a row for each
member, all on the network that is trained once. ``--set`` changes the presets as it does for the command line.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from recollect.api import attack
from recollect.config import AttackConfig, Config
from recollect.data import TaskData
from recollect.datasets import heldout_data, training_data
from recollect.outputs import error_rate
from recollect.presets import load_preset
from recollect.report.class_grid import class_grid
from recollect.series.members import members
from recollect.stages.generated import averages, class_rows, deviations
from recollect.stages.generated_scores import Scene, Scores, membership, real_images, scores_of
from recollect.stages.independent import appointed
from recollect.zoo import OrdinaryTraining, build_network, fitted, train_ordinarily

COLUMNS = {
    "label_agreement": "label agreement",
    "attack_accuracy": "attack accuracy",
    "attack_accuracy_perceptron": "perceptron",
    "attack_accuracy_neighbour": "neighbour",
    "density": "density",
    "coverage": "coverage",
    "feature_cosine": "cosine",
    "class_feature_cosine": "within classes",
    "frechet_training": "Frechet, training",
    "frechet_held_out": "held out",
    "nearest_training_ncc": "nearest NCC",
    "member_advantage": "member advantage",
}


@dataclass(frozen=True)
class Stage:
    """A trained network, and who judges what is made of it."""

    scene: Scene
    training: TaskData
    device: torch.device


def prepare(config: Config, device: torch.device) -> Stage:
    data = training_data(config)
    shape = tuple(data.x.shape[1:])
    assert isinstance(config.training, OrdinaryTraining)
    net = build_network(fitted(config.model, config.training.loss, data.classes), shape, config.seed)
    started = time.monotonic()
    train_ordinarily(net, data.x, data.y, config.training, config.seed, device)
    heldout = heldout_data(config, data)
    tested = "" if heldout is None else f", test accuracy {1 - error_rate(net, heldout):.3f}"
    print(f"\n{config.name}: {len(data.x)} images{tested}, {time.monotonic() - started:.0f} s", flush=True)
    scene = Scene(net.to(device), config.attack.generator.features, data, appointed(config, data, device, print))
    return Stage(scene, data, device)


def row(name: str, chosen: AttackConfig, stage: Stage, config: Config, pictures: Path | None) -> str:
    """One attack by all of its generators: means and deviations."""
    shape, started = tuple(stage.training.x.shape[1:]), time.monotonic()
    found = attack(stage.scene.net, shape, chosen, config.seed, str(stage.device))
    seconds = time.monotonic() - started
    sets, labels = found.candidates.clamp(0, 1), found.labels.to(stage.device)
    each = [scores_of(images, labels, stage.scene) for images in sets]
    mean, spread = averages(each), deviations(each)
    luck = membership(sets.flatten(0, 1), stage.scene).get("member_luck")
    if pictures is not None:
        _draw(pictures / f"{config.name}-{name}.png", sets, labels)
    cells = [_cell(mean[key], spread[key]) for key in COLUMNS if key in mean]
    return f"| {name} | {' | '.join(cells)} | {'' if luck is None else f'{luck:.3f}'} | {seconds:.0f} s |"


def _cell(mean: float | None, spread: float | None) -> str:
    digits = 1 if mean is not None and abs(mean) >= 10 else 3
    if mean is None:
        return ""
    return f"{mean:.{digits}f}" if spread is None else f"{mean:.{digits}f} ± {spread:.{digits}f}"


def _draw(path: Path, sets: Tensor, labels: Tensor) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    images = class_rows(sets.to(labels.device), labels, columns=12)
    class_grid(images.cpu(), None, labels.unique().tolist(), ["" for _ in range(images.shape[1])]).save(path)


def _real(scores: Scores) -> str:
    return "real images: " + ", ".join(f"{name} {value:.3f}" for name, value in scores.items() if value is not None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("presets", nargs="+")
    parser.add_argument("--set", dest="overrides", action="append", default=[])
    parser.add_argument("--attacks", nargs="+", help="some of the attacks of a preset: attack, inversion, activation")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--pictures", type=Path)
    options = parser.parse_args()
    for name in options.presets:
        config = load_preset(name, options.overrides)
        stage = prepare(config, torch.device(options.device))
        print(_real(real_images(stage.scene, config.attack.candidates, stage.device)))
        print(f"| attack | {' | '.join(COLUMNS.values())} | luck | time |\n|{'---|' * (len(COLUMNS) + 3)}")
        attacks = {"attack": config.attack, **config.baselines}
        if config.series:
            attacks = {member.name: member.config.attack for member in members(config)}
        for title, chosen in attacks.items():
            if not options.attacks or title in options.attacks:
                print(row(title, chosen, stage, config, options.pictures), flush=True)


if __name__ == "__main__":
    main()
