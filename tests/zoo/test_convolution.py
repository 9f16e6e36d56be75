"""Convolutional networks: their layers by hand, the perceptron they become, and images that do not suit them."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from recollect.core import RecollectError
from recollect.zoo import ConvArchitecture, TrainingConfig, build_network, train

SHAPE = (3, 6, 5)


def images(n: int = 8) -> torch.Tensor:
    return torch.randn(n, *SHAPE, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize("bias", ["first", "none"])
def test_the_network_is_the_chain_of_the_paper(bias) -> None:
    architecture = ConvArchitecture(kernel=3, channels=4, hidden=(7,), outputs=2, bias=bias)
    net = build_network(architecture, SHAPE, seed=1)
    parameters = dict(net.named_parameters())
    biases = [name for name in parameters if name.endswith("bias")]
    assert len(biases) == (1 if bias == "first" else 0)
    kernel, hidden, last = (value for name, value in parameters.items() if name.endswith("weight"))
    offset = parameters[biases[0]] if biases else None
    x = images()
    maps = F.conv2d(x, kernel, offset)
    assert maps.shape == (8, 4, 4, 3)
    expected = F.linear(F.relu(F.linear(F.relu(maps).flatten(1), hidden)), last)
    torch.testing.assert_close(net(x), expected)


def test_a_kernel_as_large_as_the_image_makes_a_perceptron() -> None:
    net = build_network(ConvArchitecture(kernel=5, channels=4, hidden=(7,)), (3, 5, 5), seed=1)
    x = images()[:, :, :5]
    kernel, offset, hidden, last = net.parameters()
    expected = F.linear(F.relu(F.linear(F.relu(F.linear(x.flatten(1), kernel.flatten(1), offset)), hidden)), last)
    torch.testing.assert_close(net(x), expected)


@pytest.mark.parametrize("bias", ["first", "none"])
def test_convolutional_networks_are_homogeneous(bias) -> None:
    net = build_network(ConvArchitecture(channels=4, hidden=(7,), bias=bias), SHAPE, seed=1)
    before = net(images())
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.mul_(2)
    torch.testing.assert_close(net(images()), 8 * before)


def test_the_first_layer_has_the_scale_asked_for_and_the_others_that_of_torch() -> None:
    small = build_network(ConvArchitecture(channels=400, hidden=(7,), first_layer_scale=1e-3), SHAPE, seed=1)
    kernel, offset, hidden, _ = small.parameters()
    assert float(kernel.detach().std()) == pytest.approx(1e-3, rel=0.05)
    assert float(offset.detach().std()) == pytest.approx(1e-3, rel=0.2)
    assert float(hidden.detach().abs().max()) == pytest.approx(hidden.shape[1] ** -0.5, rel=0.01)
    standard = build_network(ConvArchitecture(channels=400, hidden=(7,)), SHAPE, seed=1)
    assert float(next(standard.parameters()).detach().abs().max()) == pytest.approx(27**-0.5, rel=0.01)


def test_a_small_network_is_trained_to_no_error() -> None:
    net = build_network(ConvArchitecture(channels=3, hidden=(16,)), SHAPE, seed=1)
    x, y = images(), torch.where(torch.arange(8) % 2 == 0, 1, -1)
    last = train(net, x, y, TrainingConfig(lr=0.2, epochs=2000, stop_loss=0.05), 0, torch.device("cpu"))
    assert last.loss <= 0.05
    assert last.error == 0
    assert bool((net(x)[:, 0] * y > 0).all())
    assert sum(isinstance(part, nn.Conv2d) for part in net.modules()) == 1


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ((3, 6, 5), "model.kernel = 6 is larger than the images of 6 x 5; give at most 5."),
        ((2,), "needs images of shape [channels, height, width], the samples have [2]; set model.kind to mlp."),
    ],
)
def test_what_cannot_be_convolved_is_refused(shape: tuple[int, ...], said: str) -> None:
    with pytest.raises(RecollectError) as caught:
        build_network(ConvArchitecture(kernel=6), shape, seed=0)
    assert said in str(caught.value)
