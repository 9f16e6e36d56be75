"""The circle of the two-dimensional experiment."""

import cmath

import numpy as np
import pytest
import torch

from recollect.core import RecollectError
from recollect.data import circle, clouds


@pytest.mark.parametrize("n", [2, 6, 20])
def test_points_are_the_roots_of_unity(n):
    got = circle(n)
    roots = [cmath.exp(2j * cmath.pi * index / n) for index in range(n)]
    np.testing.assert_allclose(got.x.numpy(), [(root.real, root.imag) for root in roots], atol=1e-7)
    assert got.y.tolist() == [(-1) ** index for index in range(n)]
    assert torch.equal(got.images, got.x)
    assert torch.equal(got.mean, torch.zeros(2))
    assert got.indices.tolist() == list(range(n))
    assert (got.x.dtype, got.y.dtype) == (torch.float32, torch.int64)


def test_the_published_circle_has_twenty_points():
    assert circle().x.shape == (20, 2)


@pytest.mark.parametrize("n", [-2, 0, 1, 7])
def test_points_that_cannot_alternate_are_refused(n):
    with pytest.raises(RecollectError, match=f"n = {n} points"):
        circle(n)


def test_clouds_are_sets_of_points_with_two_classes():
    got, others = clouds(6), clouds(6, held_out=True)
    assert got.x.shape == (6, 3, 64)
    assert got.y.tolist() == [1, -1] * 3
    assert torch.equal(clouds(6).x, got.x)
    assert not bool((others.x == got.x).any())
    many = clouds(4000).x
    assert float(many.mean().abs()) < 0.02
    assert float(many.std()) == pytest.approx(1, rel=0.02)
    with pytest.raises(RecollectError, match="n = 5 clouds"):
        clouds(5)
