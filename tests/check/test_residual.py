"""The KKT residual where its answer is known."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from recollect.check.margins import directions, margins
from recollect.check.network import Network
from recollect.check.residual import kkt_residual
from recollect.core import RecollectError


def _draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _linear_case(multipliers: Tensor, n: int = 6, d: int = 20) -> tuple[Network, Tensor, Tensor]:
    """``Phi = w x`` with ``w = sum_i lambda_i y_i x_i``: the equation holds by construction."""
    x, y = _draw(n, d), torch.where(torch.arange(n) % 2 == 0, 1, -1)
    net = nn.Linear(d, 1, bias=False).double()
    with torch.no_grad():
        net.weight.copy_(((multipliers * y) @ x).unsqueeze(0))
    return Network.of(net, (d,)), x, y.double().unsqueeze(1)


def test_a_linear_model_built_from_its_samples_gives_the_multipliers_back() -> None:
    multipliers = torch.tensor([0.5, 0.0, 2.0, 1.0, 0.0, 3.0], dtype=torch.float64)
    found = kkt_residual(*_linear_case(multipliers))
    torch.testing.assert_close(found.all_layers.multipliers, multipliers, atol=1e-9, rtol=0)
    assert found.all_layers.relative < 1e-9
    assert found.all_layers.positive == 4
    assert found.all_layers is found.first_layer
    assert found.all_layers.per_layer == {"": found.all_layers.relative}


def test_a_negative_multiplier_needs_free_sign() -> None:
    multipliers = torch.tensor([0.5, -1.0, 2.0, 1.0, 0.0, 3.0], dtype=torch.float64)
    network, x, u = _linear_case(multipliers)
    assert kkt_residual(network, x, u).all_layers.relative > 0.05
    free = kkt_residual(network, x, u, free_sign=True)
    torch.testing.assert_close(free.all_layers.multipliers, multipliers, atol=1e-8, rtol=0)
    assert free.all_layers.relative < 1e-8


def test_noise_of_known_size_is_the_residual() -> None:
    """Noise orthogonal to all samples cannot be explained: ``||noise|| / ||theta||``."""
    network, x, u = _linear_case(torch.ones(6, dtype=torch.float64))
    noise = _draw(20, seed=1)
    noise = noise - torch.linalg.lstsq(x.mT, noise).solution @ x
    net = nn.Linear(20, 1, bias=False).double()
    with torch.no_grad():
        net.weight.copy_(network.params["weight"] + noise)
    found = kkt_residual(Network.of(net, (20,)), x, u)
    assert found.all_layers.relative == pytest.approx(float(noise.norm() / net.weight.detach().norm()), rel=1e-9)


def test_layers_are_judged_apart_and_the_first_alone_is_never_worse_alone() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(10, 30), nn.ReLU(), nn.Linear(30, 20, bias=False), nn.ReLU(), nn.Linear(20, 1))
    network, x = Network.of(net, (10,)), _draw(8, 10)
    u = torch.where(torch.arange(8) < 4, 1.0, -1.0).double().unsqueeze(1)
    found = kkt_residual(network, x, u)
    # By hand: one gradient per sample, summed with the multipliers.
    total = {name: torch.zeros_like(value) for name, value in network.params.items()}
    for value, sample, sign in zip(found.all_layers.multipliers, x, u, strict=True):
        score = (network.module(sample.unsqueeze(0)) * sign).sum()
        for name, each in zip(total, torch.autograd.grad(score, list(network.module.parameters())), strict=True):
            total[name] += value * each
    left = {name: (network.params[name] - total[name]).square().sum() for name in total}
    size = {name: network.params[name].square().sum() for name in total}
    for layer, names in network.layers.items():
        expected = float((sum(left[name] for name in names) / sum(size[name] for name in names)) ** 0.5)
        assert found.all_layers.per_layer[layer] == pytest.approx(expected, rel=1e-9)
    assert found.all_layers.relative == pytest.approx(float((sum(left.values()) / sum(size.values())) ** 0.5), rel=1e-9)
    together = found.all_layers.per_layer["0"]
    assert together is not None
    assert found.first_layer.relative <= together + 1e-12


def test_two_classes_by_softmax_are_their_one_logit_difference() -> None:
    """Same margins, and the same residual in every layer that both networks share."""
    torch.manual_seed(0)
    hidden = nn.Linear(10, 12)
    pair, single = nn.Linear(12, 2, bias=False), nn.Linear(12, 1, bias=False)
    with torch.no_grad():
        single.weight.copy_(pair.weight[1:] - pair.weight[:1])
    two = Network.of(nn.Sequential(hidden, nn.ReLU(), pair), (10,))
    one = Network.of(nn.Sequential(hidden, nn.ReLU(), single), (10,))
    x, labels = _draw(9, 10), torch.arange(9) % 2
    outputs, logit, signs = two.outputs(x), one.outputs(x), 2 * labels - 1
    torch.testing.assert_close(margins(outputs, labels), margins(logit, signs))
    of_two = kkt_residual(two, x, directions(outputs, labels)).first_layer
    of_one = kkt_residual(one, x, directions(logit, signs)).first_layer
    assert of_two.relative == pytest.approx(of_one.relative, rel=1e-9)
    torch.testing.assert_close(of_two.multipliers, of_one.multipliers, atol=1e-8, rtol=1e-6)


def test_a_layer_of_zeros_has_no_relative_residual() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1, bias=False))
    with torch.no_grad():
        net[2].weight.zero_()
    found = kkt_residual(Network.of(net, (3,)), _draw(2, 3), torch.ones(2, 1).double())
    assert found.all_layers.per_layer["2"] is None


def test_gradients_that_overflow_are_refused() -> None:
    network = Network.of(nn.Linear(3, 1), (3,))
    with pytest.raises(RecollectError, match="gradients at the data are not finite"):
        kkt_residual(network, 1e200 * _draw(2, 3), torch.ones(2, 1).double())
