"""Merging: who stands for whom, against one comparison at a time in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from recollect.analysis import Distance
from recollect.analysis.merging import merge
from recollect.symmetries import named_group


def by_hand(points: Tensor, duals: Tensor, radius: float) -> tuple[list[int], list[int]]:
    order = sorted(range(len(points)), key=lambda index: (-float(duals[index]), index))
    kept: list[int] = []
    for index in order:
        if all(float((points[index] - points[other]).norm()) >= radius for other in kept):
            kept.append(index)
    nearest = [min(range(len(kept)), key=lambda k: float((point - points[kept[k]]).norm())) for point in points]
    return kept, nearest


def clustered(seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(5, 1, 1, 4, 4, generator=generator, dtype=torch.float64)
    points = centres.repeat_interleave(8, 0)
    points = points + 0.01 * torch.randn(points.shape, generator=generator, dtype=torch.float64)
    return points, torch.randn(len(points), generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("seed", range(3))
def test_near_duplicates_become_one_with_its_members(seed: int) -> None:
    points, duals = clustered(seed)
    merged = merge(points, duals, radius=0.5, distance="l2")
    kept, nearest = by_hand(points.flatten(1), duals, 0.5)
    assert merged.kept.tolist() == kept
    assert merged.member_of.tolist() == nearest
    assert len(kept) == 5
    assert merged.member_of.bincount().tolist() == [8] * 5


def test_by_correlation_brightness_does_not_matter() -> None:
    points, duals = clustered(0)
    brighter = points * torch.linspace(0.5, 2, len(points)).reshape(-1, 1, 1, 1) + 3
    merged = merge(brighter, duals, radius=0.03, distance="ncc")
    assert len(merged.kept) == 5
    assert merged.member_of.bincount().tolist() == [8] * 5


@pytest.mark.parametrize("name", ["flip", "klein4", "d4"])
@pytest.mark.parametrize("distance", ["l2", "ncc"])
def test_with_a_group_what_it_moves_into_one_another_is_one(name: str, distance: Distance) -> None:
    points, duals = clustered(3)
    points = points.squeeze(1)
    group = named_group(name, (1, 4, 4)).to(points)
    element = torch.arange(len(points)) % group.size
    moved = group.move(points, element)
    radius = 0.5 if distance == "l2" else 0.03
    merged = merge(moved, duals, radius, distance, group)
    plain = merge(points, duals, radius, distance)
    assert merged.kept.tolist() == plain.kept.tolist()
    assert merged.member_of.tolist() == plain.member_of.tolist()
    assert len(merge(moved, duals, radius, distance).kept) > 5


def test_with_a_group_against_one_comparison_at_a_time() -> None:
    generator = torch.Generator().manual_seed(4)
    points = torch.randn(30, 1, 2, 2, generator=generator, dtype=torch.float64)
    duals = torch.randn(30, generator=generator, dtype=torch.float64)
    group = named_group("d4", (1, 2, 2)).to(points)

    def apart(a: int, b: int) -> float:
        return min(float((moved - points[b]).norm()) for moved in group.orbit(points[a]))

    kept: list[int] = []
    for index in sorted(range(30), key=lambda index: -float(duals[index])):
        if all(apart(index, other) >= 0.8 for other in kept):
            kept.append(index)
    merged = merge(points, duals, 0.8, "l2", group)
    assert merged.kept.tolist() == kept
    assert 1 < len(kept) < 30
    assert merged.member_of.tolist() == [
        min(range(len(kept)), key=lambda k: apart(index, kept[k])) for index in range(30)
    ]


@pytest.mark.parametrize("distance", ["l2", "ncc"])
def test_what_is_not_finite_belongs_to_nobody(distance: Distance) -> None:
    points, duals = clustered(1)
    points[3] = torch.nan
    duals[9] = torch.inf
    merged = merge(points, duals, radius=0.5, distance=distance)
    assert merged.member_of[[3, 9]].tolist() == [-1, -1]
    assert not {3, 9} & set(merged.kept.tolist())
    assert merge(points[3:4], duals[3:4], 0.5, distance).member_of.tolist() == [-1]


def test_radius_zero_merges_nothing() -> None:
    points, duals = clustered(2)
    merged = merge(points[[0, 0, 1]], duals[[0, 0, 1]], radius=0.0, distance="l2")
    assert len(merged.kept) == 3
    assert sorted(merged.member_of.tolist()) == [0, 1, 2]
