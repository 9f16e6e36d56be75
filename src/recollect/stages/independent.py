"""Classifiers that judge generated images: trained on images which the attacked one never saw, and no others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from recollect.config import Config
from recollect.data import TaskData
from recollect.datasets import heldout_data, unseen_data
from recollect.zoo import (
    Architecture,
    ClassifierArchitecture,
    MLPArchitecture,
    OrdinaryTraining,
    accuracy,
    build_network,
    train_ordinarily,
)
from recollect.zoo.classifier import takes_images

_SEED = 1_000_003
"""Added to the seed of the run: a judge has nothing in common with the attacked network, not even its start."""


@dataclass(frozen=True)
class Judge:
    """A network, and how often it is right about held-out images; None where there are none."""

    net: nn.Module
    held_out_accuracy: float | None


@dataclass(frozen=True)
class Panel:
    """Judges by name, the images they were trained on, and held-out images that no network was trained on."""

    judges: dict[str, Judge]
    unseen: TaskData | None
    held_out: TaskData | None


def divided(config: Config, training: TaskData) -> tuple[TaskData | None, TaskData | None]:
    """Images for judges to learn from, and others to compare with; the attacked network saw neither.

    The judges get what is left of the training file. Where that is less than half of the held-out images they get every
    second one of these instead.
    """
    rest, heldout = unseen_data(config, training), heldout_data(config, training)
    if heldout is not None and rest is not None and 2 * len(rest.x) >= len(heldout.x):
        return rest, heldout
    whole = rest if heldout is None else heldout
    return (None, None) if whole is None or len(whole.x) < 2 else _halves(whole)


def appointed(config: Config, training: TaskData, device: torch.device, say: Callable[[str], None]) -> Panel:
    """Train the judges; without images to train on there are none."""
    unseen, heldout = divided(config, training)
    if unseen is None or training.classes is None:
        return Panel({}, None, heldout)
    chosen = config.match.independent
    order = torch.randperm(len(unseen.x), generator=torch.Generator().manual_seed(config.seed))
    unseen = unseen.rows(order[: chosen.images].sort().values)
    judges: dict[str, Judge] = {}
    shape, seed = tuple(training.x.shape[1:]), config.seed + _SEED
    for name, architecture in _architectures(shape, training.classes).items():
        net = build_network(architecture, shape, seed)
        how = OrdinaryTraining(epochs=chosen.epochs)
        train_ordinarily(net, unseen.images, unseen.y, how, seed, device)
        right = None if heldout is None else accuracy(net, heldout.images, heldout.y)
        judges[name] = Judge(net.to(device), right)
        known = "" if right is None else f", right about {right:.1%} of held-out ones"
        say(f"  independent {name} trained on {len(unseen.x)} other images{known}")
    return Panel(judges, unseen, heldout)


def _halves(data: TaskData) -> tuple[TaskData, TaskData]:
    """Every second sample of each class, so that files sorted by class are divided alike."""
    order = data.y.argsort(stable=True)
    return data.rows(order[::2].sort().values), data.rows(order[1::2].sort().values)


def _architectures(sample_shape: tuple[int, ...], classes: int) -> dict[str, Architecture]:
    """First a network of the attacked one's kind, then one that shares no weakness of convolutions."""
    perceptron = MLPArchitecture(hidden=(512,), outputs=classes, bias="all", first_layer_scale="standard")
    if not takes_images(sample_shape):
        return {"perceptron": perceptron}
    return {"classifier": ClassifierArchitecture(outputs=classes), "perceptron": perceptron}
