"""Products by oneDNN: against float64, however operands lie in memory, alone and compiled."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from recollect import wide_products
from recollect.wide_products import products_of_linear_layers, times

M, K, N = 120, 150, 130
HERE = pytest.mark.skipif(
    not hasattr(torch.ops.mkldnn, "_linear_pointwise"), reason="this build of PyTorch has no oneDNN"
)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wide_products, "_FASTER_HERE", True)


@pytest.mark.parametrize(("maker", "faster"), [("AuthenticAMD", True), ("GenuineIntel", False)])
@pytest.mark.parametrize("listed", [True, False])
def test_the_maker_of_the_processor(
    maker: str, faster: bool, listed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    if listed:
        cpuinfo.write_text(f"processor : 0\nvendor_id : {maker}\n")
    monkeypatch.setattr(wide_products, "_CPUINFO", cpuinfo)
    monkeypatch.setattr("platform.processor", lambda: f"AMD64 Family 25 Model 80 Stepping 0, {maker}")
    assert wide_products._made_by_amd() is faster


@HERE
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("trials", [1, 3])
@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("shared", [True, False])
def test_float32_products_in_full_precision(trials: int, transposed: tuple[bool, bool], shared: bool) -> None:
    left = draw(trials, K, M).mT if transposed[0] else draw(trials, M, K)
    right = draw(trials, N, K, seed=1).mT if transposed[1] else draw(trials, K, N, seed=1)
    right = right[0] if shared else right
    found, wanted = wide_products._by_onednn(left, right), left.double() @ right.double()
    assert torch.equal(times(left, right), found)
    assert float((found - wanted).norm() / wanted.norm()) < 1e-6


@HERE
@pytest.mark.usefixtures("always")
@pytest.mark.filterwarnings("ignore:.*torch.jit.script_method.*:DeprecationWarning")  # torch's own, on import
def test_compiled_with_what_is_around_it() -> None:
    def around(left: Tensor, right: Tensor) -> Tensor:
        return (times(left, right) * 2).relu()

    left, right = draw(2, M, K), draw(K, N, seed=1)
    wanted = (left.double() @ right.double() * 2).relu()
    torch.testing.assert_close(torch.compile(around)(left, right).double(), wanted, rtol=1e-5, atol=1e-4)


@HERE
@pytest.mark.usefixtures("always")
def test_linear_layers_and_their_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    taken, multiply = [], wide_products._linear

    def noted(*operands: Tensor, bias: Tensor | None = None) -> Tensor:
        taken.append(multiply(*operands, bias=bias))
        return taken[-1]

    monkeypatch.setattr(wide_products, "_linear", noted)
    net = nn.Sequential(nn.Linear(K, M), nn.ReLU(), nn.Linear(M, N, bias=False), nn.ReLU(), nn.Linear(N, 1))
    x, double = draw(1100, K), deepcopy(net).double()
    with products_of_linear_layers(len(x), net.parameters()):
        found = torch.autograd.grad(net(x).square().mean(), list(net.parameters()))
    assert len(taken) == 5  # two forward, a gradient of each matrix, and what passes through the second one
    wanted = torch.autograd.grad(double(x.double()).square().mean(), list(double.parameters()))
    for own, other in zip(found, wanted, strict=True):
        assert float((own - other).norm() / other.norm()) < 1e-5


@pytest.mark.usefixtures("always")
def test_a_small_batch_or_doubles_are_left_as_they_are() -> None:
    net = nn.Linear(K, M)
    for samples, params in ((2, net.parameters()), (10**9, net.double().parameters())):
        with products_of_linear_layers(samples, params) as mode:
            assert mode is None


@pytest.mark.usefixtures("always")
def test_everything_else_is_multiplied_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(left: Tensor, right: Tensor) -> Tensor:
        raise AssertionError((left.shape, right.shape))

    monkeypatch.setattr(wide_products, "_by_onednn", refuse)
    left, right = draw(2, M, K), draw(K, N, seed=1)
    assert times(left.double(), right.double()).dtype == torch.float64
    assert times(left[:, :2], right[:, :2]).shape == (2, 2, 2)
    assert times(left.requires_grad_(), right).requires_grad


@HERE
@pytest.mark.usefixtures("always")
def test_a_bias_that_is_broadcast_is_left_to_pytorch() -> None:
    left, right, bias = draw(400, K), draw(K, N, seed=1), torch.ones(1)
    with products_of_linear_layers(10**6, [right]):
        found = torch.addmm(bias, left, right)
    torch.testing.assert_close(found, left @ right + 1, rtol=1e-5, atol=1e-4)
