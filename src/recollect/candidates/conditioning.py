"""How a generator is told which class to make an image of, without being told the label (TLDR 2024, section 3.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from recollect.core import RecollectError
from recollect.counter_random import TrialStreams

Conditioning = Literal["label", "vector", "matrix", "vector_matrix"]
"""An embedding of the label; a random distribution whose largest entry is the label; a matrix whose k-th row and column
are ones; both of the last two, with the same label."""


@dataclass(frozen=True)
class Conditions:
    """What each image of a batch was asked to be."""

    labels: Int[Tensor, "T m"]
    """Hidden: the generator sees an embedding, a vector or a matrix that encodes it."""
    distribution: Float[Tensor, "T m N"]
    """What the classifier should answer; its largest entry is the label."""


def uses_vector(conditioning: Conditioning) -> bool:
    return conditioning in ("vector", "vector_matrix")


def uses_matrix(conditioning: Conditioning) -> bool:
    return conditioning in ("matrix", "vector_matrix")


def draw_conditions(
    streams: TrialStreams,
    step: Int[Tensor, ""],
    m: int,
    classes: int,
    conditioning: Conditioning,
    hot: bool,
    dtype: torch.dtype = torch.float32,
) -> Conditions:
    """Conditions of the images of one step: ``softmax(z)``, ``z ~ N(0, I)``, where there is a vector, else labels.

    ``hot`` makes every distribution certain of its label, as reconstruction wants it; without a vector it always is.

    >>> streams = TrialStreams(seed=0, trials=torch.arange(2, dtype=torch.int32))
    >>> soft = draw_conditions(streams, torch.tensor(0), 5, 10, "vector", hot=False)
    >>> bool((soft.distribution.argmax(dim=2) == soft.labels).all()), bool((soft.distribution < 1).all())
    (True, True)
    """
    if conditioning not in get_args(Conditioning):
        raise RecollectError(f"unknown conditioning '{conditioning}'; choose {', '.join(get_args(Conditioning))}.")
    if not uses_vector(conditioning):
        labels = streams.labels("label", step, (m,), classes)
        return Conditions(labels, one_hot(labels, classes, dtype))
    distribution = streams.normal("vector", step, (m, classes), dtype).softmax(dim=2)
    labels = distribution.argmax(dim=2)
    return Conditions(labels, one_hot(labels, classes, dtype) if hot else distribution)


def conditions_of(
    labels: Int[Tensor, " m"],
    streams: TrialStreams,
    step: Int[Tensor, ""],
    classes: int,
    conditioning: Conditioning,
    hot: bool,
    dtype: torch.dtype = torch.float32,
) -> Conditions:
    """Conditions that hide the labels given, the same in every trial: what people ask a finished generator for.

    The largest entry of a drawn vector changes places with that of the label.
    """
    own = labels.expand(len(streams.trials), -1)
    if hot or not uses_vector(conditioning):
        return Conditions(own, one_hot(own, classes, dtype))
    drawn = draw_conditions(streams, step, len(labels), classes, conditioning, hot, dtype)
    place, largest = own.unsqueeze(2), drawn.labels.unsqueeze(2)
    swapped = drawn.distribution.scatter(2, place, drawn.distribution.gather(2, largest))
    return Conditions(own, swapped.scatter(2, largest, drawn.distribution.gather(2, place)))


def one_hot(labels: Int[Tensor, "T m"], classes: int, dtype: torch.dtype) -> Float[Tensor, "T m N"]:
    return (labels.unsqueeze(-1) == torch.arange(classes, device=labels.device)).to(dtype)


def hot_matrix(labels: Int[Tensor, "T m"], classes: int, dtype: torch.dtype) -> Float[Tensor, "T m N N"]:
    """Ones in the row and in the column of the label, zeros elsewhere (section 3.2.3).

    >>> hot_matrix(torch.tensor([[1]]), 3, torch.int64)[0, 0]
    tensor([[0, 1, 0],
            [1, 1, 1],
            [0, 1, 0]])
    """
    hot = one_hot(labels, classes, dtype)
    return torch.maximum(hot.unsqueeze(-1), hot.unsqueeze(-2))
