"""Losses against PyTorch's own, their gradients against differences, and how errors are counted."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from recollect.zoo.losses import LOSSES, LossName, wrong_class, wrong_sign

THEIRS: dict[LossName, Callable[[Tensor, Tensor], Tensor]] = {
    "logistic": lambda outputs, y: F.soft_margin_loss(outputs[:, 0], y.double(), reduction="none"),
    "cross_entropy": lambda outputs, y: F.nll_loss(outputs.log_softmax(dim=1), y, reduction="none"),
    "l2": lambda outputs, y: F.mse_loss(outputs[:, 0], y.double(), reduction="none"),
    "l2.5": lambda outputs, y: F.pairwise_distance(outputs, y.double().unsqueeze(1), p=2, eps=0) ** 2.5,
    "huber": lambda outputs, y: F.smooth_l1_loss(outputs[:, 0], y.double(), reduction="none", beta=1.0),
}


def batch(name: LossName, seed: int = 0, n: int = 24) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    outputs = 3 * torch.randn(n, 1 if LOSSES[name].of == "signs" else 4, generator=generator, dtype=torch.float64)
    if LOSSES[name].of == "signs":
        return outputs, torch.where(torch.arange(n) % 2 == 0, 1, -1)
    return outputs, torch.arange(n) % 4


def test_every_loss_is_compared() -> None:
    assert THEIRS.keys() == LOSSES.keys()


@pytest.mark.parametrize("name", LOSSES)
@settings(max_examples=25)
@given(seed=st.integers(0, 2**31))
def test_losses_are_those_of_torch(name: LossName, seed: int) -> None:
    outputs, y = batch(name, seed)
    ours = LOSSES[name].per_sample(outputs, y)
    assert ours.shape == (24,)
    assert ours.dtype == torch.float64
    torch.testing.assert_close(ours, THEIRS[name](outputs, y), rtol=1e-10, atol=1e-12)
    assert LOSSES[name].per_sample(outputs.float(), y).dtype == torch.float32


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_are_those_of_central_differences(name: LossName) -> None:
    outputs, y = batch(name)
    leaf = outputs.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(LOSSES[name].per_sample(leaf, y).sum(), leaf)
    slow = torch.zeros_like(outputs)
    for place in range(outputs.numel()):
        step = torch.zeros_like(outputs)
        step.view(-1)[place] = 1e-6
        above, below = (LOSSES[name].per_sample(outputs + sign * step, y).sum() for sign in (1, -1))
        slow.view(-1)[place] = (above - below) / 2e-6
    torch.testing.assert_close(gradient, slow, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", ["l2", "l2.5", "huber"])
def test_a_sample_that_is_met_exactly_has_no_gradient(name: LossName) -> None:
    leaf = torch.tensor([[1.0], [-1.0]], dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(LOSSES[name].per_sample(leaf, torch.tensor([1, -1])).sum(), leaf)
    assert gradient.tolist() == [[0.0], [0.0]]


def test_errors_are_counted_by_sign_or_by_the_largest() -> None:
    signs = torch.tensor([[2.0], [-3.0], [0.0], [-1.0]])
    assert wrong_sign(signs, torch.tensor([1, 1, 1, -1])).tolist() == [False, True, True, False]
    several = torch.tensor([[1.0, 2.0, 0.0], [5.0, 2.0, 0.0], [-3.0, -2.0, -1.0], [4.0, 1.0, 4.0]])
    assert wrong_class(several, torch.tensor([1, 1, 2, 0])).tolist() == [False, True, False, True]
    assert {name: loss.wrong for name, loss in LOSSES.items()} == {
        name: wrong_class if name == "cross_entropy" else wrong_sign for name in LOSSES
    }
