"""What an attacker without reference data would keep: candidates with large multipliers, without repeats."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from recollect.analysis.distance import Distance, orbit_distances, orbit_points, pool
from recollect.core import RecollectError
from recollect.groups import Group

_BLOCK = 512  # candidates compared with each other at once


def distil(
    candidates: Float[Tensor, "k ..."],
    duals: Float[Tensor, " k"],
    min_dual: float,
    radius: float,
    distance: Distance = "l2",
    group: Group | None = None,
) -> Int[Tensor, " kept"]:
    """Indices of the candidates worth looking at, largest multiplier first (Haim et al. 2022, section 4).

    First go the candidates whose multiplier is below ``min_dual`` (the paper: 5), and those that are not
    finite or, for "ncc", constant. Then, from the largest multiplier down (the first of equals), each
    candidate nearer than ``radius`` to one already kept is dropped (the paper: 0.03). For "ncc" nearness is
    ``1 - ncc``, with each channel of an image normalised by itself. With a group it is nearness to any element of an
    orbit (Elbaz 2024, section 3.1).

    >>> points = torch.tensor([[0.0, 0.0], [0.0, 0.01], [1.0, 0.0], [5.0, 5.0]])
    >>> distil(points, torch.tensor([6.0, 9.0, 7.0, 1.0]), min_dual=5, radius=0.03)
    tensor([1, 2])
    """
    if duals.shape != candidates.shape[:1]:
        raise RecollectError(
            f"got {len(candidates)} candidates and multipliers of shape {list(duals.shape)}; "
            "pass one multiplier for each candidate"
        )
    if not radius >= 0:
        raise RecollectError(f"radius is {radius}; choose a number from 0 upwards (0 keeps repeats)")
    prepared = pool(candidates, distance, per_channel=True)
    eligible = (prepared.usable & duals.isfinite() & (duals >= min_dual)).nonzero()[:, 0]
    ranked = eligible[duals[eligible].argsort(descending=True, stable=True)]
    # Half the squared distance of unit vectors is 1 - ncc.
    reach = radius if distance == "l2" else (2 * radius) ** 0.5
    kept = ranked[:0]
    for block in ranked.split(max(1, _BLOCK // (1 if group is None else group.size))):
        orbits = orbit_points(prepared.samples[block], distance, per_channel=True, group=group)
        among = orbit_distances(orbits, prepared.points[kept], distance) < reach
        far = ~among.any(dim=1)
        new = block[far]
        near = orbit_distances(orbits[far], prepared.points[new], distance) < reach
        kept = torch.cat([kept, new[_greedy(near.cpu()).to(new.device)]])
    return kept


def _greedy(near: Tensor) -> Tensor:
    """Rows kept when, in order, each row that is still there removes those near it."""
    there = torch.ones(len(near), dtype=torch.bool)
    for row in range(len(near)):
        if there[row]:
            there[row + 1 :] &= ~near[row, row + 1 :]
    return there
