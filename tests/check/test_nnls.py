"""Multipliers from inner products: against scipy, against exhaustive active sets, and by their own conditions."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from recollect.check.nnls import free_sign, non_negative


def _problem(n: int, size: int, seed: int, rank: int | None = None) -> tuple[Tensor, Tensor]:
    """Rows are gradients, as in the check; some of the parameters are a combination of them."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(n, size, generator=generator, dtype=torch.float64)
    if rank is not None:
        mix = torch.randn(n, rank, generator=generator, dtype=torch.float64)
        rows = mix @ rows[:rank]
    return rows, torch.randn(size, generator=generator, dtype=torch.float64) + rows[: n // 2].sum(dim=0)


def _objective(rows: Tensor, theta: Tensor, multipliers: Tensor) -> float:
    return float((theta - multipliers @ rows).square().sum())


@pytest.mark.parametrize(("n", "size"), [(1, 3), (5, 40), (40, 60), (120, 130), (30, 12)])
@pytest.mark.parametrize("seed", range(3))
def test_it_agrees_with_scipy(n: int, size: int, seed: int) -> None:
    scipy = pytest.importorskip("scipy.optimize")
    rows, theta = _problem(n, size, seed)
    expected, norm = scipy.nnls(rows.mT.numpy(), theta.numpy())
    found = non_negative(rows @ rows.mT, rows @ theta)
    assert _objective(rows, theta, found) == pytest.approx(norm**2, rel=1e-8)
    if n <= size:  # otherwise several minima may exist
        np.testing.assert_allclose(found.numpy(), expected, atol=1e-7)


def _exhaustive(rows: Tensor, theta: Tensor) -> float:
    """The best of all least squares on subsets that come out positive."""
    best = float(theta.square().sum())
    for count in range(1, len(rows) + 1):
        for chosen in combinations(range(len(rows)), count):
            some = rows[list(chosen)]
            values = torch.linalg.lstsq(some.mT, theta).solution
            if bool((values >= 0).all()):
                best = min(best, _objective(some, theta, values))
    return best


@pytest.mark.parametrize("seed", range(5))
def test_it_agrees_with_trying_every_active_set(seed: int) -> None:
    rows, theta = _problem(7, 9, seed)
    found = non_negative(rows @ rows.mT, rows @ theta)
    assert _objective(rows, theta, found) == pytest.approx(_exhaustive(rows, theta), rel=1e-10)


@settings(max_examples=60, deadline=None)
@given(n=st.integers(1, 25), size=st.integers(1, 30), rank=st.integers(1, 30), seed=st.integers(0, 10_000))
def test_the_conditions_of_a_minimum_hold_even_when_gradients_are_dependent(
    n: int, size: int, rank: int, seed: int
) -> None:
    rows, theta = _problem(n, size, seed, min(rank, n, size))
    found = non_negative(rows @ rows.mT, rows @ theta)
    gain = rows @ (theta - found @ rows)
    scale = rows.norm(dim=1) * theta.norm()
    assert bool((found >= 0).all())
    assert bool((gain <= 1e-6 * scale + 1e-12).all())
    assert bool((gain.abs()[found > 0] <= 1e-6 * scale[found > 0] + 1e-12).all())


def test_a_sample_that_occurs_twice_and_one_without_gradient() -> None:
    rows, _ = _problem(4, 10, 0)
    rows = torch.cat([rows, rows[:1], torch.zeros(1, 10, dtype=torch.float64)])
    theta = 2 * rows[0] + 3 * rows[2]
    found = non_negative(rows @ rows.mT, rows @ theta)
    assert _objective(rows, theta, found) < 1e-10
    assert float(found[0] + found[4]) == pytest.approx(2, abs=1e-5)
    assert float(found[5]) == 0


@pytest.mark.parametrize("rank", [None, 4])
def test_free_sign_is_plain_least_squares(rank: int | None) -> None:
    rows, theta = _problem(8, 20, 1, rank)
    found = free_sign(rows @ rows.mT, rows @ theta)
    expected = theta @ torch.linalg.pinv(rows)
    torch.testing.assert_close(found @ rows, expected @ rows, atol=1e-8, rtol=1e-8)
    assert bool((found < 0).any())
