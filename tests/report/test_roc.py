"""ROC against scikit-learn, and what it says at a rate."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score, roc_curve

from recollect.report.matches import Matches, Sample
from recollect.report.roc import roc, roc_of

scores = st.lists(st.integers(-5, 5).map(float), min_size=1, max_size=30)


@settings(max_examples=60, deadline=None)
@given(scores, scores)
def test_curve_and_area_are_those_of_scikit_learn(training: list[float], held_out: list[float]) -> None:
    truth = [1] * len(training) + [0] * len(held_out)
    made = roc(training, held_out)
    assert made.auc == pytest.approx(roc_auc_score(truth, training + held_out))
    false, true, _ = roc_curve(truth, training + held_out, drop_intermediate=False)
    corners = set(zip(false.round(9), true.round(9), strict=True))
    kept = set(zip(np.round(made.false_positive, 9), np.round(made.true_positive, 9), strict=True))
    assert {(0.0, 0.0), (1.0, 1.0)} <= kept <= corners
    for rate in (0.0, 0.1, 0.25, 0.5, 0.9, 1.0):
        assert made.true_at(rate) == pytest.approx(true[false <= rate].max())
    at = np.interp(false[1:-1], made.false_positive, made.true_positive)
    assert ((true[1:-1] <= at + 1e-9) | np.isin(false[1:-1].round(9), [x for x, _ in kept])).all()


def test_the_share_at_a_rate_is_the_best_of_all_thresholds() -> None:
    made = roc([0.9, 0.8, 0.4, 0.2], [0.5, 0.3, 0.1, 0.0])
    assert made.true_at(0.0) == 0.5
    assert made.true_at(0.25) == 0.75
    assert made.true_at(1.0) == 1.0


def test_a_sample_that_nothing_matched_scores_worst_and_distances_count_downwards() -> None:
    assert roc([0.5, math.nan], [0.1, 0.2]).true_at(0.0) == 0.5
    samples = (_sample(0.1), _sample(None))
    made = roc_of(Matches("distance", 0.2, samples, {"distance": [0.5, 0.7]}))
    assert made is not None
    assert made.true_at(0.0) == 0.5
    assert roc_of(Matches("distance", 0.2, samples, {})) is None


def _sample(distance: float | None) -> Sample:
    blank = dict.fromkeys(("index", "label", "output", "ncc", "ssim", "psnr", "candidate", "votes", "recovered"))
    return Sample(distance=distance, **blank)
