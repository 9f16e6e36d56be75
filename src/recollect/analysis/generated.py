"""How well generated images are what they were asked to be, and how unlike one another they are."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F


def agreement(outputs: Float[Tensor, "*T m N"], labels: Int[Tensor, "*T m"]) -> Float[Tensor, "*T"]:
    """Share of images that a classifier gives the label asked for, for each generator.

    With the outputs of the attacked classifier this is label agreement, which noise that fools it reaches too. With
    those of an independent one, trained on images that the attacked one never saw, it is attack accuracy.

    >>> agreement(torch.tensor([[0.1, 0.9], [0.8, 0.2]]), torch.tensor([1, 1]))
    tensor(0.5000)
    """
    return (outputs.argmax(dim=-1) == labels).to(outputs.dtype).mean(dim=-1)


def class_agreement(
    outputs: Float[Tensor, "m N"], labels: Int[Tensor, " m"], classes: int
) -> Float[Tensor, " classes"]:
    """Agreement within each class; NaN where no image was asked for."""
    right = (outputs.argmax(dim=1) == labels).to(outputs.dtype)
    asked = torch.bincount(labels, minlength=classes)
    return torch.bincount(labels, weights=right, minlength=classes).to(outputs.dtype) / asked


def feature_similarity(features: Float[Tensor, "*T m f"]) -> Float[Tensor, "*T"]:
    """Mean cosine of the features of two different images, for each generator: 1 when all are alike.

    The smaller it is, the more diverse they are.
    """
    m = features.shape[-2]
    unit = F.normalize(features.double(), dim=-1)
    pairs = unit.sum(dim=-2).square().sum(dim=-1) - unit.square().sum(dim=(-2, -1))
    return (pairs / (m * (m - 1))).to(features.dtype)


def similarity_within_classes(features: Float[Tensor, "m f"], labels: Int[Tensor, " m"]) -> float:
    """Mean cosine over pairs that were asked to be of one class; NaN when there is no such pair.

    Between classes features differ whatever a generator does: its own diversity shows within them.
    """
    groups = [features[labels == label] for label in labels.unique()]
    sizes = [len(group) * (len(group) - 1) for group in groups]
    total = sum(float(feature_similarity(group)) * size for group, size in zip(groups, sizes, strict=True) if size)
    return total / sum(sizes) if sum(sizes) else float("nan")
