"""What the candidates that came nearest to a sample say together: their average, each moved to fit the sample."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from recollect.groups import Group

_VOTERS = 1024  # candidates averaged at once


def average(
    samples: Float[Tensor, "k ..."],
    voting: Bool[Tensor, "rows k"],
    element: Int[Tensor, "rows k"] | None,
    group: Group | None,
) -> Float[Tensor, "rows ..."]:
    """Mean of the samples that vote for each row; only they are read, so others need not be finite.

    A candidate that is nearest to ``g x`` votes for ``x`` as ``g^-1 c``.
    """
    total = samples.new_zeros(len(voting), samples[0].numel())
    if element is None or group is None:
        total += _sum_of(samples, voting)
    else:
        group = group.to(samples)
        for number in element[voting].unique().tolist():
            total += _sum_of(samples, voting & (element == number), group, number)
    return (total / voting.sum(dim=1, keepdim=True).clamp(min=1)).reshape(-1, *samples.shape[1:])


def _sum_of(
    samples: Float[Tensor, "k ..."], voting: Bool[Tensor, "rows k"], group: Group | None = None, element: int = 0
) -> Float[Tensor, "rows d"]:
    total = samples.new_zeros(len(voting), samples[0].numel())
    for part in voting.any(dim=0).nonzero()[:, 0].split(_VOTERS):
        chosen = samples[part]
        if group is not None:
            chosen = group.move_back(chosen, torch.full_like(part, element))
        total += voting[:, part].to(total.dtype) @ chosen.flatten(1)
    return total
