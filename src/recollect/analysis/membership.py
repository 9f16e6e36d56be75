"""Are generated images nearer to what was trained on than to what was held out? They may well not be."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from recollect.analysis.metrics import normalise
from recollect.core import RecollectError

_ROWS = 512
"""Generated images compared at once."""


@dataclass(frozen=True)
class MemberAdvantage:
    """Nearest-training less nearest-held-out similarity, over generated images."""

    mean: float
    low: float
    high: float
    """Bootstrap interval of the mean over generated images; the reference sets are taken as they are."""
    share: float
    """Of generated images whose nearest image of all is a training image; 0.5 when membership does not matter."""
    luck: float
    """Share of random divisions of all reference images in two with an advantage as large: small when it is no luck."""
    references: int
    """Images on either side."""


@dataclass(frozen=True)
class NearestNCC:
    """Mean similarity to the nearest training image, with what it must be read against."""

    generated: float
    class_means: float
    """A blurry average is near to much: on digits it beats real unseen images."""
    held_out: float


def nearest_ncc(samples: Float[Tensor, "k ..."], references: Float[Tensor, "n ..."]) -> Float[Tensor, " k"]:
    """NCC of each sample with the reference image it is most like."""
    points = normalise(references, per_channel=False)
    parts = samples.split(_ROWS)
    return torch.cat([(normalise(part, per_channel=False) @ points.T).amax(dim=1) for part in parts])


def nearest_label(
    samples: Float[Tensor, "k ..."], references: Float[Tensor, "n ..."], labels: Int[Tensor, " n"]
) -> Int[Tensor, " k"]:
    """Label of the reference image that each sample is most like: a judge that shares no weakness with a network.

    What fools one network often fools another of its kind, trained on other images though it was.
    """
    return labels[nearest_row(samples, references)]


def nearest_row(samples: Float[Tensor, "k ..."], references: Float[Tensor, "n ..."]) -> Int[Tensor, " k"]:
    """Which reference image each sample is most like, by NCC."""
    points = normalise(references, per_channel=False)
    parts = samples.split(_ROWS)
    return torch.cat([(normalise(part, per_channel=False) @ points.T).argmax(dim=1) for part in parts])


def class_means(images: Float[Tensor, "n ..."], labels: Int[Tensor, " n"]) -> Float[Tensor, "C ..."]:
    return torch.stack([images[labels == label].mean(dim=0) for label in labels.unique()])


def nearest_training(
    generated: Float[Tensor, "k ..."],
    training: Float[Tensor, "n ..."],
    labels: Int[Tensor, " n"],
    held_out: Float[Tensor, "h ..."],
) -> NearestNCC:
    """Generated images, the training set's class means and real unseen images, each against the training set."""
    means = class_means(training, labels)
    values = [float(nearest_ncc(samples, training).mean()) for samples in (generated, means, held_out)]
    return NearestNCC(*values)


def member_advantage(
    generated: Float[Tensor, "k ..."],
    training: Float[Tensor, "n ..."],
    held_out: Float[Tensor, "h ..."],
    draws: int = 1000,
    divisions: int = 200,
    level: float = 0.95,
    seed: int = 0,
) -> MemberAdvantage:
    """``mean_i [max_train ncc(x_i, .) - max_held_out ncc(x_i, .)]``, both sets of the size of the smaller.

    A larger set has nearer neighbours, so the larger one is cut to a random part. Images of both sets must be of one
    kind and mix of classes, or the difference says something about that. A few images that are near to everything can
    carry the whole advantage, and the bootstrap does not see it; ``luck`` does: it divides all reference images anew.
    """
    _check(generated, training, held_out, draws, divisions, level)
    generator = torch.Generator().manual_seed(seed)
    size = min(len(training), len(held_out))
    members, others = (part[torch.randperm(len(part), generator=generator)[:size]] for part in (training, held_out))
    points = normalise(torch.cat([members, others]), per_channel=False)
    table = torch.cat([normalise(part, per_channel=False) @ points.T for part in generated.split(_ROWS)]).cpu()
    ahead = _advantages(table, torch.arange(2 * size) < size)
    means = torch.stack(
        [ahead[torch.randint(len(ahead), (len(ahead),), generator=generator)].mean() for _ in range(draws)]
    )
    tail = (1 - level) / 2
    low, high = torch.quantile(means, torch.tensor([tail, 1 - tail], dtype=means.dtype)).tolist()
    by_chance = [
        _advantages(table, torch.randperm(2 * size, generator=generator) < size).mean() for _ in range(divisions)
    ]
    as_large = sum(bool(value >= ahead.mean()) for value in by_chance)
    share = (ahead > 0).double().mean() + (ahead == 0).double().mean() / 2
    return MemberAdvantage(float(ahead.mean()), low, high, float(share), (1 + as_large) / (1 + divisions), size)


def _advantages(table: Float[Tensor, "k n"], members: Tensor) -> Float[Tensor, " k"]:
    return table[:, members].amax(dim=1) - table[:, ~members].amax(dim=1)


def _check(generated: Tensor, training: Tensor, held_out: Tensor, draws: int, divisions: int, level: float) -> None:
    shapes = [list(part.shape[1:]) for part in (generated, training, held_out)]
    counts = [len(part) for part in (generated, training, held_out)]
    if min(counts) == 0 or shapes.count(shapes[0]) < 3:
        raise RecollectError(
            f"member advantage compares generated, training and held-out images of one shape, got {counts} images of "
            f"shapes {shapes}; give at least one of each."
        )
    if draws < 1 or divisions < 1 or not 0 < level < 1:
        raise RecollectError(
            f"got draws = {draws}, divisions = {divisions} and level = {level}; give at least one of each and a level "
            "between 0 and 1, such as 0.95."
        )
