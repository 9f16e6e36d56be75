"""How far apart samples lie: normalised (NCC) or plain Euclidean distance, prepared once, asked in blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from recollect.analysis.metrics import normalise
from recollect.core import RecollectError
from recollect.groups import Group

Distance = Literal["ncc", "l2"]

_EMBED_ROWS = 1024  # samples normalised at once
_PAIRS = 2**22  # distances held at once: 16 MB in float32


@dataclass(frozen=True)
class Pool:
    """Samples as points, such that the Euclidean distance of two points is the distance asked for.

    A sample is usable when it is finite, its squares too, and, for "ncc", it is not constant.
    """

    samples: Float[Tensor, "k ..."]
    points: Float[Tensor, "k d"]
    usable: Bool[Tensor, " k"]
    distance: Distance


def pool(samples: Float[Tensor, "k ..."], distance: Distance, per_channel: bool) -> Pool:
    """Prepare samples for distances; ``per_channel`` concerns "ncc" on images and nothing else.

    >>> pool(torch.tensor([[0.0, 1.0], [float("nan"), 1.0], [2.0, 2.0]]), "ncc", False).usable
    tensor([ True, False, False])
    """
    if distance not in ("ncc", "l2"):
        raise RecollectError(f"unknown distance {distance!r}; choose 'ncc' or 'l2'")
    if samples.ndim < 2:
        raise RecollectError(
            f"samples need a leading axis and at least one more, got shape {list(samples.shape)}; pass [number, ...]"
        )
    if samples.dtype not in (torch.float32, torch.float64):
        samples = samples.to(torch.float32)
    points = samples.flatten(1)
    usable = torch.cat([rows.square().sum(dim=1).isfinite() for rows in points.split(_EMBED_ROWS)])
    if distance == "ncc":
        points = _unit_points(samples, per_channel and samples.ndim == 4)
        usable = usable & (torch.linalg.vector_norm(points, dim=1) > 0)
    return Pool(samples, points, usable, distance)


def _unit_points(samples: Float[Tensor, "k ..."], per_channel: bool) -> Float[Tensor, "k d"]:
    points = torch.empty_like(samples.flatten(1))
    for start in range(0, len(samples), _EMBED_ROWS):
        rows = slice(start, start + _EMBED_ROWS)
        points[rows] = normalise(samples[rows], per_channel)
    return points


def distances(a: Float[Tensor, "n d"], b: Float[Tensor, "k d"], distance: Distance) -> Float[Tensor, "n k"]:
    """Distances between all points of two pools.

    For "ncc" this is ``sqrt(2 - 2 ncc)``: Buzaglo et al. 2023, Eq. 16, up to its constant factor
    ``sqrt(d - 1)``. What rounding cannot tell from zero is zero: copies of one image are equally near.
    """
    if distance == "l2":
        # The quicker product form loses half of the digits, which points close together need.
        return torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist")
    squared = (a @ b.T).mul_(-2).add_(2)
    squared.masked_fill_(squared < 64 * torch.finfo(a.dtype).eps, 0)
    return squared.sqrt_()


Blocks = Iterator[tuple[slice, Float[Tensor, "rows k"], Int[Tensor, "rows k"] | None]]
"""Some rows of a table of distances, and the group element behind each; None where there is no group."""


def distance_blocks(points: Float[Tensor, "n g d"], candidates: Pool) -> Blocks:
    """The ``[n, k]`` distances from orbits to candidates, some rows at a time; infinite when unusable.

    ``min_g ||g x - c||`` (Elbaz 2024, section 3.1), and the place of the smallest in the orbit of ``x``.
    """
    n, size = points.shape[:2]
    for rows in row_blocks(n, size * len(candidates.points)):
        block = distances(points[rows].flatten(0, 1), candidates.points, candidates.distance)
        block.masked_fill_(~candidates.usable, torch.inf)
        if size == 1:
            yield rows, block, None
        else:
            nearest = block.unflatten(0, (-1, size)).min(dim=1)
            yield rows, nearest.values, nearest.indices


def orbit_distances(
    orbits: Float[Tensor, "n g d"], points: Float[Tensor, "k d"], distance: Distance
) -> Float[Tensor, "n k"]:
    """``min_g ||g x - c||`` (Elbaz 2024, section 3.1)."""
    return distances(orbits.flatten(0, 1), points, distance).unflatten(0, orbits.shape[:2]).amin(dim=1)


def orbit_points(
    x: Float[Tensor, "n ..."], distance: Distance, per_channel: bool, group: Group | None
) -> Float[Tensor, "n g d"]:
    """Reference samples as points, each with its whole orbit; g = 1 without a group."""
    orbits = x.unsqueeze(1) if group is None else group.to(x).orbit(x)
    return pool(orbits.flatten(0, 1), distance, per_channel).points.unflatten(0, orbits.shape[:2])


def row_blocks(n: int, k: int) -> Iterator[slice]:
    """Slices that cover ``n`` rows of length ``k``, a bounded number of entries each."""
    size = max(1, _PAIRS // max(k, 1))
    return (slice(start, min(start + size, n)) for start in range(0, n, size))
