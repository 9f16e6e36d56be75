"""Where candidates lie on orbitopes, the convex hulls of the orbits of training samples (Elbaz 2024, Fig. 5).

An orbit's average is fixed by the whole group; its elements are the extreme points. Candidates near averages have lost
what tells a sample from its mirror images; candidates near extreme points have kept it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from recollect.analysis.distance import Distance, distance_blocks, pool
from recollect.analysis.metrics import ncc
from recollect.groups import Group

_VALUES = 2**24
"""Numbers of orbitope points held at once: 64 MB in float32."""


@dataclass(frozen=True)
class Places:
    """Of each candidate: the nearest point of all orbitopes. Unusable candidates have sample -1 and position nan."""

    sample: Int[Tensor, " k"]
    position: Float[Tensor, " k"]
    """How far from the average of its orbit (0) towards an extreme point (1) that point lies."""
    ncc: Float[Tensor, " k"]
    """Of the candidate with that point."""
    asymmetry: Float[Tensor, " k"]
    """``||c - gbar c|| / ||c||`` of the candidate itself."""

    def histogram(self, bins: int = 10, least_ncc: float = -1.0) -> Int[Tensor, " bins"]:
        """How many candidates lie in each part of the way from average to extreme point."""
        chosen = self.position[(self.sample >= 0) & (self.ncc >= least_ncc)].cpu()
        return torch.histc(chosen.float(), bins, 0.0, 1.0).long()


def orbitope_places(
    candidates: Float[Tensor, "k ..."],
    x: Float[Tensor, "n ..."],
    group: Group,
    distance: Distance = "ncc",
    combinations: int = 160,
    seed: int = 0,
) -> Places:
    """Sample convex combinations of every training orbit and give each candidate the nearest.

    >>> from recollect.symmetries import named_group
    >>> x = torch.tensor([[[[1.0, 0.0, 0.0], [0.0, 2.0, 5.0]]]])
    >>> found = orbitope_places(torch.cat([x.flip(-1), x + x.flip(-1)]), x, named_group("flip", (1, 2, 3)))
    >>> found.position.tolist()
    [1.0, 0.0]
    """
    group, per_channel = group.to(x), x.ndim == 4
    weights = convex_weights(group.size, combinations, seed).to(x)
    prepared = pool(candidates.to(x), distance, per_channel)
    nearest = torch.full((len(candidates),), torch.inf, dtype=prepared.points.dtype, device=x.device)
    flat = torch.full((len(candidates),), -1, dtype=torch.long, device=x.device)
    size = max(1, _VALUES // (len(weights) * x[0].numel()))
    positions = []
    for start in range(0, len(x), size):
        points, position = _points(x[start : start + size], group, weights)
        positions.append(position)
        for rows, block, _ in distance_blocks(pool(points, distance, per_channel).points.unsqueeze(1), prepared):
            value, row = block.min(dim=0)
            first = start * len(weights) + rows.start
            flat = torch.where(value < nearest, row + first, flat)
            nearest = torch.minimum(value, nearest)
    sample = torch.where(flat >= 0, flat.div(len(weights), rounding_mode="floor"), -1)
    position = torch.where(flat >= 0, torch.cat(positions)[flat.clamp_min(0)], torch.nan)
    at = _points_at(x, group, weights, flat.clamp_min(0))
    similar = torch.where(flat >= 0, ncc(prepared.samples, at, per_channel), torch.nan)
    return Places(sample, position, similar, relative_asymmetry(prepared.samples, group))


def relative_asymmetry(x: Float[Tensor, "k ..."], group: Group) -> Float[Tensor, " k"]:
    """``||x - gbar x|| / ||x||``: 0 for what the group leaves fixed."""
    return group.to(x).asymmetric(x).flatten(1).norm(dim=1) / x.flatten(1).norm(dim=1)


def convex_weights(size: int, count: int, seed: int) -> Float[Tensor, "K g"]:
    """Weights of convex combinations: ways from the average to every element, and random ones of every spread.

    The ways have ten parts each, for as many elements as make half of ``count``; random weights are Dirichlet draws
    whose concentration is itself drawn, so that corners, faces and the middle are all met.
    """
    generator = torch.Generator().manual_seed(seed)
    corners = torch.eye(size, dtype=torch.float64)
    middle = torch.full((1, size), 1 / size, dtype=torch.float64)
    parts = torch.linspace(0.1, 1.0, 10, dtype=torch.float64)
    chosen = corners[torch.randperm(size, generator=generator)[: max(2, count // 20)]]
    ways = (middle + parts[:, None, None] * (chosen - middle)).flatten(0, 1)
    concentration = 10 ** (3 * torch.rand(count // 2, 1, generator=generator, dtype=torch.float64) - 2)
    # Torch has no Gamma draws from a generator of one's own; powers of exponentials spread as widely.
    draws = -torch.rand(count // 2, size, generator=generator, dtype=torch.float64).clamp_min(1e-12).log()
    draws = draws ** (1 / concentration).clamp_max(20)
    return torch.cat([middle, corners, ways, draws / draws.sum(dim=1, keepdim=True)])


def _points(
    x: Float[Tensor, "n ..."], group: Group, weights: Float[Tensor, "K g"]
) -> tuple[Float[Tensor, "nK ..."], Float[Tensor, " nK"]]:
    """Points of the orbitopes, and how far out they are."""
    orbits = group.orbit(x).flatten(2)
    points = weights @ orbits
    middle = orbits.mean(dim=1, keepdim=True)
    reach = (orbits[:, :1] - middle).norm(dim=2).clamp_min(torch.finfo(x.dtype).tiny)
    position = ((points - middle).norm(dim=2) / reach).clamp(0, 1)
    return points.reshape(-1, *x.shape[1:]), position.flatten()


def _points_at(x: Tensor, group: Group, weights: Tensor, flat: Int[Tensor, " k"]) -> Float[Tensor, "k ..."]:
    sample, combination = flat.div(len(weights), rounding_mode="floor"), flat.remainder(len(weights))
    made = [
        torch.einsum("kg,kg...->k...", weights[some_weights], group.orbit(x[some]))
        for some, some_weights in zip(sample.split(1024), combination.split(1024), strict=True)
    ]
    return torch.cat(made)
