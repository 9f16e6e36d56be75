"""The tasks of the papers: which samples were trained on, with which labels and which mean removed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from recollect.core import RecollectError
from recollect.data.images import LabelledImages

_VEHICLES = (0, 1, 8, 9)


@dataclass(frozen=True)
class TaskData:
    """Samples as a network saw them (``x``, ``y``) and as a person would (``images``).

    ``mean`` is the mean of the training samples, for held-out data too; ``indices`` are positions in the
    source. For binary tasks ``y`` is +1 or -1.
    """

    x: Float[Tensor, "n ..."]
    y: Int[Tensor, " n"]
    images: Float[Tensor, "n ..."]
    mean: Float[Tensor, " ..."]
    indices: Int[Tensor, " n"]


def odd_even(labels: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
    """Digits by parity (Haim 2022, section 5.1): odd is +1, even is -1.

    >>> odd_even(torch.tensor([0, 1, 2, 9])).tolist()
    [-1, 1, -1, 1]
    """
    return _signs(labels % 2 == 1)


def vehicles_animals(labels: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
    """CIFAR-10 by kind (Haim 2022, section 5.1): vehicles {0, 1, 8, 9} are +1, animals {2, ..., 7} are -1.

    >>> vehicles_animals(torch.tensor([0, 3, 9])).tolist()
    [1, -1, 1]
    """
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high > 9:
        raise RecollectError(
            f"task 'vehicles_animals' needs the labels 0 to 9 of CIFAR-10, found {low} to {high}; "
            "choose another task or cifar10"
        )
    return _signs(torch.isin(labels, torch.tensor(_VEHICLES)))


def binary(labels: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
    """A user's own two classes: the larger label is +1, the smaller is -1.

    >>> binary(torch.tensor([7, 4, 7])).tolist()
    [1, -1, 1]
    """
    classes = labels.unique()
    if len(classes) != 2:
        raise RecollectError(
            f"task 'binary' needs exactly two distinct labels, found {len(classes)}; "
            "keep two classes or choose another task"
        )
    return _signs(labels == classes[1])


TASKS: dict[str, Callable[[Int[Tensor, " n"]], Int[Tensor, " n"]]] = {
    "odd_even": odd_even,
    "vehicles_animals": vehicles_animals,
    "binary": binary,
}


def training_set(source: LabelledImages, task: str, n: int | None) -> TaskData:
    """The first n/2 samples of each class in file order, their mean removed (Haim 2022); all for n = None.

    >>> source = LabelledImages(torch.rand(6, 1, 2, 2), torch.tensor([2, 4, 1, 6, 3, 5]), "digits")
    >>> chosen = training_set(source, "odd_even", 4)
    >>> chosen.indices.tolist(), chosen.y.tolist()
    ([0, 1, 2, 4], [-1, -1, 1, 1])
    """
    y, indices = _balanced(source, task, n)
    images = source.images[indices]
    return _centred(images, y, indices, images.mean(dim=0, dtype=torch.float64).to(images.dtype))


def heldout_set(source: LabelledImages, task: str, count: int | None, mean: Float[Tensor, " ..."]) -> TaskData:
    """The same selection from samples never trained on, less the mean of those that were."""
    if mean.shape != source.images.shape[1:]:
        raise RecollectError(
            f"held-out samples of {source.name!r} have shape {tuple(source.images.shape[1:])} and the "
            f"training mean has {tuple(mean.shape)}, but these must agree; take both from the same data"
        )
    y, indices = _balanced(source, task, count)
    return _centred(source.images[indices], y, indices, mean.to(source.images))


def _balanced(source: LabelledImages, task: str, n: int | None) -> tuple[Int[Tensor, " n"], Int[Tensor, " n"]]:
    if task not in TASKS:
        raise RecollectError(f"there is no task {task!r}; choose one of {', '.join(TASKS)}")
    if n is not None and (n < 2 or n % 2):
        raise RecollectError(
            f"n = {n} samples cannot be split into two equal classes; give an even number of at least 2"
        )
    y = TASKS[task](source.labels)
    wanted = 1 if n is None else n // 2
    positions = [(y == sign).nonzero().flatten() for sign in (-1, 1)]
    smallest = min(len(found) for found in positions)
    if smallest < wanted:
        advice = f"ask for at most {2 * smallest} in all" if smallest else "choose another task or other data"
        raise RecollectError(
            f"task {task!r} needs {wanted} samples of each class, but {source.name!r} has "
            f"{len(positions[0])} labelled -1 and {len(positions[1])} labelled +1; {advice}"
        )
    chosen = torch.cat(positions if n is None else [found[:wanted] for found in positions])
    indices = chosen.sort().values
    return y[indices], indices


def _centred(images: Tensor, y: Tensor, indices: Tensor, mean: Tensor) -> TaskData:
    return TaskData(x=images - mean, y=y, images=images, mean=mean, indices=indices)


def _signs(positive: Tensor) -> Int[Tensor, " n"]:
    return torch.where(positive, 1, -1)
