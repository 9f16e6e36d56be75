"""Distilling against the greedy rule written as two loops."""

from importlib import import_module

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.analysis import distil, ncc
from recollect.core import RecollectError


def slow_distil(candidates, duals, min_dual, radius, distance):
    order = sorted(range(len(duals)), key=lambda i: -float(duals[i]))
    kept = []
    for i in order:
        finite = bool(candidates[i].isfinite().all()) and bool(duals[i].isfinite())
        flat = distance == "ncc" and bool((candidates[i] == candidates[i].flatten()[0]).all())
        if not finite or flat or duals[i] < min_dual:
            continue
        if all(nearness(candidates[i], candidates[j], distance) >= radius for j in kept):
            kept.append(i)
    return kept


def nearness(a, b, distance):
    if distance == "l2":
        return float((a - b).norm())
    return 1 - float(ncc(a[None], b[None], per_channel=a.ndim == 3)[0])


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    k=st.integers(0, 40),
    radius=st.floats(0, 2),
    distance=st.sampled_from(["l2", "ncc"]),
    image=st.booleans(),
)
def test_distil_is_the_slow_twin(seed, k, radius, distance, image):
    draw = torch.Generator().manual_seed(seed)
    shape = (k, 2, 2, 2) if image else (k, 3)
    candidates = torch.randn(shape, generator=draw, dtype=torch.float64)
    duals = torch.randint(0, 6, (k,), generator=draw).double()
    odd = torch.rand(k, generator=draw)
    candidates[odd < 0.1] = float("nan")
    candidates[(odd > 0.1) & (odd < 0.2)] = 0.5
    duals[(odd > 0.2) & (odd < 0.25)] = float("inf")
    duals[(odd > 0.25) & (odd < 0.3)] = float("nan")
    kept = distil(candidates, duals, 2.0, radius, distance)
    finite = duals.nan_to_num(nan=-1.0, posinf=-1.0)
    assert kept.tolist() == slow_distil(candidates, finite, 2.0, radius, distance)


@pytest.mark.parametrize("block", [1, 3, 512])
def test_blocks_do_not_show(block, monkeypatch):
    draw = torch.Generator().manual_seed(0)
    candidates = torch.rand((60, 2), generator=draw, dtype=torch.float64)
    duals = torch.rand(60, generator=draw, dtype=torch.float64)
    expected = slow_distil(candidates, duals, 0.1, 0.2, "l2")
    assert 5 < len(expected) < 40
    # By import_module, because the package's name ``distil`` is the function, not the module.
    monkeypatch.setattr(import_module("recollect.analysis.distil"), "_BLOCK", block)
    assert distil(candidates, duals, 0.1, 0.2, "l2").tolist() == expected


def test_copies_leave_one_and_radius_zero_keeps_all():
    points = torch.tensor([[1.0, 2.0], [1.0, 2.0], [3.0, 0.0]])
    duals = torch.tensor([5.0, 6.0, 7.0])
    assert distil(points, duals, 0.0, 0.03).tolist() == [2, 1]
    assert distil(points, duals, 0.0, 0.0).tolist() == [2, 1, 0]


def test_distil_refuses_unfit_input():
    with pytest.raises(RecollectError, match="one multiplier for each candidate"):
        distil(torch.zeros(3, 2), torch.zeros(2), 0.0, 0.1)
    with pytest.raises(RecollectError, match="from 0 upwards"):
        distil(torch.zeros(3, 2), torch.zeros(3), 0.0, float("nan"))
    with pytest.raises(RecollectError, match="choose 'ncc' or 'l2'"):
        distil(torch.zeros(3, 2), torch.zeros(3), 0.0, 0.1, "l1")  # pyright: ignore[reportArgumentType]
