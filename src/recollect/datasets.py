"""The samples that a configuration names: what was trained on, and what was held out."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from recollect.analysis.calibration import mean_with
from recollect.config import AttackConfig, Config
from recollect.core import RecollectError
from recollect.data import LabelledImages, TaskData, circle, clouds, heldout_set, load, training_set
from recollect.data.sources import STANDARD_NAMES
from recollect.groups import Group
from recollect.symmetries import named_group


def training_data(config: Config) -> TaskData:
    data = config.data
    if data is None:
        raise RecollectError("no data were named; give --set data.name=NAME, or [data] in the configuration.")
    if data.name == "circle":
        return circle(20 if data.n is None else data.n)
    if data.name == "clouds":
        return clouds(20 if data.n is None else data.n)
    source = load(data.name, "train")
    if data.balanced:
        chosen = training_set(source, data.task, data.n, data.classes)
    else:
        chosen = training_set(_first(source, data.n), data.task, None, data.classes)
    group = _mean_group(config, tuple(chosen.mean.shape))
    if config.centred and group is None:
        return chosen
    mean = torch.zeros_like(chosen.mean) if group is None else group.to(chosen.mean).orbit_average(chosen.mean)
    return replace(chosen, x=chosen.images - mean, mean=mean)


def _mean_group(config: Config, sample_shape: tuple[int, ...]) -> Group | None:
    """What the mean that is taken from samples is averaged over; None where it is taken as it is, or not at all."""
    if config.data is None or not config.centred:
        return None
    name = config.data.mean_group
    if name == "model":
        if config.source is not None:
            raise RecollectError(
                "data.mean_group = 'model' is the group of a network that is trained here; name that of this one, such "
                "as --set data.mean_group=flip."
            )
        name = getattr(config.model, "group", "trivial")
    return None if name == "trivial" else named_group(name, sample_shape)


def mean_for(config: Config, attack: AttackConfig) -> Tensor | None:
    """The mean image of the training set, where the attack asks for it and the data are named."""
    return training_data(config).mean if attack.needs_mean and config.data is not None else None


def _first(source: LabelledImages, n: int | None) -> LabelledImages:
    """The first samples of a file, whatever their classes."""
    if n is not None and n > len(source.images):
        raise RecollectError(
            f"n = {n} samples were asked for, {source.name!r} has {len(source.images)}; ask for at most as many."
        )
    return replace(source, images=source.images[:n], labels=source.labels[:n])


def unseen_data(config: Config, training: TaskData) -> TaskData | None:
    """What is left of the file that the training set was taken from; None unless it has some of every class."""
    data = config.data
    if data is None or data.name in ("circle", "clouds"):
        return None
    source = load(data.name, "train")
    left = torch.ones(len(source.labels), dtype=torch.bool)
    left[training.indices] = False
    rest = replace(source, images=source.images[left], labels=source.labels[left])
    if not len(rest.labels) or (training.labels and not set(training.labels) <= set(rest.labels.tolist())):
        return None
    return heldout_set(rest, data.task, None, training.mean, training.labels)


def heldout_data(config: Config, training: TaskData) -> TaskData | None:
    """Samples the network never saw: those named, or the test split of a standard set; None where there are none."""
    data = config.data
    if data is None or data.name == "circle":
        return None
    if data.name == "clouds" and data.holdout is None:
        return clouds(1000 if data.holdout_count is None else data.holdout_count, held_out=True)
    if data.holdout is None and data.name not in STANDARD_NAMES:
        return None
    source = load(data.name if data.holdout is None else data.holdout, "test")
    heldout = heldout_set(source, data.task, data.holdout_count, training.mean, training.labels)
    group = _mean_group(config, tuple(training.mean.shape))
    own = mean_with(heldout.x, training.mean, len(training.x), None if group is None else group.to(training.mean))
    return replace(heldout, own_mean=own)
