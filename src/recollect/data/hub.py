"""Standard sets through the Hugging Face ``datasets`` package, where it is installed."""

from __future__ import annotations

import importlib
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from recollect.core import RecollectError


@dataclass(frozen=True)
class HubEntry:
    """Where the hub keeps a set, and what it calls the columns."""

    repository: str
    images: str = "image"
    labels: str = "label"
    configuration: str | None = None


HUB = {
    "mnist": HubEntry("ylecun/mnist"),
    "fashion_mnist": HubEntry("zalando-datasets/fashion_mnist"),
    "cifar10": HubEntry("uoft-cs/cifar10", images="img"),
    "cifar100": HubEntry("uoft-cs/cifar100", images="img", labels="fine_label"),
    "svhn": HubEntry("ufldl-stanford/svhn", configuration="cropped_digits"),
}


def read_hub(name: str, split: str) -> tuple[Tensor, Tensor] | None:
    """Images and labels of a standard set in the hub's order, or None where ``datasets`` is not installed."""
    entry = HUB[name]
    try:
        datasets = importlib.import_module("datasets")
    except ImportError:
        return None
    try:
        table = datasets.load_dataset(entry.repository, entry.configuration, split=split)
        images = np.stack([np.asarray(picture) for picture in table[entry.images]])
        labels = np.asarray(list(table[entry.labels]), dtype=np.int64)
    # Network, cache and format errors of the package and of all that it builds on.
    except Exception as error:
        raise RecollectError(
            f"{name!r} could not be had from {entry.repository} on the Hugging Face hub "
            f"({type(error).__name__}), so a connection or a local copy is needed; go online once, or set "
            f"RECOLLECT_DATA to a folder holding {name}_{split}.npz with keys images and labels"
        ) from error
    return torch.from_numpy(images), torch.from_numpy(labels)
