"""Judgement up to a group: distances, votes, scores and the null, against loops over its elements."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from recollect.analysis import MatchRule, judge, match, ncc, nearest_distance, recovered_rule, ssim, stretch
from recollect.groups import own_group
from recollect.symmetries import named_group

SHAPE = (2, 5, 5)
CASES = [
    ("flip", SHAPE, "ncc", True),
    ("d4", SHAPE, "ncc", True),
    ("d4", SHAPE, "ncc", False),
    ("klein4", SHAPE, "l2", False),
    ("permutations", (3, 2), "l2", True),
    ("permutations", (3, 2), "ncc", False),
]


def draws(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def rule_for(name: str, shape: tuple[int, ...], distance: str, once: bool) -> MatchRule:
    group = named_group(name, shape)
    return MatchRule(distance=distance, each_candidate_once=once, group=group, vote_ratio=1.2)  # pyright: ignore


@settings(max_examples=10, deadline=None)
@given(st.sampled_from(CASES), st.integers(0, 1000))
def test_nothing_changes_when_candidates_move_along_their_orbits(case: tuple, seed: int) -> None:
    rule = rule_for(*case)
    assert rule.group is not None
    candidates, x, mean = draws(seed, 12, *case[1]), draws(seed + 1, 4, *case[1]), torch.zeros(case[1])
    element = torch.randint(rule.group.size, (12,), generator=torch.Generator().manual_seed(seed))
    here, there = (match(at, x, mean.double(), rule) for at in (candidates, rule.group.move(candidates, element)))
    assert torch.allclose(here.distance, there.distance, rtol=1e-9)
    assert torch.equal(here.candidate, there.candidate)
    assert torch.equal(here.votes, there.votes)
    assert torch.allclose(here.reconstruction, there.reconstruction, atol=1e-9)
    assert torch.allclose(here.ncc, there.ncc, atol=1e-9)
    moved = rule.group.move(candidates, element)
    assert torch.allclose(nearest_distance(candidates, x, rule), nearest_distance(moved, x, rule), rtol=1e-9)


@pytest.mark.parametrize("case", CASES)
def test_distances_and_votes_are_those_of_a_loop_over_elements(case: tuple) -> None:
    rule = rule_for(*case)
    group, (_, shape, distance, once) = rule.group, case
    assert group is not None
    candidates, x = draws(1, 10, *shape), draws(2, 3, *shape)
    table = torch.empty(3, 10, group.size, dtype=torch.float64)
    for i in range(3):
        for k in range(10):
            for g, moved in enumerate(group.orbit(candidates[k])):
                if distance == "l2":
                    table[i, k, g] = (x[i] - moved).norm()
                else:
                    correlation = ncc(x[i : i + 1], moved[None], per_channel=len(shape) == 3)
                    table[i, k, g] = (2 - 2 * float(correlation)) ** 0.5
    smallest, best = table.min(dim=2)
    allowed = torch.ones(3, 10, dtype=torch.bool)
    if once:
        allowed = smallest == smallest.amin(dim=0)
    found = match(candidates, x, torch.zeros(shape).double(), rule)
    for i in range(3):
        nearest = smallest[i].masked_fill(~allowed[i], torch.inf)
        assert float(found.distance[i]) == pytest.approx(float(nearest.min()), rel=1e-9)
        voters = [k for k in range(10) if nearest[k] <= 1.2 * nearest.min() and bool(allowed[i, k])]
        assert int(found.votes[i]) == len(voters)
        if voters:
            turned = [group.orbit(candidates[k])[best[i, k]] for k in voters]
            assert torch.allclose(found.reconstruction[i], torch.stack(turned).mean(dim=0), atol=1e-9)


def test_a_turned_copy_is_a_perfect_reconstruction_only_up_to_the_group() -> None:
    group = named_group("d4", (1, 8, 8))
    images, mean = draws(0, 5, 1, 8, 8).sigmoid(), torch.full((1, 8, 8), 0.5).double()
    x = images - mean
    candidates = 0.5 * group.move(x, torch.tensor([1, 2, 3, 5, 7]))
    with_group, without = (match(candidates, x, mean, MatchRule(group=g)) for g in (group, None))
    assert torch.allclose(with_group.ncc, torch.ones(5).double(), atol=1e-9)
    assert torch.allclose(with_group.reconstruction, 0.5 * x, atol=1e-12)
    assert float(without.ncc.max()) < 0.7
    expected = ssim(stretch(0.5 * x + mean), images)
    assert with_group.ssim is not None
    assert torch.allclose(with_group.ssim, expected, atol=1e-9)


def test_the_null_is_matched_up_to_the_group_too() -> None:
    group = named_group("flip", SHAPE)
    x, holdout, mean = draws(0, 6, *SHAPE), draws(1, 12, *SHAPE), torch.zeros(SHAPE).double()
    candidates = torch.cat([holdout.flip(-1), draws(2, 20, *SHAPE)])
    judged = judge(candidates, x, mean, holdout, MatchRule(group=group))
    assert judged.null is not None
    assert float(judged.null.ncc.min()) > 0.99
    plain = judge(candidates, x, mean, holdout, MatchRule())
    assert plain.null is not None
    assert float(plain.null.ncc.max()) < 0.9
    assert "up to flip (2 elements)" in recovered_rule(judged)


def test_matrix_groups_match_too() -> None:
    group = own_group([torch.eye(2), -torch.eye(2)], (2,), "sign")
    x = draws(0, 4, 2)
    found = match(-x, x, torch.zeros(2).double(), MatchRule(distance="l2", group=group))
    assert float(found.distance.max()) < 1e-9
    assert torch.allclose(found.reconstruction, x)
