"""Near-duplicates among the candidates of many trials become one candidate that knows its members."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from recollect.analysis.distance import Distance, orbit_distances, orbit_points, pool, row_blocks
from recollect.analysis.distil import distil
from recollect.groups import Group


@dataclass(frozen=True)
class Merged:
    """``kept`` lists the candidates that stand for others, ``member_of[i]`` the place in it of what stands for i."""

    kept: Int[Tensor, " kept"]
    member_of: Int[Tensor, " k"]
    """-1 for candidates that are not finite or, for "ncc", constant."""


def merge(
    candidates: Float[Tensor, "k ..."],
    duals: Float[Tensor, " k"],
    radius: float,
    distance: Distance = "ncc",
    group: Group | None = None,
) -> Merged:
    """By the rule of `distil`, without a smallest multiplier; each candidate goes to the nearest that was kept.

    With a group, candidates that it moves into one another are one: what a network is invariant to, no attack can tell.

    >>> points = torch.tensor([[0.0, 0.0], [0.0, 0.01], [1.0, 0.0], [torch.nan, 5.0]])
    >>> merged = merge(points, torch.tensor([6.0, 9.0, 7.0, 8.0]), radius=0.03, distance="l2")
    >>> merged.kept.tolist(), merged.member_of.tolist()
    ([1, 2], [0, 0, 1, -1])
    """
    kept = distil(candidates, duals, -torch.inf, radius, distance, group)
    prepared = pool(candidates, distance, per_channel=True)
    member_of = torch.full((len(candidates),), -1, device=kept.device)
    if len(kept):
        size = 1 if group is None else group.size
        for rows in row_blocks(len(candidates), size * len(kept)):
            orbits = orbit_points(prepared.samples[rows], distance, per_channel=True, group=group)
            member_of[rows] = orbit_distances(orbits, prepared.points[kept], distance).argmin(dim=1)
        member_of[kept] = torch.arange(len(kept), device=kept.device)  # repeats, where radius is 0
    return Merged(kept, member_of.masked_fill(~(prepared.usable & duals.isfinite()), -1))
