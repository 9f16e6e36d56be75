"""Inner products of gradients: three ways to the same numbers, and Euler's theorem."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from recollect.check.gradients import combined_gradient, explicit_gram, gram
from recollect.check.linear_factors import linear_factors
from recollect.check.margins import directions, margins
from recollect.check.network import Network

SHAPE = (2, 5, 5)


class _Tied(nn.Module):
    """One layer used twice, and a weight used outside of its layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.again, self.outside = nn.Linear(50, 6), nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        z = torch.relu(self.first(x.flatten(1)))
        z = torch.relu(self.again(torch.relu(self.again(z))))
        return self.outside(z) + F.linear(z, self.outside.weight)


class _LooksAtValues(nn.Module):
    """vmap cannot follow a choice that depends on the sample."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.scale = nn.Conv2d(2, 3, 5), nn.Parameter(torch.tensor([0.5, 2.0, 1.0]))

    def forward(self, x: Tensor) -> Tensor:
        z = self.conv(x).flatten(1)
        rows = [row * self.scale if float(row.sum().detach()) > 0 else row for row in z]
        return torch.stack(rows)


NETWORKS = {
    "mlp": lambda: nn.Sequential(nn.Flatten(), nn.Linear(50, 7), nn.ReLU(), nn.Linear(7, 3, bias=False)),
    "in place": lambda: nn.Sequential(nn.Flatten(), nn.Linear(50, 7), nn.ReLU(inplace=True), nn.Linear(7, 3)),
    "convolution": lambda: nn.Sequential(
        nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(27, 1)
    ),
    "rows of rows": lambda: nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Flatten(), nn.Linear(40, 3)),
    "tied": _Tied,
    "looks at values": _LooksAtValues,
}
BY_OUTER_PRODUCTS = {
    "mlp": {"1.weight", "1.bias", "3.weight"},
    "in place": {"1.weight", "1.bias", "3.weight", "3.bias"},
    "convolution": {"4.weight", "4.bias"},
    "rows of rows": {"3.weight", "3.bias"},
    "tied": {"first.weight", "first.bias"},
    "looks at values": set(),
}


def _case(name: str, n: int = 11) -> tuple[Network, Tensor, Tensor, Tensor]:
    torch.manual_seed(3)
    network = Network.of(NETWORKS[name](), SHAPE)
    x = torch.randn(n, *SHAPE, dtype=torch.float64)
    outputs = network.outputs(x)
    y = torch.randint(0, 3, (n,)) if outputs.shape[1] > 1 else torch.where(torch.arange(n) % 2 == 0, 1, -1)
    return network, x, y, directions(outputs, y)


def _slow_gradients(network: Network, x: Tensor, u: Tensor, names: list[str]) -> Tensor:
    """One sample and one backward pass after the other, on the module itself."""
    params = [network.module.get_parameter(name) for name in names]
    rows = []
    for sample, direction in zip(x, u, strict=True):
        score = (network.module(sample.unsqueeze(0))[0] * direction).sum()
        grads = torch.autograd.grad(score, params, materialize_grads=True)
        rows.append(torch.cat([each.flatten() for each in grads]))
    return torch.stack(rows)


@pytest.mark.parametrize("name", NETWORKS)
def test_every_way_gives_the_same_inner_products(name: str) -> None:
    network, x, _, u = _case(name)
    names = list(network.params)
    rows = _slow_gradients(network, x, u, names)
    theta = torch.cat([network.params[each].flatten() for each in names])
    for found in (gram(network, x, u, names), explicit_gram(network, x, u, names)):
        torch.testing.assert_close(found.products, rows @ rows.mT)
        torch.testing.assert_close(found.target, rows @ theta)


@pytest.mark.parametrize("name", NETWORKS)
def test_outer_products_serve_where_they_are_all_of_the_gradient(name: str) -> None:
    network, x, _, u = _case(name)
    found = linear_factors(network, x, u, list(network.params))
    assert {each for factor in found for each in factor.names} == BY_OUTER_PRODUCTS[name]


@pytest.mark.parametrize("names", [["1.weight"], ["1.bias"], ["3.weight"], ["1.bias", "3.weight"]])
def test_some_of_the_parameters(names: list[str]) -> None:
    network, x, _, u = _case("mlp")
    rows = _slow_gradients(network, x, u, names)
    torch.testing.assert_close(gram(network, x, u, names).products, rows @ rows.mT)


@pytest.mark.parametrize("memory", [1, 3000, 10**9])
def test_blocks_of_samples_change_nothing(memory: int) -> None:
    network, x, _, u = _case("convolution")
    names = list(network.params)
    rows = _slow_gradients(network, x, u, names)
    found = explicit_gram(network, x, u, names, memory)
    torch.testing.assert_close(found.products, rows @ rows.mT)


def test_many_chunks_change_nothing() -> None:
    network, x, _, u = _case("in place", n=600)
    names = list(network.params)
    rows = _slow_gradients(network, x, u, names)
    torch.testing.assert_close(gram(network, x, u, names).products, rows @ rows.mT)
    weights = torch.rand(600, 1, dtype=torch.float64)
    combined = combined_gradient(network, x, weights * u, names)
    flat = torch.cat([combined[each].flatten() for each in names])
    torch.testing.assert_close(flat, (weights * rows).sum(dim=0))


@pytest.mark.parametrize("layer", ["1.weight", "3.weight", "5.weight"])
def test_euler_each_layer_of_a_homogeneous_network_gives_the_margin(layer: str) -> None:
    """``<theta_l, d margin / d theta_l> = margin``, since the network is linear in each layer's positive scale."""
    torch.manual_seed(0)
    parts = [
        nn.Linear(50, 9, bias=False),
        nn.ReLU(),
        nn.Linear(9, 8, bias=False),
        nn.ReLU(),
        nn.Linear(8, 4, bias=False),
    ]
    network = Network.of(nn.Sequential(nn.Flatten(), *parts), SHAPE)
    x, y = torch.randn(13, *SHAPE, dtype=torch.float64), torch.arange(13) % 4
    outputs = network.outputs(x)
    found = gram(network, x, directions(outputs, y), [layer])
    torch.testing.assert_close(found.target, margins(outputs, y))


def test_the_network_is_left_as_it_was() -> None:
    net = NETWORKS["convolution"]().train()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    network = Network.of(net, SHAPE)
    x = torch.randn(4, *SHAPE, dtype=torch.float64)
    gram(network, x, torch.ones(4, 1, dtype=torch.float64), list(network.params))
    assert net.training
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert all(value.dtype != torch.float64 for value in net.parameters())
    assert not any(part._forward_hooks for part in network.module.modules())
