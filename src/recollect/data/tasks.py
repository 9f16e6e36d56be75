"""The tasks of the papers: which samples were trained on, with which labels and which mean removed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

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
    source. For binary tasks ``y`` is +1 or -1; for ``classes`` it is 0, ..., C - 1, and ``labels`` are the
    source's own names of these classes. Of held-out data ``own_mean`` is the mean as it would be with each of them
    among the training samples; None where it owes these nothing.
    """

    x: Float[Tensor, "n ..."]
    y: Int[Tensor, " n"]
    images: Float[Tensor, "n ..."]
    mean: Float[Tensor, " ..."]
    indices: Int[Tensor, " n"]
    labels: tuple[int, ...] | None = None
    own_mean: Float[Tensor, "n ..."] | None = None

    @property
    def classes(self) -> int | None:
        """C; None for labels of +-1."""
        return None if self.labels is None else len(self.labels)

    def rows(self, chosen: Tensor) -> TaskData:
        """Some of the samples, by number or by a flag for each."""
        return replace(
            self,
            x=self.x[chosen],
            y=self.y[chosen],
            images=self.images[chosen],
            indices=self.indices[chosen],
            own_mean=None if self.own_mean is None else self.own_mean[chosen],
        )


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


_BINARY: dict[str, Callable[[Int[Tensor, " n"]], Int[Tensor, " n"]]] = {
    "odd_even": odd_even,
    "vehicles_animals": vehicles_animals,
    "binary": binary,
}
TASKS = (*_BINARY, "classes")


def training_set(source: LabelledImages, task: str, n: int | None, classes: int | None = None) -> TaskData:
    """The first n/C samples of each class in file order, their mean removed (Haim 2022); all for n = None.

    Binary tasks have two classes. The task ``classes`` keeps the smallest ``classes`` of the distinct labels, or all
    of them (Buzaglo 2023, section 4); labels need not be contiguous, in their order they become 0, ..., C - 1.

    >>> source = LabelledImages(torch.rand(6, 1, 2, 2), torch.tensor([2, 4, 1, 6, 3, 5]), "digits")
    >>> chosen = training_set(source, "odd_even", 4)
    >>> chosen.indices.tolist(), chosen.y.tolist()
    ([0, 1, 2, 4], [-1, -1, 1, 1])
    >>> chosen = training_set(source, "classes", 3, classes=3)
    >>> chosen.indices.tolist(), chosen.y.tolist(), chosen.labels
    ([0, 2, 4], [1, 0, 2], (1, 2, 3))
    """
    labels = _distinct(source, classes) if _known(task) == "classes" else None
    if labels is None and classes is not None:
        raise RecollectError(
            f"classes = {classes} goes with the task 'classes', got the task {task!r}; leave classes out"
        )
    y, indices = _balanced(source, task, n, labels, "data.n")
    images = source.images[indices]
    return _centred(images, y, indices, images.mean(dim=0, dtype=torch.float64).to(images.dtype), labels)


def heldout_set(
    source: LabelledImages,
    task: str,
    count: int | None,
    mean: Float[Tensor, " ..."],
    labels: Sequence[int] | None = None,
) -> TaskData:
    """The same selection from samples never trained on, less the mean of those that were.

    For the task ``classes`` give the ``labels`` of the training set too, so that a class is the same in both.
    """
    if mean.shape != source.images.shape[1:]:
        raise RecollectError(
            f"held-out samples of {source.name!r} have shape {tuple(source.images.shape[1:])} and the "
            f"training mean has {tuple(mean.shape)}, but these must agree; take both from the same data"
        )
    if (_known(task) == "classes") != (labels is not None):
        raise RecollectError(
            f"the task {task!r} came {'without' if labels is None else 'with'} the labels of the training set; give "
            "those of training_set(...), which has them for the task 'classes' alone"
        )
    y, indices = _balanced(source, task, count, labels, "data.holdout_count")
    return _centred(source.images[indices], y, indices, mean.to(source.images), labels)


def _known(task: str) -> str:
    if task not in TASKS:
        raise RecollectError(f"there is no task {task!r}; choose one of {', '.join(TASKS)}")
    return task


def _distinct(source: LabelledImages, classes: int | None) -> tuple[int, ...]:
    found = source.labels.unique().tolist()
    wanted = len(found) if classes is None else classes
    if not 2 <= wanted <= len(found):
        raise RecollectError(
            f"task 'classes' needs at least two classes and as many labels, but {wanted} of the {len(found)} labels in "
            f"{source.name!r} were asked for; "
            + (f"ask for 2 to {len(found)}" if len(found) > 1 else "choose other data")
        )
    return tuple(found[:wanted])


def _balanced(
    source: LabelledImages, task: str, n: int | None, labels: Sequence[int] | None, setting: str
) -> tuple[Int[Tensor, " n"], Int[Tensor, " n"]]:
    y = _BINARY[task](source.labels) if labels is None else _places(source.labels, labels)
    names = {-1: "-1", 1: "+1"} if labels is None else {place: str(label) for place, label in enumerate(labels)}
    count = len(names)
    if n is not None and (n < count or n % count):
        nearest = max(1, round(n / count)) * count
        raise RecollectError(
            f"{setting} = {n} samples cannot be split into {count} equal classes; the nearest number that can is "
            f"{nearest}"
        )
    wanted = 1 if n is None else n // count
    positions = {kind: (y == kind).nonzero().flatten() for kind in names}
    scarce = min(positions, key=lambda kind: len(positions[kind]))
    smallest = len(positions[scarce])
    if smallest < wanted:
        most = f"ask for at most {count * smallest} in all ({setting})"
        advice = most if smallest else "choose another task or other data"
        raise RecollectError(
            f"task {task!r} needs {wanted} samples of each class, but {source.name!r} has only {smallest} labelled "
            f"{names[scarce]}; {advice}"
        )
    chosen = torch.cat([found if n is None else found[:wanted] for found in positions.values()])
    indices = chosen.sort().values
    return y[indices], indices


def _places(labels: Int[Tensor, " n"], kept: Sequence[int]) -> Int[Tensor, " n"]:
    """Where each label stands among those kept, which are in order; -1 for the others."""
    known = torch.tensor(kept, dtype=labels.dtype)
    return torch.where(torch.isin(labels, known), torch.searchsorted(known, labels), -1)


def _centred(images: Tensor, y: Tensor, indices: Tensor, mean: Tensor, labels: Sequence[int] | None) -> TaskData:
    names = None if labels is None else tuple(labels)
    return TaskData(x=images - mean, y=y, images=images, mean=mean, indices=indices, labels=names)


def _signs(positive: Tensor) -> Int[Tensor, " n"]:
    return torch.where(positive, 1, -1)
