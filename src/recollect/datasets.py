"""The samples that a configuration names: what was trained on, and what was held out."""

from __future__ import annotations

from recollect.config import Config
from recollect.core import RecollectError
from recollect.data import TaskData, circle, clouds, heldout_set, load, training_set
from recollect.data.sources import STANDARD_NAMES


def training_data(config: Config) -> TaskData:
    data = config.data
    if data is None:
        raise RecollectError("no data were named; give them with --data, or as [data] in the configuration.")
    if data.name == "circle":
        return circle(20 if data.n is None else data.n)
    if data.name == "clouds":
        return clouds(20 if data.n is None else data.n)
    return training_set(load(data.name, "train"), data.task, data.n, data.classes)


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
    return heldout_set(source, data.task, data.holdout_count, training.mean, training.labels)
