"""The numbers a run folder holds: counted by hand from scores that we set."""

import json

import pytest
import torch

from recollect.analysis import Judgement, Matches, MatchRule, NullScores, judge, null_threshold, summarise

SSIM = [0.9, 0.41, 0.4, 0.0, -0.2]
NCC = [0.95, 0.9, 0.8, 0.79, -1.0]


def judgement(null_ncc: list[float], rule: MatchRule) -> Judgement:
    matches = Matches(
        reconstruction=torch.zeros(5, 1, 4, 4),
        candidate=torch.tensor([0, 1, 2, 3, -1]),
        votes=torch.tensor([1, 1, 1, 1, 0]),
        distance=torch.zeros(5),
        ncc=torch.tensor(NCC, dtype=torch.float64),
        ssim=torch.tensor(SSIM, dtype=torch.float64),
        psnr=torch.zeros(5),
        rule=rule,
    )
    luck = torch.tensor(null_ncc, dtype=torch.float64)
    threshold = null_threshold(luck, 0.75)
    recovered = matches.ncc > threshold.value
    null = NullScores(luck, torch.linspace(0.1, 0.5, len(luck), dtype=torch.float64))
    return Judgement(matches, null, "ncc", threshold, recovered, int((luck > threshold.value).sum()))


def test_counts_by_hand():
    rule = MatchRule(ssim_window=5, scaling="clamp", vote_ratio=1.5, each_candidate_once=False)
    summary = summarise(judgement([0.85, 0.8, 0.1, 0.2, 0.92], rule))
    words = summary.pop("recovered_rule")
    assert summary == {
        "reference_count": 5,
        "recovered": 1,
        "score": "ncc",
        "threshold": pytest.approx(0.92),
        "false_positive_rate": pytest.approx(1 / 6),
        "luck_probability": pytest.approx(0.5),  # the highest of 5 + 5 exchangeable scores is as likely of either kind
        "null_count": 5,
        "null_recovered": 0,
        "good_ssim04": 2,
        "null_good_ssim04": 1,
        "top10_ssim": pytest.approx(sum(SSIM) / 5),
        "ncc80": 3,
        "ncc90": 2,
        "null_ncc80": 3,
        "null_ncc90": 1,
        "mean_dssim": pytest.approx(sum((1 - s) / 2 for s in SSIM) / 5),
        "null_mean_dssim": pytest.approx((1 - 0.3) / 2),
        "ssim_window": 5,
        "scaling": "clamp",
        "vote_ratio": 1.5,
        "each_candidate_once": False,
        "group": "trivial",
    }
    assert words == (
        "NCC above 0.9200, quantile 0.75 of 5 held-out samples (at most 16.67% of unseen samples expected by "
        "luck); normalised distance, normalised per channel, votes within 1.5 x the smallest distance, "
        "candidates may serve many samples, SSIM window 5, clamp scaling"
    )


def test_too_few_held_out_samples_are_named():
    words = summarise(judgement([0.85, 0.3], MatchRule()))["recovered_rule"]
    assert str(words).startswith("NCC above 0.8500, the highest of 2 held-out samples, too few for quantile 0.75")
    assert "at most 33.33%" in str(words)
    assert "each candidate once" in str(words)


def test_top_ten_of_many():
    draw = torch.Generator().manual_seed(0)
    x = torch.randn((12, 1, 6, 6), generator=draw, dtype=torch.float64)
    noise = torch.randn((12, 1, 6, 6), generator=draw, dtype=torch.float64)
    result = judge(x + 0.3 * noise, x, torch.zeros(1, 6, 6), None, MatchRule(), "ssim")
    assert result.matches.ssim is not None
    best = sorted(result.matches.ssim.tolist())[-10:]
    assert summarise(result)["top10_ssim"] == pytest.approx(sum(best) / 10)


def test_nothing_calibrated_is_said_and_is_json():
    result = judge(torch.eye(4), torch.eye(4)[:2], torch.zeros(4), None, MatchRule(), "ncc")
    summary = json.loads(json.dumps(summarise(result), allow_nan=False))
    assert summary["recovered"] is None
    assert summary["null_recovered"] is None
    assert summary["null_count"] == 0
    assert summary["mean_dssim"] is None
    assert summary["recovered_rule"].startswith("not calibrated: no held-out samples were given")


def test_points_have_a_radius_and_no_ncc():
    points = torch.tensor([[0.0, 0.0], [1.0, 0.0]])
    rule = MatchRule(distance="l2", radius=0.1)
    summary = summarise(judge(points + 0.05, points, torch.zeros(2), None, rule, "distance"))
    assert summary["recovered"] == 2
    assert summary["ncc80"] is None
    assert str(summary["recovered_rule"]).startswith("some candidate within 0.1 of the sample")


def test_both_scalings_and_windows_stand_beside_the_rule():
    """The variant that the rule itself names has the rule's figure, and the others are those of another rule."""
    generator = torch.Generator().manual_seed(0)
    x, holdout = (torch.randn(n, 1, 12, 12, generator=generator, dtype=torch.float64) for n in (6, 12))
    candidates, mean = x[:4] + 0.3 * holdout[:4], torch.full((1, 12, 12), 0.5, dtype=torch.float64)
    for scaling in ("stretch", "clamp"):
        for window in (3, 11):
            rule = MatchRule(scaling=scaling, ssim_window=window)
            summary = summarise(judge(candidates, x, mean, holdout, rule))
            assert summary[f"mean_dssim_{scaling}_{window}"] == summary["mean_dssim"]
            assert summary[f"null_mean_dssim_{scaling}_{window}"] == summary["null_mean_dssim"]
    figures = {summary[f"mean_dssim_{name}"] for name in ("stretch_3", "stretch_11", "clamp_3", "clamp_11")}
    assert len(figures) == 4


def test_windows_larger_than_the_image_are_left_out():
    x = torch.eye(64, dtype=torch.float64)[:3].reshape(3, 1, 8, 8)
    summary = summarise(judge(x, x, torch.zeros(1, 8, 8, dtype=torch.float64)))
    assert "mean_dssim_clamp_3" in summary
    assert "mean_dssim_clamp_11" not in summary
