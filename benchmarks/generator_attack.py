"""Inversion and reconstruction of one ordinary classifier by a conditioned generator, with every number that judges it.

``RECOLLECT_DATA=folder python -m benchmarks.generator_attack --pictures folder`` takes some minutes on two cores.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor, nn

from recollect.analysis.frechet import frechet_distance
from recollect.analysis.generated import agreement, feature_similarity, similarity_within_classes
from recollect.analysis.membership import member_advantage, nearest_label, nearest_training
from recollect.candidates.conditioning import Conditioning
from recollect.candidates.generator import Generated, Generator
from recollect.core import TrialRng, Variables
from recollect.counter_random import TrialStreams
from recollect.data import load
from recollect.features import features_of
from recollect.objectives.inversion import INVERSION, RECONSTRUCTION, Inversion
from recollect.optimisers import Adam
from recollect.stepping import rate_at
from recollect.targets.classifier import ClassifierTarget
from recollect.zoo import MLPArchitecture, build_network
from recollect.zoo.classifier import ClassifierArchitecture, build_classifier
from recollect.zoo.ordinary_training import OrdinaryTraining, accuracy, outputs_of, train_ordinarily

ATTACKS = {"inversion": (INVERSION, False), "reconstruction": (RECONSTRUCTION, True)}
"""Weights of the terms, and whether conditions are hot."""

SHOWN = 500
"""Images that are judged."""


@dataclass(frozen=True)
class Setting:
    """The attacked network and what it was trained on; two others, of its kind and of another, and what they had."""

    attacked: nn.Module
    twin: nn.Module
    perceptron: nn.Module
    training: tuple[Tensor, Tensor]
    independent: tuple[Tensor, Tensor]
    held_out: Tensor


def prepare(name: str, n: int, independent: int, device: torch.device) -> Setting:
    """The attacked classifier has the first n training images, the independent ones the next."""
    known, unseen = load(name, "train"), load(name, "test")
    shape, classes = tuple(known.images.shape[1:]), int(known.labels.max()) + 1
    first, others = slice(0, n), slice(n, n + independent)
    architecture = ClassifierArchitecture(outputs=classes)
    wide = MLPArchitecture(hidden=(512,), outputs=classes, bias="all", first_layer_scale="standard")
    nets = {
        "attacked": (build_classifier(architecture, shape, 0), first, 20),
        "twin": (build_classifier(architecture, shape, 1), others, 6),
        "perceptron": (build_network(wide, shape, 2), others, 20),
    }
    for who, (net, rows, epochs) in nets.items():
        started = time.process_time()
        train_ordinarily(net, known.images[rows], known.labels[rows], OrdinaryTraining(epochs=epochs), 0, device)
        right, seconds = accuracy(net, unseen.images, unseen.labels), time.process_time() - started
        count = len(known.images[rows])
        print(f"{who}: {count} images, test accuracy {right:.3f}, {seconds:.0f} s of CPU time", flush=True)
    parts = [(known.images[rows], known.labels[rows]) for rows in (first, others)]
    return Setting(nets["attacked"][0], nets["twin"][0], nets["perceptron"][0], parts[0], parts[1], unseen.images)


def search(
    classifier: ClassifierTarget, generator: Generator, objective: Inversion, rng: TrialRng, lr: float, steps: int
) -> Variables:
    variables = generator.init(rng)
    rates = torch.full((len(rng.trials),), lr, dtype=rng.dtype, device=rng.device)
    adam = Adam(dict.fromkeys(variables, rates), betas=(0.5, 0.99))
    state = adam.init(variables)
    for number in range(steps):
        step = torch.tensor(number, device=rng.device)
        gradient = objective.gradient(classifier, generator, variables, step)
        variables, state = adam.update(variables, gradient, state, rate_at("cosine", step, steps))
    return variables


def attack(setting: Setting, name: str, options: argparse.Namespace, device: torch.device) -> Generated:
    """A batch of images by a generator that has run to its end."""
    shape, rng = tuple(setting.held_out.shape[1:]), TrialRng(options.seed, (0,), torch.float32, device)
    classifier, streams = ClassifierTarget(setting.attacked, shape, device=device), TrialStreams.of(rng)
    weights, hot = ATTACKS[name]
    generator = Generator(
        options.batch, shape, classifier.classes, streams, options.conditioning, hot, width=options.width, dropout=0.1
    )
    own = {term: torch.full((1,), weight, device=device) for term, weight in weights.items()}
    objective = Inversion(own, torch.full((1,), options.radius, device=device), streams, options.perturbation)
    variables = search(classifier, generator, objective, rng, options.lr, options.steps)
    with torch.no_grad():
        return replace(generator, candidates=SHOWN).shown(variables)


def judge(setting: Setting, made: Generated) -> dict[str, str]:
    images, labels = made.images[0].cpu(), made.conditions.labels[0].cpu()
    x, y = setting.training
    features, neighbours = features_of(setting.attacked, images), nearest_label(images, *setting.independent)
    independent = [features_of(setting.twin, part) for part in (images, x[:SHOWN], setting.held_out[:SHOWN])]
    nearest, advantage = nearest_training(images, x, y, setting.held_out), member_advantage(images, x, setting.held_out)
    return {
        "label agreement": f"{float(agreement(outputs_of(setting.attacked, images), labels)):.3f}",
        "attack accuracy, network of its kind": f"{float(agreement(outputs_of(setting.twin, images), labels)):.3f}",
        "attack accuracy, perceptron": f"{float(agreement(outputs_of(setting.perceptron, images), labels)):.3f}",
        "attack accuracy, nearest neighbour": f"{float((neighbours == labels).double().mean()):.3f}",
        "feature cosine": f"{float(feature_similarity(features)):.3f}",
        "feature cosine within classes": f"{similarity_within_classes(features, labels):.3f}",
        "Frechet distance to training": f"{frechet_distance(independent[0], independent[1]):.1f}",
        "Frechet distance to held-out": f"{frechet_distance(independent[0], independent[2]):.1f}",
        "Frechet distance of training to held-out": f"{frechet_distance(independent[1], independent[2]):.1f}",
        "nearest training NCC": f"{nearest.generated:.3f}",
        "of class means, of held-out images": f"{nearest.class_means:.3f}, {nearest.held_out:.3f}",
        "member advantage": f"{advantage.mean:+.4f} [{advantage.low:+.4f}, {advantage.high:+.4f}]",
        "by luck": f"{advantage.luck:.3f}",
    }


def picture(made: Generated, columns: int = 12) -> Image.Image:
    """One row per class."""
    images, labels = made.images[0].cpu(), made.conditions.labels[0].cpu()
    rows = [torch.cat(list(images[labels == label][:columns]), dim=2) for label in labels.unique()]
    narrowest = min(row.shape[2] for row in rows)
    pixels = torch.cat([row[:, :, :narrowest] for row in rows], dim=1).clamp(0, 1).mul(255).byte().movedim(0, 2)
    return Image.fromarray(pixels.squeeze(2).numpy())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="mnist")
    parser.add_argument("--n", type=int, default=1000)
    parser.add_argument("--independent", type=int, default=8000)
    parser.add_argument("--attacks", nargs="+", choices=list(ATTACKS), default=list(ATTACKS))
    parser.add_argument("--conditioning", choices=Conditioning.__args__, default="vector_matrix")
    parser.add_argument("--perturbation", choices=["random", "adversarial"], default="random")
    parser.add_argument("--radius", type=float, default=0.3)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--lr", type=float, default=5e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--pictures", type=Path)
    options = parser.parse_args()
    device = torch.device(options.device)
    setting = prepare(options.data, options.n, options.independent, device)
    for name in options.attacks:
        started = time.process_time()
        made = attack(setting, name, options, device)
        print(f"\n{name}: {options.steps} steps, {time.process_time() - started:.0f} s of CPU time")
        for what, value in judge(setting, made).items():
            print(f"  {what:<44}{value}")
        if options.pictures is not None:
            options.pictures.mkdir(parents=True, exist_ok=True)
            picture(made).save(options.pictures / f"{name}.png")


if __name__ == "__main__":
    main()
