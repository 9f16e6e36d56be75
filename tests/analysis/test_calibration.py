"""The null distribution: what it promises when nothing leaks, and that it sees what does."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from recollect.analysis import (
    MatchRule,
    candidate_pool,
    judge,
    match,
    null_scores,
    null_threshold,
)
from recollect.analysis.calibration import mean_with
from recollect.core import RecollectError
from recollect.symmetries import named_group


def gaussian(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@given(scores=st.lists(st.integers(-20, 20), min_size=1, max_size=60), percent=st.sampled_from([50, 80, 90, 99]))
def test_threshold_is_the_smallest_that_keeps_the_promise(scores, percent):
    """By counting, in whole numbers: the least rank r with (k + 1 - r) / (k + 1) <= 1 - q, or the last."""
    k, ranked = len(scores), sorted(scores)
    enough = [r for r in range(1, k + 1) if 100 * (k + 1 - r) <= (100 - percent) * (k + 1)]
    rank = enough[0] if enough else k
    threshold = null_threshold(torch.tensor(scores, dtype=torch.float64), percent / 100)
    assert threshold.value == ranked[rank - 1]
    assert threshold.false_positive_rate == pytest.approx((k + 1 - rank) / (k + 1))
    assert (threshold.false_positive_rate <= 1 - percent / 100 + 1e-12) == bool(enough)


def test_few_null_scores_promise_what_they_can():
    threshold = null_threshold(torch.tensor([0.1, 0.4, 0.2]), 0.99)
    assert threshold.value == pytest.approx(0.4)
    assert threshold.false_positive_rate == 1 / 4
    assert threshold.null_count == 3


def test_threshold_refuses_nonsense():
    with pytest.raises(RecollectError, match="between 0 and 1"):
        null_threshold(torch.ones(3), 1.0)
    with pytest.raises(RecollectError, match="got 0 null scores"):
        null_threshold(torch.ones(0))
    with pytest.raises(RecollectError, match="1 of them not numbers"):
        null_threshold(torch.tensor([0.0, float("nan")]))


@pytest.mark.parametrize("once", [True, False])
def test_independent_candidates_recover_no_more_than_promised(once):
    """Nothing leaks here, so what is recovered is luck: its share may be at most 1 - quantile."""
    rule, n, recovered, repeats = MatchRule(each_candidate_once=once), 20, 0, 150
    for repeat in range(repeats):
        samples, candidates = gaussian(2 * repeat, 100, 12), gaussian(2 * repeat + 1, 60, 12)
        judgement = judge(candidates, samples[:n], torch.zeros(12), samples[n:], rule, "ncc", 0.9)
        assert judgement.recovered is not None
        recovered += int(judgement.recovered.sum())
    share = recovered / (repeats * n)
    deviations = 4 * (0.1 * 0.9 / (repeats * n)) ** 0.5
    assert 0.1 - 2 * deviations < share < 0.1 + deviations


@pytest.mark.parametrize("score", ["ncc", "ssim"])
def test_planted_samples_are_recovered(score):
    mean = torch.full((1, 8, 8), 0.5, dtype=torch.float64)
    x, holdout = 0.2 * gaussian(0, 10, 1, 8, 8), 0.2 * gaussian(1, 200, 1, 8, 8)
    candidates = torch.cat([x[:3] + 0.02 * gaussian(2, 3, 1, 8, 8), 0.2 * gaussian(3, 50, 1, 8, 8)])
    judgement = judge(candidates, x, mean, holdout, MatchRule(), score)
    assert judgement.recovered is not None
    assert judgement.recovered[:3].all()
    assert int(judgement.recovered.sum()) <= 4
    assert judgement.threshold is not None
    assert judgement.threshold.null_count == 200
    assert judgement.null_recovered == 1


def test_null_is_matched_in_groups_of_the_training_size():
    x, holdout, candidates = gaussian(4, 6, 9), gaussian(5, 20, 9), gaussian(6, 15, 9)
    mean, rule = torch.zeros(9), MatchRule()
    pool, added = candidate_pool(candidates, rule), torch.zeros(20, 9)
    null = null_scores(pool, holdout, len(x), mean, rule, added)
    order = torch.randperm(20, generator=torch.Generator().manual_seed(0))
    groups = [order[start : start + 6].sort().values for start in (0, 6, 12)]
    torch.testing.assert_close(
        null.ncc, torch.cat([match(candidates, holdout[rows], mean, rule).ncc for rows in groups])
    )
    assert null.ssim is None
    few = null_scores(pool, holdout[:4], len(x), mean, rule, added)
    torch.testing.assert_close(few.ncc, match(candidates, holdout[:4], mean, rule).ncc)
    shared = MatchRule(each_candidate_once=False)
    all_of_them = null_scores(pool, holdout, len(x), mean, shared, added)
    torch.testing.assert_close(all_of_them.ncc, match(candidates, holdout, mean, shared).ncc)


def clusters(classes: int, each: int, generator: torch.Generator, centres: torch.Tensor) -> torch.Tensor:
    """Samples of one class after the other."""
    return (centres[:, None] + torch.randn(classes, each, centres.shape[1], generator=generator)).flatten(0, 1)


def test_held_out_samples_in_the_order_of_their_classes_are_no_stricter_null():
    generator = torch.Generator().manual_seed(0)
    recovered, runs, n = 0, 12, 60
    for _ in range(runs):
        centres = 2 * torch.randn(6, 20, generator=generator)
        x, holdout = clusters(6, 10, generator, centres), clusters(6, 100, generator, centres)
        candidates = clusters(6, 20, generator, centres)
        judgement = judge(candidates, x, torch.zeros(20), holdout, MatchRule())
        assert judgement.recovered is not None
        recovered += int(judgement.recovered.sum())
    assert recovered / (runs * n) <= 0.01 + 3 * (0.01 / (runs * n)) ** 0.5


def photographs(count: int, generator: torch.Generator) -> torch.Tensor:
    """Smooth images, whose mean shows when there are few of them."""
    coarse = torch.rand(count, 1, 4, 4, generator=generator)
    return torch.nn.functional.interpolate(coarse, size=12, mode="bilinear", align_corners=False)


@pytest.mark.parametrize("told", [True, False])
def test_noise_recovers_nothing_by_the_part_that_samples_have_in_their_mean(told):
    """``mean`` holds a tenth of each training sample, and makes an image of any reconstruction."""
    generator = torch.Generator().manual_seed(0)
    recovered, gap, runs, n = 0, 0.0, 30, 10
    for _ in range(runs):
        images, unseen = photographs(n, generator), photographs(200, generator)
        mean = images.mean(dim=0)
        noise = 0.05 * torch.randn(40, 1, 12, 12, generator=generator)
        own = mean_with(unseen - mean, mean, n) if told else None
        judgement = judge(noise, images - mean, mean, unseen - mean, MatchRule(), "ssim", holdout_mean=own)
        assert judgement.recovered is not None
        assert judgement.null is not None
        recovered += int(judgement.recovered.sum())
        gap += float(judgement.matches.variants["stretch_3"].mean() - judgement.null.variants["stretch_3"].mean())
    assert recovered / (runs * n) <= 0.03
    assert abs(gap / runs) < 0.02


def test_candidates_that_are_images_score_the_same_stretched_and_clamped():
    """Black and white, each of them: a part of a held-out sample in the mean must not make them grey."""
    generator = torch.Generator().manual_seed(0)
    images = (torch.rand(40, 1, 6, 6, generator=generator) < 0.4).double()
    found, held_out = (torch.rand(2, 40, 1, 6, 6, generator=generator) < 0.4).double()
    mean = images[:10].mean(dim=0)
    judgement = judge(found - mean, images[:10] - mean, mean, held_out - mean, MatchRule(vote_ratio=1.0))
    assert judgement.null is not None
    stretched, clamped = (judgement.null.variants[f"{name}_3"] for name in ("stretch", "clamp"))
    assert torch.allclose(stretched, clamped)
    assert float(stretched.std()) > 0.01


def test_the_mean_with_a_sample_is_that_of_the_group():
    generator = torch.Generator().manual_seed(0)
    samples, mean = torch.randn(3, 1, 4, 4, generator=generator), torch.rand(1, 4, 4, generator=generator)
    group = named_group("d4", (1, 4, 4))
    assert torch.allclose(mean_with(samples, mean, 5), mean + samples / 5)
    assert torch.allclose(mean_with(samples, mean, 5, group), mean + group.orbit(samples).mean(dim=1) / 5)
    assert torch.equal(mean_with(samples, torch.zeros(1, 4, 4), 5), torch.zeros(3, 1, 4, 4))


def test_without_holdout_nothing_is_calibrated():
    for holdout in (None, torch.zeros(0, 9)):
        judgement = judge(gaussian(7, 5, 9), gaussian(8, 3, 9), torch.zeros(9), holdout, MatchRule(), "ncc")
        assert judgement.recovered is None
        assert judgement.threshold is None
        assert judgement.null is None


def test_points_are_recovered_within_the_radius_even_when_they_share_a_candidate():
    x = torch.tensor([[0.0, 0.0], [0.06, 0.0], [1.0, 0.0]])
    candidates = torch.tensor([[0.02, 0.0], [1.2, 0.0]])
    rule = MatchRule(distance="l2", radius=0.05)
    judgement = judge(candidates, x, torch.zeros(2), None, rule, "distance")
    assert judgement.matches.matched.tolist() == [True, False, True]
    assert judgement.recovered is not None
    assert judgement.recovered.tolist() == [True, True, False]


def test_judge_refuses_unfit_scores():
    x = gaussian(9, 3, 5)
    with pytest.raises(RecollectError, match="choose 'ncc', 'ssim' or 'distance'"):
        judge(x, x, torch.zeros(5), None, MatchRule(), "psnr")  # pyright: ignore[reportArgumentType]
    with pytest.raises(RecollectError, match="needs images"):
        judge(x, x, torch.zeros(5), None, MatchRule(), "ssim")
