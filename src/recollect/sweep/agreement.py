"""Which trial to believe: of those that explain the network about equally well, the one that other trials confirm.

Searches from other starts and with other settings have the training samples in common and little else: what several of
them arrive at is more likely a sample than what one makes up to lower its residual. By itself a residual ranks good and
bad trials well, and good ones among each other badly (docs/results.md).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from recollect.groups import Group

WITHIN = 1.2
"""Trials are about equally good when their scores are at most this multiple of the smallest."""

NEAR = 0.7
"""Correlation from which on two candidates show the same."""

ENOUGH = 2
"""Other trials that must have found a candidate too."""


def about_as_good(scores: Sequence[float]) -> list[int]:
    """Places of the scores within reach of the smallest; nan is never.

    >>> about_as_good([0.5, 0.41, float("nan"), 0.4])
    [1, 3]
    """
    smallest = min((score for score in scores if score == score), default=0.0)
    return [place for place, score in enumerate(scores) if score <= WITHIN * smallest]


def rating(score: float, confirmed: float) -> float:
    """Larger is better: what others confirm, less so where more of the network is left unexplained."""
    return confirmed / score**0.5 if score > 0 else torch.inf


@torch.no_grad()
def confirmed(
    candidates: Float[Tensor, "T m ..."], own: int, group: Group | None = None, near: float = NEAR, enough: int = ENOUGH
) -> float:
    """How many different candidates of a trial at least ``enough`` others found too.

    Those that are near each other count as one.
    """
    others = [place for place in range(len(candidates)) if place != own]
    found = nearest_elsewhere(candidates, own, others, group)
    agreed = (found > near).sum(dim=0) >= enough
    return float((agreed * counted_once(candidates[own], near, group)).sum())


def nearest_elsewhere(
    candidates: Float[Tensor, "T m ..."], own: int, others: Sequence[int], group: Group | None = None
) -> Float[Tensor, "others m"]:
    """For every candidate of one trial, the largest correlation with any of each other one."""
    orbits = _orbits(candidates[own], group)
    return torch.stack([_correlations(orbits, candidates[other]).amax(dim=1) for other in others])


def counted_once(candidates: Float[Tensor, "m ..."], near: float, group: Group | None = None) -> Float[Tensor, " m"]:
    """One over the number of candidates that show the same, itself among them."""
    return 1 / (_correlations(_orbits(candidates, group), candidates) > near).sum(dim=1).clamp_min(1)


def _orbits(candidates: Tensor, group: Group | None) -> Float[Tensor, "m g ..."]:
    return candidates.unsqueeze(1) if group is None else group.orbit(candidates)


def _correlations(orbits: Float[Tensor, "m g ..."], others: Float[Tensor, "k ..."]) -> Float[Tensor, "m k"]:
    """The largest over the orbit."""
    directions = _directions(others, 1).T
    return torch.stack([each @ directions for each in _directions(orbits, 2).unbind(dim=1)]).amax(dim=0)


def _directions(samples: Tensor, start: int) -> Tensor:
    """Their inner products are correlations; what is not finite, or constant, correlates with nothing."""
    flat = samples.flatten(start).nan_to_num(0.0, 0.0, 0.0)
    return F.normalize(flat - flat.mean(dim=-1, keepdim=True), dim=-1)
