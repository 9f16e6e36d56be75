"""Half-precision products with scales: against float64, for rows of very different sizes."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cases import NEEDS_CUDA, NETWORKS, SAMPLE_SHAPE, trials
from torch import Tensor

from recollect.memory import AtOnce
from recollect.objectives import KKT
from recollect.products import Rows, matrix, product, rows, summed, summed_matrix, through_pairs
from recollect.stepping import matmul_precision
from recollect.targets import MLPTarget

HALF_STEP = 2.0**-11
"""What rounding to 10 bits of mantissa may change, relative; TF32 has the same."""


def draw(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def row_errors(found: Tensor, wanted: Tensor) -> Tensor:
    return (found.double() - wanted).norm(dim=-1) / wanted.norm(dim=-1)


@settings(deadline=None, max_examples=30)
@given(exponents=st.lists(st.integers(-45, 45), min_size=5, max_size=5), seed=st.integers(0, 1000))
def test_rows_of_any_size_keep_their_accuracy(exponents: list[int], seed: int) -> None:
    sizes = 2.0 ** torch.tensor(exponents, dtype=torch.float32)
    left, right = draw(2, 5, 64, seed=seed) * sizes[None, :, None], draw(64, 32, seed=seed + 1)
    found = product(rows(left, half=True), matrix(right, half=True))
    assert float(row_errors(found, left.double() @ right.double()).max()) < 2 * HALF_STEP


def test_scales_are_powers_of_two_and_round_nothing() -> None:
    left = draw(2, 5, 64, seed=0).half().float() * 2.0**-30
    assert torch.equal(rows(left, half=True).values, left)


@pytest.mark.parametrize("widths", [(8, 6), (6, 8)])
def test_sums_over_candidates_of_different_sizes(widths: tuple[int, int]) -> None:
    sizes = (10.0 ** torch.linspace(-6, 3, 40)).unsqueeze(-1)
    delta, a = draw(2, 40, widths[0], seed=0) * sizes, draw(2, 40, widths[1], seed=1) * sizes.flip(0)
    found = summed(rows(delta, half=True), rows(a, half=True))
    wanted = delta.double().mT @ a.double()
    assert float((found - wanted).norm() / wanted.norm()) < 2 * HALF_STEP


def test_sums_ready_to_be_multiplied_are_the_same_sums() -> None:
    sizes = (10.0 ** torch.linspace(-3, 3, 40)).unsqueeze(-1)
    delta, a = draw(2, 40, 8, seed=0) * sizes, draw(2, 40, 6, seed=1)
    kept = summed_matrix(rows(delta, half=True), rows(a, half=True))
    assert kept.stored.dtype == torch.float16
    assert kept.scale is not None
    wanted = delta.double().mT @ a.double()
    assert float((kept.stored.double() * kept.scale - wanted).norm() / wanted.norm()) < 3 * HALF_STEP


def test_products_by_way_of_pairs_are_those_with_the_sum() -> None:
    sizes = (10.0 ** torch.linspace(-3, 3, 10)).unsqueeze(-1)
    a, delta = draw(2, 10, 64, seed=0) * sizes, draw(2, 10, 48, seed=1)
    found = through_pairs(rows(a, half=True), rows(delta, half=True))
    wanted = a.double() @ (a.double().mT @ delta.double())
    # Products of pairs that are nearly orthogonal are small differences of rounded terms.
    assert float(row_errors(found, wanted).max()) < 15 * HALF_STEP


@pytest.mark.parametrize("size", [1e-18, 1.0, 1e15])
def test_rows_that_are_all_alike_overflow_nothing(size: float) -> None:
    """The worst case: all candidates add up, and all of their values do."""
    alike = rows(torch.full((1, 4000, 300), size), half=True)
    assert bool((alike.stored.float().norm(dim=-1) <= 1.001).all())
    assert summed_matrix(alike, alike).stored.isfinite().all()
    unit = Rows(alike.stored, torch.ones_like(alike.scale) if alike.scale is not None else None)
    for found in (through_pairs(unit, unit), product(unit, summed_matrix(unit, unit))):
        assert found.isfinite().all()


def test_what_is_not_finite_stays_so_and_in_its_row() -> None:
    left = draw(1, 3, 8, seed=0)
    left[0, 1, 2] = torch.inf
    found = product(rows(left, half=True), matrix(draw(8, 4, seed=1), half=True))
    assert found[0, [0, 2]].isfinite().all()
    assert not found[0, 1].isfinite().any()


def test_a_row_of_zeros_stays_zero() -> None:
    assert torch.equal(rows(torch.zeros(1, 2, 4), half=True).values, torch.zeros(1, 2, 4))


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=NEEDS_CUDA)])
@pytest.mark.parametrize("weights", [None, (1.0, 0.0, 0.0)])
@pytest.mark.parametrize(("m", "chunk", "keep"), [(4, None, True), (48, None, True), (48, 16, True), (48, 16, False)])
def test_the_gradient_in_half_precision_is_as_good_as_rounding_allows(
    weights: tuple[float, ...] | None, m: int, chunk: int | None, keep: bool, device: str
) -> None:
    """Few candidates go by way of their pairs, many by way of sums over them."""
    net, many = NETWORKS["two hidden layers, all biases"](), trials(m=m)
    sizes = 10.0 ** torch.linspace(-4, 0, m, dtype=torch.float64)
    x, duals = many.x.detach() * sizes[None, :, None, None, None], many.duals.detach() * sizes.flip(0)
    exact = MLPTarget.from_module(net, SAMPLE_SHAPE, torch.float64)
    half = MLPTarget.from_module(net, SAMPLE_SHAPE, torch.float32, torch.device(device), half=True)
    at_once = AtOnce(candidates=chunk, keep_products=keep)
    objective = KKT(m, many.smoothing, many.dual_min, weights, at_once=at_once)
    wanted, wanted_own = objective.gradient(exact, x, many.labels, {"duals": duals})
    own = [value.to(device, torch.float32) for value in (many.smoothing, many.dual_min, x, duals)]
    single = KKT(m, own[0], own[1], weights, at_once=at_once)
    with matmul_precision("fp16", torch.device(device)):
        found, found_own = single.gradient(half, own[2], many.labels.to(device), {"duals": own[3]})
    found, found_own = found.cpu(), {"duals": found_own["duals"].cpu()}
    # Differences of large numbers (G - theta) lose some of the 11 bits.
    assert float(row_errors(found.flatten(2), wanted.flatten(2)).median()) < 20 * HALF_STEP
    assert float((found - wanted).norm() / wanted.norm()) < 20 * HALF_STEP
    assert float((found_own["duals"] - wanted_own["duals"]).norm() / wanted_own["duals"].norm()) < 20 * HALF_STEP
