"""Every way to write a ReLU gets its smooth derivative, alone and under vmap; what is none is left as it is."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.func import vmap
from torch.nn import functional as F

from recollect.targets import ModuleTarget
from recollect.targets.smooth_relu import SmoothReLUMode

SLOPE, ALPHA = 0.25, 5.0
aten = torch.ops.aten


def changed(function: Callable[[Tensor], object]) -> Callable[[Tensor], Tensor]:
    """What is left in a tensor that is changed in place, by code that does not look at what is returned."""

    def call(z: Tensor) -> Tensor:
        own = z * 1
        function(own)
        return own

    return call


RELUS: dict[str, Callable[[Tensor], Tensor]] = {
    "nn.ReLU": nn.ReLU(),
    "nn.ReLU in place": changed(nn.ReLU(inplace=True)),
    "F.relu": F.relu,
    "F.relu in place": changed(lambda z: F.relu(z, inplace=True)),
    "F.relu_": changed(F.relu_),
    "torch.relu": torch.relu,
    "torch.relu_": changed(torch.relu_),
    "Tensor.relu": lambda z: z.relu(),
    "Tensor.relu_": changed(lambda z: z.relu_()),
    "clamp": lambda z: z.clamp(min=0),
    "clamp, positional": lambda z: torch.clamp(z, 0.0),
    "clamp_": changed(lambda z: z.clamp_(min=0)),
    "clamp_min": lambda z: z.clamp_min(0),
    "clamp by a tensor": lambda z: z.clamp(min=torch.zeros(())),
    "clip": lambda z: torch.clip(z, min=0),
    "maximum": lambda z: torch.maximum(z, torch.zeros((), dtype=z.dtype)),
    "maximum, other way round": lambda z: torch.maximum(torch.zeros(1, dtype=z.dtype), z),
    "max of two": lambda z: z.max(torch.zeros((), dtype=z.dtype)),
    "threshold": lambda z: F.threshold(z, 0, 0),
    "nn.Threshold in place": changed(nn.Threshold(0, 0, inplace=True)),
    "aten.relu": lambda z: aten.relu.default(z),
    "aten.relu_": changed(lambda z: aten.relu_.default(z)),
    "aten.clamp_min": lambda z: aten.clamp_min.default(z, 0),
    "aten, no overload": lambda z: aten.relu(z),
}
LEAKY: dict[str, Callable[[Tensor], Tensor]] = {
    "nn.LeakyReLU": nn.LeakyReLU(SLOPE),
    "nn.LeakyReLU in place": changed(nn.LeakyReLU(SLOPE, inplace=True)),
    "F.leaky_relu": lambda z: F.leaky_relu(z, negative_slope=SLOPE),
    "aten.leaky_relu": lambda z: aten.leaky_relu.default(z, SLOPE),
    "nn.RReLU": nn.RReLU(0.125, 0.375).eval(),
    "nn.PReLU": nn.PReLU(1, SLOPE).double(),
    "nn.PReLU per channel": nn.PReLU(4, SLOPE).double(),
}
OTHERS: dict[str, Callable[[Tensor], Tensor]] = {
    "nn.ReLU6": nn.ReLU6(),
    "nn.Hardtanh": nn.Hardtanh(),
    "clamp between two": lambda z: z.clamp(0, 1),
    "clamp elsewhere": lambda z: z.clamp(min=0.1),
    "clamp above": lambda z: z.clamp(max=0),
    "maximum along an axis": lambda z: torch.max(z, 0)[0],
    "maximum of two": lambda z: torch.maximum(z, 2 * z),
    "threshold elsewhere": lambda z: F.threshold(z, 0.1, 0.0),
    "tanh": torch.tanh,
}


def derivatives(function: Callable[[Tensor], Tensor], through_vmap: bool) -> tuple[Tensor, Tensor, Tensor]:
    z = torch.linspace(-2, 2.1, 12, dtype=torch.float64).reshape(3, 4).requires_grad_()
    alpha = torch.tensor(ALPHA, dtype=torch.float64)

    def smoothed(x: Tensor, smoothing: Tensor) -> Tensor:
        with SmoothReLUMode(smoothing):
            return function(x)

    value = vmap(smoothed)(torch.stack([z, z]), torch.stack([alpha, alpha]))[1] if through_vmap else smoothed(z, alpha)
    return value, torch.autograd.grad(value.sum(), z)[0], z.detach()


@pytest.mark.parametrize("through_vmap", [False, True])
@pytest.mark.parametrize("name", [*RELUS, *LEAKY])
def test_a_relu_by_any_name_is_smoothed(name: str, through_vmap: bool) -> None:
    slope = SLOPE if name in LEAKY else 0.0
    value, derivative, z = derivatives({**RELUS, **LEAKY}[name], through_vmap)
    torch.testing.assert_close(value.detach(), F.leaky_relu(z, slope), rtol=0, atol=1e-15)
    torch.testing.assert_close(derivative, slope + (1 - slope) * torch.sigmoid(ALPHA * z))


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_relu_is_left_alone(name: str) -> None:
    value, derivative, z = derivatives(OTHERS[name], False)
    z.requires_grad_()
    expected = OTHERS[name](z)
    assert torch.equal(value, expected)
    assert torch.equal(derivative, torch.autograd.grad(expected.sum(), z)[0])


class Rectified(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.last, self.function = nn.Linear(4, 3), nn.Linear(3, 2), function

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.function(self.first(x)))


def test_zeros_that_vmap_cannot_look_into_are_found_trial_by_trial() -> None:
    torch.manual_seed(0)
    nets = [Rectified(torch.relu).double(), Rectified(lambda z: torch.maximum(z, torch.zeros_like(z))).double()]
    nets[1].load_state_dict(nets[0].state_dict())
    x, smoothing = torch.randn(3, 5, 4, dtype=torch.float64), torch.tensor([1.0, 5.0, 50.0], dtype=torch.float64)
    found = []
    for net in nets:
        outputs, pullback = ModuleTarget(net, (4,)).linearise(x, smoothing)
        found.append(pullback(torch.ones_like(outputs)).adjoint(dict.fromkeys(dict(net.named_parameters()), 1.0))[0])
    torch.testing.assert_close(found[0], found[1])
