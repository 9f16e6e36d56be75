"""Structure and homogeneity on networks whose answer is known."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from recollect.check.homogeneity import homogeneity, probes
from recollect.check.network import Network
from recollect.check.structure import structure
from recollect.core import RecollectError


def _mlp(widths: tuple[int, ...], biased: tuple[bool, ...]) -> nn.Sequential:
    torch.manual_seed(0)
    parts: list[nn.Module] = [nn.Flatten()]
    for index, bias in enumerate(biased):
        parts += [nn.Linear(widths[index], widths[index + 1], bias=bias), nn.ReLU()]
    return nn.Sequential(*parts[:-1])


def _measured(net: nn.Module, shape: tuple[int, ...]):
    network = Network.of(net, shape)
    return homogeneity(network, structure(network).biases, probes(shape))


@pytest.mark.parametrize("depth", [1, 2, 3, 6])
@pytest.mark.parametrize("first_bias", [False, True])
def test_a_relu_network_with_at_most_a_first_bias_is_homogeneous_in_its_depth(depth: int, first_bias: bool) -> None:
    biased = (first_bias, *[False] * (depth - 1))
    found = _measured(_mlp((12, *[16] * (depth - 1), 2), biased), (3, 2, 2))
    assert found.degree == pytest.approx(depth, abs=1e-9)
    assert found.deviation == pytest.approx(0, abs=1e-12)
    assert found.exact
    assert found.breaking == ()


def test_later_biases_break_it_and_are_named() -> None:
    found = _measured(_mlp((12, 9, 8, 1), (True, True, True)), (12,))
    assert not found.exact
    assert found.deviation is not None
    assert found.deviation > 1e-3
    assert found.breaking == ("3.bias", "5.bias")


class _Scaled(nn.Module):
    """``scale (W2 relu(W1 x + b1) + b2)``"""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.scale = _mlp((12, 9, 1), (True, True)), nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * self.inner(x)


def test_a_factor_is_not_taken_for_a_bias() -> None:
    assert structure(Network.of(_Scaled(), (12,))).biases == ("inner.1.bias", "inner.3.bias")
    assert _measured(_Scaled(), (12,)).breaking == ("inner.3.bias",)


def test_biases_of_ones_own_are_known_by_their_names() -> None:
    net = nn.Linear(4, 1)
    for name in ("b", "b1", "b_2", "out_bias", "beta", "gamma", "scale", "bits"):
        net.register_parameter(name, nn.Parameter(torch.ones(1)))
    assert structure(Network.of(net, (4,))).biases == ("bias", "b", "b1", "b_2", "out_bias", "beta")


def test_a_bias_that_is_zero_breaks_nothing() -> None:
    net = _mlp((12, 9, 8, 1), (True, True, False))
    with torch.no_grad():
        net.get_parameter("3.bias").zero_()
    assert _measured(net, (12,)).exact


def test_the_deviation_is_what_it_says_on_a_case_by_hand() -> None:
    """``Phi = w x + b`` with w = 0, b = 1 in a second layer: ``Phi(a theta) = a``, of degree 1."""
    net = _mlp((3, 4, 1), (False, True))
    with torch.no_grad():
        net.get_parameter("3.weight").zero_()
    found = _measured(net, (3,))
    assert found.degree == pytest.approx(1)


@pytest.mark.parametrize("activation", [nn.Tanh, nn.GELU, nn.Softplus, nn.ReLU6])
def test_other_activations_break_it_and_no_bias_is_blamed(activation: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(5, 30), activation(), nn.Linear(30, 1))
    with torch.no_grad():
        net[0].weight.mul_(30)
    found = _measured(net, (5,))
    assert not found.exact
    assert found.breaking == ()
    assert structure(Network.of(net, (5,))).other_activations == (f"{activation.__name__} at '1'",)


def test_leaky_activations_are_homogeneous_and_named() -> None:
    net = nn.Sequential(nn.Linear(5, 7, bias=False), nn.LeakyReLU(), nn.Linear(7, 1, bias=False))
    assert _measured(net, (5,)).degree == pytest.approx(2)
    found = structure(Network.of(net, (5,)))
    assert found.leaky_activations == ("LeakyReLU at '1'",)
    assert found.other_activations == ()


def test_a_network_that_returns_zeros_has_no_degree() -> None:
    net = _mlp((3, 4, 1), (False, False))
    with torch.no_grad():
        net.get_parameter("1.weight").zero_()
    found = _measured(net, (3,))
    assert found.degree is None
    assert found.deviation is None
    assert not found.exact


class _OwnNorm(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x / x.norm(dim=1, keepdim=True)


class _Calls(nn.Module):
    """Everything as a function, nothing as a module."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.shift = nn.Linear(4, 4, bias=False), nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        z = F.layer_norm(self.fc(x), (4,)) + self.shift
        return F.dropout(F.relu(z).tanh() + F.silu(z), training=self.training)


def test_what_a_network_is_made_of() -> None:
    net = nn.Sequential(
        nn.Conv2d(1, 2, 2), nn.BatchNorm2d(2), nn.ReLU(), nn.GroupNorm(1, 2), nn.Flatten(), nn.Dropout(), _OwnNorm()
    )
    found = structure(Network.of(net, (1, 3, 3)))
    assert found.normalisation == ("BatchNorm2d at '1'", "GroupNorm at '3'", "_OwnNorm at '6'")
    assert found.dropout == ("Dropout at '5'",)
    assert found.biases == ("0.bias", "1.bias", "3.bias")
    assert found.leaky_activations == found.other_activations == ()


def test_functions_are_found_too_and_a_modules_own_call_is_not_counted_twice() -> None:
    found = structure(Network.of(_Calls(), (4,)))
    assert found.normalisation == ("layer_norm()",)
    assert found.dropout == ("dropout()",)
    assert found.other_activations == ("tanh()", "silu()")
    assert found.biases == ("shift",)


@pytest.mark.parametrize(
    ("net", "shape", "expected"),
    [
        (nn.Linear(3, 1), (4,), "cannot be evaluated on inputs of shape [4]"),
        (nn.ReLU(), (4,), "has no parameters"),
        (nn.Conv2d(1, 2, 2), (1, 4, 4), "must return one row of outputs per input"),
    ],
)
def test_networks_that_cannot_be_checked(net: nn.Module, shape: tuple[int, ...], expected: str) -> None:
    with pytest.raises(RecollectError) as caught:
        Network.of(net, shape)
    assert expected in str(caught.value)


def test_weights_that_are_not_finite() -> None:
    net = nn.Linear(3, 1)
    with torch.no_grad():
        net.weight[0, 1] = torch.nan
    with pytest.raises(RecollectError, match="the weights in 'weight' are not finite"):
        Network.of(net, (3,))
