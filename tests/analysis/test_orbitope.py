"""Where candidates lie between the average of an orbit and its elements, planted and found again."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from recollect.analysis import ncc
from recollect.analysis.orbitope import convex_weights, orbitope_places, relative_asymmetry
from recollect.symmetries import named_group

SHAPE = (1, 6, 6)


def draws(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("name", ["flip", "klein4", "d4"])
@pytest.mark.parametrize("position", [0.0, 0.3, 0.7, 1.0])
def test_planted_candidates_are_placed(name: str, position: float) -> None:
    group, x = named_group(name, SHAPE), draws(0, 5, *SHAPE)
    sample, element = torch.arange(20) % 5, torch.arange(20) % group.size
    extreme = group.move(x[sample], element)
    middle = group.orbit_average(extreme)
    candidates = 0.3 * (middle + position * (extreme - middle))
    found = orbitope_places(candidates, x, group)
    assert torch.equal(found.sample, sample)
    assert torch.allclose(found.position, torch.full_like(found.position, position), atol=1e-6)
    assert torch.allclose(found.ncc, torch.ones(20).double(), atol=1e-9)
    assert torch.allclose(found.asymmetry, relative_asymmetry(candidates, group))
    assert int(found.histogram().sum()) == 20
    assert int(found.histogram()[min(9, int(10 * position + 1e-6))]) >= 19


def test_it_is_the_nearest_of_all_sampled_points() -> None:
    group, x, candidates = named_group("klein4", SHAPE), draws(0, 3, *SHAPE), draws(1, 7, *SHAPE)
    found = orbitope_places(candidates, x, group, combinations=40, seed=3)
    weights = convex_weights(4, 40, 3)
    for k in range(7):
        best = (-2.0, -1, 0.0)
        for i in range(3):
            middle = group.orbit_average(x[i])
            for w in weights:
                point = sum(w[g] * moved for g, moved in enumerate(group.orbit(x[i])))
                assert isinstance(point, Tensor)
                similar = float(ncc(candidates[k : k + 1], point[None], per_channel=True))
                best = max(best, (similar, i, float((point - middle).norm() / (x[i] - middle).norm())))
        assert float(found.ncc[k]) == pytest.approx(best[0], rel=1e-9)
        assert (int(found.sample[k]), float(found.position[k])) == (best[1], pytest.approx(best[2], rel=1e-6))


def test_combinations_are_convex_and_reach_from_average_to_corners() -> None:
    for size in (2, 8, 24):
        weights = convex_weights(size, 160, 0)
        assert float(weights.min()) >= 0
        assert torch.allclose(weights.sum(dim=1), torch.ones(len(weights)).double())
        spread = (weights - 1 / size).norm(dim=1) / (1 - 1 / size) ** 0.5
        assert torch.histc(spread, 5, 0, 1).min() > 5
        assert int((weights > 1 - 1e-12).sum()) >= size


def test_candidates_that_are_not_finite_have_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    group, x = named_group("flip", SHAPE), draws(0, 4, *SHAPE)
    candidates = torch.cat([x, torch.full((1, *SHAPE), torch.nan).double(), torch.ones(1, *SHAPE).double()])
    found = orbitope_places(candidates, x, group)
    assert found.sample.tolist() == [0, 1, 2, 3, -1, -1]
    assert found.position.isnan().tolist() == [False] * 4 + [True] * 2
    assert int(found.histogram().sum()) == 4
    monkeypatch.setattr("recollect.analysis.orbitope._VALUES", 1)
    in_parts = orbitope_places(candidates, x, group)
    assert torch.equal(in_parts.sample, found.sample)
    assert torch.equal(in_parts.position[:4], found.position[:4])


def test_sets_have_orbitopes_too() -> None:
    group, x = named_group("permutations", (3, 2)), draws(0, 3, 3, 2)
    found = orbitope_places(x[:, [1, 2, 0]], x, group, distance="l2")
    assert found.sample.tolist() == [0, 1, 2]
    assert torch.allclose(found.position, torch.ones(3).double())
