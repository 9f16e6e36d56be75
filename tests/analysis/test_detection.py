"""Calibrated statistics against SciPy, scikit-learn and slow twins, and their promises by simulation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import roc_auc_score, roc_curve

from recollect.analysis.detection import (
    conformal_p_values,
    exchangeable_luck,
    least_beyond_luck,
    roc,
)
from recollect.core import RecollectError

coarse = st.lists(st.integers(0, 8).map(lambda value: value / 8), min_size=1, max_size=30)


@given(coarse, coarse)
def test_p_values_count_the_null_from_a_score_on(scores: list[float], null: list[float]) -> None:
    expected = [(1 + sum(other >= score for other in null)) / (len(null) + 1) for score in scores]
    found = conformal_p_values(torch.tensor(scores), torch.tensor(null))
    assert found.tolist() == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("null_count", [7, 50, 200])
def test_p_values_of_exchangeable_scores_keep_their_promise(null_count: int) -> None:
    generator = torch.Generator().manual_seed(0)
    draws = torch.randn(4000, null_count + 1, generator=generator, dtype=torch.float64)
    p_values = torch.stack([conformal_p_values(row[:1], row[1:]) for row in draws])
    for level in (0.01, 0.05, 0.2, 0.5):
        share = float((p_values <= level + 1e-12).double().mean())
        reachable = int(level * (null_count + 1) + 1e-9) / (null_count + 1)
        assert share <= level + 4 * (level / 4000) ** 0.5
        assert share >= reachable - 4 * (max(reachable, 1e-9) / 4000) ** 0.5


@pytest.mark.parametrize(("n", "allowed", "null_count"), [(12, 0, 20), (30, 2, 99)])
def test_least_beyond_luck_by_trying_every_number(n: int, allowed: int, null_count: int) -> None:
    for passed in range(n + 1):
        luck = [exchangeable_luck(passed - others, n - others, allowed, null_count) for others in range(passed)]
        assert luck == sorted(luck)
        expected = sum(value <= 0.05 for value in luck)
        assert least_beyond_luck(passed, n, allowed, null_count) == expected


@pytest.mark.parametrize(("n", "k", "leaks"), [(200, 99, 0), (500, 400, 0), (300, 400, 20), (60, 99, 15)])
def test_least_beyond_luck_is_rarely_too_high(n: int, k: int, leaks: int) -> None:
    generator = torch.Generator().manual_seed(0)
    ranks, runs = max(1, (k + 1) // 100), 400
    too_high, bounds = 0, []
    for _ in range(runs):
        members, null = torch.randn(n, generator=generator), torch.randn(k, generator=generator)
        members[:leaks] += 9
        passed = int((members > null.sort(descending=True).values[ranks - 1]).sum())
        bounds.append(least_beyond_luck(passed, n, ranks - 1, k))
        too_high += bounds[-1] > leaks
    assert too_high / runs <= 0.05 + 3 * (0.05 / runs) ** 0.5
    assert sum(bounds) / runs >= 0.5 * leaks


@given(st.integers(1, 12), st.integers(1, 12), st.data())
@settings(max_examples=60)
def test_luck_against_scipy_hypergeometric(n: int, null_count: int, data: st.DataObject) -> None:
    allowed, passed = data.draw(st.integers(0, null_count - 1)), data.draw(st.integers(1, n))
    expected = stats.hypergeom(n + null_count, null_count, passed + allowed).cdf(allowed)
    assert exchangeable_luck(passed, n, allowed, null_count) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("n", "null_count", "allowed"), [(20, 30, 0), (20, 30, 2), (50, 10, 1)])
def test_luck_against_simulation(n: int, null_count: int, allowed: int) -> None:
    generator = np.random.default_rng(0)
    scores = generator.normal(size=(20_000, n + null_count))
    threshold = np.sort(scores[:, n:], axis=1)[:, -1 - allowed]
    counts = (scores[:, :n] > threshold[:, None]).sum(axis=1)
    for passed in (1, 2, 4, 8):
        assert exchangeable_luck(passed, n, allowed, null_count) == pytest.approx((counts >= passed).mean(), abs=0.015)
    assert exchangeable_luck(0, n, allowed, null_count) == 1.0


def test_a_binomial_tail_would_understate_luck() -> None:
    """The threshold of few held-out samples moves; taken for known, ten of 500 seem a certain leak."""
    binomial = float(stats.binom(500, 1 / 201).sf(9))
    assert exchangeable_luck(10, 500, 0, 200) > 30 * binomial


@given(coarse, coarse)
def test_area_and_curve_against_scikit_learn(members: list[float], others: list[float]) -> None:
    found = roc(torch.tensor(members), torch.tensor(others))
    truth, scores = [1] * len(members) + [0] * len(others), members + others
    assert found.auc == pytest.approx(roc_auc_score(truth, scores), abs=1e-12)
    false_positive, true_positive, _ = roc_curve(truth, scores, drop_intermediate=False)
    points = {(round(x, 9), round(y, 9)) for x, y in zip(false_positive, true_positive, strict=True)}
    kept = list(zip(found.false_positive.tolist(), found.true_positive.tolist(), strict=True))
    assert {(round(x, 9), round(y, 9)) for x, y in kept} <= points
    assert np.trapezoid(found.true_positive, found.false_positive) == pytest.approx(found.auc, abs=1e-12)
    for rate in (0.0, 0.1, 0.5, 1.0):
        assert found.true_positive_at(rate) == pytest.approx(true_positive[false_positive <= rate + 1e-12].max())


def test_deviation_of_the_area_against_a_slow_twin() -> None:
    generator = torch.Generator().manual_seed(1)
    members = torch.randn(40, generator=generator, dtype=torch.float64).round(decimals=1) + 0.5
    others = torch.randn(70, generator=generator, dtype=torch.float64).round(decimals=1)
    wins = (members[:, None] > others).double() + (members[:, None] == others).double() / 2
    variance = wins.mean(dim=1).var() / 40 + wins.mean(dim=0).var() / 70
    found = roc(members, others)
    reach = 1.959963984540054 * float(variance.sqrt())
    assert found.auc_interval == pytest.approx((found.auc - reach, found.auc + reach), abs=1e-9)


def test_the_interval_of_the_area_covers() -> None:
    generator = torch.Generator().manual_seed(2)
    truth = stats.norm.cdf(0.7 / 2**0.5)
    covered = 0
    for _ in range(400):
        members = torch.randn(60, generator=generator) + 0.7
        interval = roc(members, torch.randn(80, generator=generator)).auc_interval
        assert interval is not None
        covered += interval[0] <= truth <= interval[1]
    assert 0.91 <= covered / 400 <= 0.985


@pytest.mark.parametrize(("members", "others"), [([0.9, 0.95], [0.1, 0.2]), ([0.5], [0.1, 0.2, 0.7])])
def test_an_area_whose_deviation_nobody_knows_has_no_interval(members: list[float], others: list[float]) -> None:
    assert roc(torch.tensor(members), torch.tensor(others)).auc_interval is None


@pytest.mark.parametrize(
    ("members", "others"), [([], [1.0]), ([1.0], []), ([float("nan")], [1.0]), ([1.0], [float("nan")])]
)
def test_scores_that_are_none_are_refused(members: list[float], others: list[float]) -> None:
    for judge in (conformal_p_values, roc):
        with pytest.raises(RecollectError, match="at least one of each is needed"):
            judge(torch.tensor(members), torch.tensor(others))
