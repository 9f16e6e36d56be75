"""Matching against an obvious twin: Python loops, one distance at a time, float64."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.analysis import (
    MatchRule,
    candidate_pool,
    match,
    ncc,
    nearest_distance,
    psnr,
    scaled_reconstruction,
    ssim,
    stretch,
)
from recollect.core import RecollectError

RULES = [
    MatchRule(distance=distance, each_candidate_once=once, vote_ratio=ratio, scaling=scaling)
    for distance in ("ncc", "l2")
    for once in (True, False)
    for ratio, scaling in ((1.1, "stretch"), (1.5, "clamp"))
]


def gaussian(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def slow_distance(a: torch.Tensor, b: torch.Tensor, rule: MatchRule) -> float:
    if not bool(b.isfinite().all()):
        return math.inf
    if rule.distance == "l2":
        return math.sqrt(sum(float(u - v) ** 2 for u, v in zip(a.flatten(), b.flatten(), strict=True)))
    channels = list(zip(a, b, strict=True)) if rule.per_channel and a.ndim == 3 else [(a, b)]
    if all(float(v.max() - v.min()) == 0 for _, v in channels):
        return math.inf
    total = 0.0
    for u, v in channels:
        u, v = u.flatten() - u.mean(), v.flatten() - v.mean()
        length = math.sqrt(float(u @ u) * float(v @ v))
        total += float(u @ v) / length if length > 1e-12 else 0.0
    squared = 2 - 2 * total / len(channels)
    return math.sqrt(squared) if squared > 1e-13 else 0.0


def slow_match(candidates, x, rule):
    """Nearest candidate, distance and voters of each sample."""
    table = [[slow_distance(sample, candidate, rule) for candidate in candidates] for sample in x]
    if rule.each_candidate_once:
        for k in range(len(candidates)):
            owner = min(range(len(x)), key=lambda i: table[i][k])
            for i in range(len(x)):
                if i != owner:
                    table[i][k] = math.inf
    results = []
    for row in table:
        smallest = min(row)
        voters = [k for k, d in enumerate(row) if d < math.inf and d <= rule.vote_ratio * smallest]
        results.append((row.index(smallest) if voters else -1, smallest, voters))
    return results


def assert_agrees(candidates, x, mean, rule):
    matches = match(candidates, x, mean, rule)
    for i, (nearest, smallest, voters) in enumerate(slow_match(candidates, x, rule)):
        assert int(matches.candidate[i]) == nearest
        assert int(matches.votes[i]) == len(voters)
        assert float(matches.distance[i]) == pytest.approx(smallest, abs=1e-9)
        average = torch.zeros_like(x[i])
        for k in voters:
            average = average + candidates[k] / len(voters)
        torch.testing.assert_close(matches.reconstruction[i], average)
        if not voters:
            assert float(matches.ncc[i]) == -1
            continue
        per_channel = rule.per_channel and x.ndim == 4
        expected = ncc(average[None], x[i : i + 1], per_channel)[0]
        torch.testing.assert_close(matches.ncc[i], expected, atol=1e-9, rtol=0)


@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("pairs", [7, 2**22])
def test_match_is_the_slow_twin_on_images(rule, pairs, monkeypatch):
    """With ``pairs`` = 7 every block holds one row: blocks must not show in the result."""
    monkeypatch.setattr("recollect.analysis.distance._PAIRS", pairs)
    monkeypatch.setattr("recollect.analysis.voting._VOTERS", 2)
    x = gaussian(0, 6, 2, 4, 4)
    candidates = torch.cat([x[:3] + 0.3 * gaussian(1, 3, 2, 4, 4), 0.5 * gaussian(2, 9, 2, 4, 4)])
    candidates[5] = float("nan")
    candidates[6, 0, 0, 0] = float("inf")
    candidates[7] = 0.25
    candidates[8, 1] = 0.1
    assert_agrees(candidates, x, torch.zeros_like(x[0]), rule)


@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("pairs", [1, 2**22])
def test_copies_tie_and_the_first_wins(rule, pairs, monkeypatch):
    """Also when the copies fall into different blocks of rows."""
    monkeypatch.setattr("recollect.analysis.distance._PAIRS", pairs)
    x = gaussian(3, 4, 9)
    x[2] = x[1]
    candidates = torch.cat([gaussian(4, 2, 9), x[1:2], x[1:2], x[3:4]])
    assert_agrees(candidates, x, torch.zeros(9, dtype=torch.float64), rule)
    matches = match(candidates, x, torch.zeros(9), rule)
    assert int(matches.candidate[1]) == 2
    assert int(matches.votes[1]) == 2
    assert bool(matches.matched[2]) != rule.each_candidate_once


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 5),
    k=st.integers(1, 9),
    once=st.booleans(),
    ratio=st.sampled_from([1.0, 1.1, 1.5]),
)
def test_ties_on_a_grid(seed, n, k, once, ratio):
    """Whole-number points tie all the time, and their squared distances are exact."""
    draw = torch.Generator().manual_seed(seed)
    x = torch.randint(-2, 3, (n, 2), generator=draw).double()
    candidates = torch.randint(-2, 3, (k, 2), generator=draw).double()
    candidates[torch.rand(k, generator=draw) < 0.2] = float("nan")
    rule = MatchRule(distance="l2", each_candidate_once=once, vote_ratio=ratio)
    assert_agrees(candidates, x, torch.zeros(2, dtype=torch.float64), rule)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), once=st.booleans())
def test_order_of_candidates_does_not_matter(seed, once):
    x, candidates = gaussian(seed, 5, 12), gaussian(seed + 1, 11, 12)
    order = torch.randperm(11, generator=torch.Generator().manual_seed(seed))
    rule = MatchRule(each_candidate_once=once)
    plain = match(candidates, x, torch.zeros(12), rule)
    moved = match(candidates[order], x, torch.zeros(12), rule)
    torch.testing.assert_close(moved.reconstruction, plain.reconstruction)
    matched = plain.matched
    torch.testing.assert_close(order[moved.candidate[matched]], plain.candidate[matched])


@pytest.mark.parametrize("scaling", ["stretch", "clamp"])
def test_scores_are_of_the_scaled_image_with_the_mean_added(scaling):
    mean = gaussian(5, 1, 8, 8).sigmoid()
    x = gaussian(6, 3, 1, 8, 8).sigmoid() - mean
    rule = MatchRule(vote_ratio=1.0, ssim_window=5, scaling=scaling)
    candidates = (x + 0.1 * gaussian(7, 3, 1, 8, 8)).flip(0)
    matches = match(candidates, x, mean, rule)
    images = candidates.flip(0) + mean
    images = stretch(images) if scaling == "stretch" else images.clamp(0, 1)
    assert matches.candidate.tolist() == [2, 1, 0]
    torch.testing.assert_close(scaled_reconstruction(matches, mean), images)
    torch.testing.assert_close(matches.ssim, ssim(images, x + mean, 5))
    torch.testing.assert_close(matches.psnr, psnr(images, x + mean))


@pytest.mark.parametrize("window", [3, 5])
def test_other_scalings_and_windows_change_no_score(window):
    mean, x = gaussian(5, 1, 12, 12).sigmoid(), gaussian(6, 3, 1, 12, 12)
    rule = MatchRule(ssim_window=window)
    with_all = match(gaussian(7, 5, 1, 12, 12), x, mean, rule)
    without = match(gaussian(7, 5, 1, 12, 12), x, mean, replace(rule, variants=False))
    assert set(with_all.variants) == {"stretch_3", "stretch_11", "clamp_3", "clamp_11"}
    assert without.variants == {}
    torch.testing.assert_close(with_all.ssim, without.ssim, rtol=0, atol=0)
    torch.testing.assert_close(with_all.ncc, without.ncc, rtol=0, atol=0)


def test_unmatched_images_say_so():
    x = gaussian(8, 3, 1, 6, 6)
    matches = match(x[:1].clone(), x, torch.zeros(1, 6, 6), MatchRule())
    assert matches.matched.tolist() == [True, False, False]
    assert matches.candidate[1:].tolist() == [-1, -1]
    assert matches.votes[1:].tolist() == [0, 0]
    assert matches.ncc[1:].tolist() == [-1, -1]
    assert matches.ssim is not None
    assert matches.ssim[1:].tolist() == [0, 0]
    assert matches.psnr is not None
    assert matches.psnr[1:].tolist() == [0, 0]
    assert bool(matches.distance[1:].isinf().all())
    assert bool((scaled_reconstruction(matches, torch.zeros(1, 6, 6))[1:] == 0.5).all())


@pytest.mark.parametrize("once", [True, False])
def test_diverged_candidates_leave_finite_scores(once):
    x = gaussian(9, 2, 1, 6, 6).float()
    candidates = torch.full((4, 1, 6, 6), float("nan"))
    candidates[1] = float("inf")
    candidates[2] = 1e30 * gaussian(10, 1, 6, 6).float()
    matches = match(candidates, x, torch.zeros(1, 6, 6), MatchRule(each_candidate_once=once))
    assert matches.candidate.tolist() == [-1, -1]
    assert matches.ssim is not None
    assert bool(matches.ssim.isfinite().all())
    assert bool(matches.reconstruction.isfinite().all())


def test_samples_that_are_not_images_have_no_ssim():
    matches = match(gaussian(11, 5, 7), gaussian(12, 2, 7), torch.zeros(7), MatchRule())
    assert matches.ssim is None
    assert matches.psnr is None


def test_single_precision_agrees_and_is_kept():
    x, candidates = gaussian(13, 8, 3, 6, 6), gaussian(14, 30, 3, 6, 6)
    mean = torch.zeros(3, 6, 6)
    exact, single = match(candidates, x, mean, MatchRule()), match(candidates.float(), x, mean, MatchRule())
    assert single.reconstruction.dtype == torch.float32
    assert single.candidate.tolist() == exact.candidate.tolist()
    torch.testing.assert_close(single.reconstruction.double(), exact.reconstruction, atol=1e-5, rtol=1e-5)


def test_prepared_candidates_give_the_same_matches():
    x, candidates, rule = gaussian(15, 4, 10), gaussian(16, 9, 10), MatchRule()
    prepared = match(candidate_pool(candidates, rule), x, torch.zeros(10), rule)
    torch.testing.assert_close(prepared.ncc, match(candidates, x, torch.zeros(10), rule).ncc)


@pytest.mark.parametrize("rule", [MatchRule(), MatchRule(distance="l2")], ids=str)
def test_nearest_distance_ignores_who_else_is_served(rule):
    x, candidates = gaussian(17, 5, 6), gaussian(18, 3, 6)
    free = replace(rule, each_candidate_once=False)
    expected = [smallest for _, smallest, _ in slow_match(candidates, x, free)]
    torch.testing.assert_close(nearest_distance(candidates, x, rule), torch.tensor(expected).double())


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"distance": "cosine"}, "choose 'ncc' or 'l2'"),
        ({"scaling": "none"}, "choose 'stretch' or 'clamp'"),
        ({"vote_ratio": 0.9}, "from 1 upwards"),
        ({"ssim_window": 4}, "odd number"),
        ({"radius": 0.0}, "above 0"),
    ],
)
def test_rule_refuses_what_means_nothing(fields, words):
    with pytest.raises(RecollectError, match=words):
        MatchRule(**fields)


def test_match_refuses_unfit_data():
    x, rule = gaussian(19, 2, 5), MatchRule()
    with pytest.raises(RecollectError, match="all three must agree"):
        match(gaussian(20, 3, 6), x, torch.zeros(5), rule)
    with pytest.raises(RecollectError, match="all three must agree"):
        match(gaussian(20, 3, 5), x, torch.zeros(6), rule)
    with pytest.raises(RecollectError, match="no candidates"):
        match(x[:0], x, torch.zeros(5), rule)
    with pytest.raises(RecollectError, match="got 0 reference samples"):
        match(x, x[:0], torch.zeros(5), rule)
    x[1, 2] = float("nan")
    with pytest.raises(RecollectError, match="of which 1 are not finite"):
        match(gaussian(20, 3, 5), x, torch.zeros(5), rule)
