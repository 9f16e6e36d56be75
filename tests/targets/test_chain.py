"""Convolutions as Linear layers on patches: against the module itself, and by hand against autograd, in float64."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations, prune

from recollect.core import RecollectError
from recollect.memory import AtOnce
from recollect.objectives import KKT
from recollect.targets import MLPTarget, ModuleTarget, as_target, is_perceptron
from recollect.targets.patches import Patches
from recollect.zoo import build_network
from recollect.zoo.convolution import ConvArchitecture

SHAPE = (2, 6, 5)


def network(kernel: int, outputs: int = 1) -> nn.Module:
    architecture = ConvArchitecture(kernel=kernel, channels=3, hidden=(7, 6), outputs=outputs)
    return build_network(architecture, SHAPE, seed=1)


def trials(m: int = 4) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, m, *SHAPE, generator=generator, dtype=torch.float64)
    duals = torch.randn(2, m, generator=generator, dtype=torch.float64)
    return x, duals, torch.tensor([15.0, 60.0], dtype=torch.float64)


def relative(a: Tensor, b: Tensor) -> float:
    return float(((a - b).norm() / b.norm()).detach())


def test_patches_are_what_a_convolution_sees() -> None:
    patches, x = Patches(SHAPE, (3, 2)), torch.randn(2, 4, *SHAPE, dtype=torch.float64)
    kernels = torch.randn(3, 2, 3, 2, dtype=torch.float64)
    found = patches.of(x) @ kernels.flatten(1).T
    expected = nn.functional.conv2d(x.flatten(0, 1), kernels).flatten(2).mT.reshape(2, -1, 3)
    assert torch.allclose(found, expected, rtol=1e-12)
    assert patches.of(x).shape == (2, 4 * patches.count, patches.values)


@pytest.mark.parametrize("kernel", [None, (3, 2)])
def test_the_way_back_is_the_adjoint(kernel: tuple[int, int] | None) -> None:
    patches, x = Patches(SHAPE, kernel), torch.randn(2, 4, *SHAPE, dtype=torch.float64)
    there = patches.of(x)
    other = torch.randn_like(there)
    assert (there * other).sum().item() == pytest.approx((x * patches.back(other)).sum().item(), rel=1e-12)


@pytest.mark.parametrize("kernel", [1, 2, 3, 5])
@pytest.mark.parametrize("layer_weights", [None, (1.0, 0.0, 0.0, 0.0), (0.2, 0.0, 0.7, 1.0)])
def test_convolutions_by_hand_agree_with_autograd(kernel: int, layer_weights: tuple[float, ...] | None) -> None:
    net, (x, duals, smoothing) = network(kernel), trials()
    objective = KKT(4, smoothing, torch.zeros(2, dtype=torch.float64), layer_weights)
    labels = torch.tensor([1, 1, -1, -1])
    by_hand, by_autograd = MLPTarget.from_module(net, SHAPE), ModuleTarget(net, SHAPE)
    assert torch.allclose(by_hand.linearise(x, smoothing)[0], by_autograd.linearise(x, smoothing)[0], rtol=1e-12)
    losses = [objective(target, x, labels, {"duals": duals})["stationarity"] for target in (by_hand, by_autograd)]
    assert relative(*losses) < 1e-10
    found, expected = (objective.gradient(target, x, labels, {"duals": duals}) for target in (by_hand, by_autograd))
    assert relative(found[0], expected[0]) < 1e-10
    assert relative(found[1]["duals"], expected[1]["duals"]) < 1e-10
    chunked = KKT(4, smoothing, torch.zeros(2, dtype=torch.float64), layer_weights, at_once=AtOnce(1, 2))
    assert relative(chunked.gradient(by_hand, x, labels, {"duals": duals})[0], expected[0]) < 1e-10


def test_half_precision_on_patches() -> None:
    net, (x, duals, smoothing) = network(3), trials()
    labels, floor = torch.tensor([1, 1, -1, -1]), torch.zeros(2)
    exact, _ = KKT(4, smoothing, floor.double()).gradient(
        MLPTarget.from_module(net, SHAPE), x, labels, {"duals": duals}
    )
    target = MLPTarget.from_module(net, SHAPE, torch.float32, half=True)
    found, _ = KKT(4, smoothing.float(), floor).gradient(target, x.float(), labels, {"duals": duals.float()})
    assert relative(found, exact) < 0.01


def test_the_zoo_network_takes_the_fast_way_and_is_no_perceptron() -> None:
    target = as_target(network(3), SHAPE)
    assert isinstance(target, MLPTarget)
    assert not is_perceptron(target)
    assert [len(names) for names in target.layers] == [2, 1, 1, 1]


@pytest.mark.parametrize(
    "first",
    [
        nn.Conv2d(2, 3, 3, stride=2),
        nn.Conv2d(2, 3, 3, padding=1),
        nn.Conv2d(2, 4, 3, groups=2),
        nn.Conv2d(2, 3, 2, dilation=2),
    ],
)
def test_other_convolutions_take_the_general_way(first: nn.Module) -> None:
    units = first(torch.zeros(1, *SHAPE)).numel()
    net = nn.Sequential(first, nn.ReLU(), nn.Flatten(), nn.Linear(units, 1))
    assert isinstance(as_target(net, SHAPE), ModuleTarget)
    with pytest.raises(RecollectError, match="found Conv2d at '0'"):
        MLPTarget.from_module(net, SHAPE)


def test_a_flatten_in_another_place_takes_the_general_way() -> None:
    net = nn.Sequential(nn.Conv2d(2, 3, 3), nn.Flatten(), nn.ReLU(), nn.Linear(36, 1))
    assert isinstance(as_target(net, SHAPE), ModuleTarget)


def _chain() -> nn.Sequential:
    layers = [nn.Linear(6, 6, bias=False, dtype=torch.float64) for _ in range(3)]
    last = nn.Linear(6, 1, dtype=torch.float64)
    return nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2], nn.ReLU(), last)


def _tied() -> nn.Module:
    net = _chain()
    net[4].weight = net[2].weight
    return net


def _used_twice() -> nn.Module:
    net = _chain()
    return nn.Sequential(net[0], nn.ReLU(), net[2:4], net[2:4][0], nn.ReLU(), net[6])


def _block_twice() -> nn.Module:
    net = _chain()
    block = nn.Sequential(net[2], net[3])
    return nn.Sequential(net[0], net[1], block, block, net[6])


def _hooked() -> nn.Module:
    net = _chain()
    net[2].register_forward_hook(lambda module, inputs, output: 2 * output)
    return net


def _pruned() -> nn.Module:
    net = _chain()
    prune.l1_unstructured(net[2], "weight", 0.5)
    return net


def _normalised() -> nn.Module:
    net = _chain()
    net[2] = parametrizations.weight_norm(net[2])
    return net


def _replaced() -> nn.Module:
    net = _chain()
    net[2].forward = lambda x: -x  # pyright: ignore[reportAttributeAccessIssue]
    return net


@pytest.mark.parametrize("make", [_tied, _used_twice, _block_twice, _hooked, _pruned, _normalised, _replaced])
def test_layers_that_share_or_change_their_weights_take_the_general_way(make: Callable[[], nn.Module]) -> None:
    net, x = make().eval(), torch.randn(2, 5, 6, dtype=torch.float64)
    before = net(x)
    target = as_target(net, (6,))
    assert isinstance(target, ModuleTarget)
    for _ in range(2):
        assert torch.allclose(target.linearise(x, torch.ones(2))[0], before, rtol=1e-12)
    assert torch.equal(net(x), before)
    with pytest.raises(RecollectError, match="use the module target"):
        MLPTarget.from_module(net, (6,))


def test_a_rectifier_may_come_twice() -> None:
    net, relu = _chain(), nn.ReLU()
    net[1] = net[3] = net[5] = relu
    assert isinstance(as_target(net, (6,)), MLPTarget)
