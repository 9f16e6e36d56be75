"""What the targets accept, refuse, and leave untouched."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import prune

from recollect.api import attack
from recollect.config import AttackConfig
from recollect.core import RecollectError
from recollect.objectives.kkt import parameter_weights
from recollect.targets import ClassifierTarget, MLPTarget, ModuleTarget, as_target
from recollect.targets.smooth_relu import smooth_relu


@pytest.mark.parametrize("alpha", [1.0, 20.0, 500.0])
def test_smooth_relu_has_the_derivatives_of_softplus(alpha: float) -> None:
    z = torch.linspace(-3, 3, 61, dtype=torch.float64, requires_grad=True)
    value = smooth_relu(z, torch.tensor(alpha, dtype=torch.float64))
    assert torch.allclose(value, torch.relu(z), rtol=0, atol=1e-14)
    first = torch.autograd.grad(value.sum(), z, create_graph=True)[0]
    slope = torch.sigmoid(alpha * z)
    assert torch.allclose(first, slope, rtol=1e-10, atol=1e-14)
    second = torch.autograd.grad(first.sum(), z)[0]
    assert torch.allclose(second, alpha * slope * (1 - slope), rtol=1e-8, atol=1e-12)


def test_mlp_target_names_what_it_cannot_do() -> None:
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Tanh(), nn.Flatten(), nn.Linear(8, 1))
    with pytest.raises(RecollectError, match="found Tanh at '1'; use the module target"):
        MLPTarget.from_module(net, (1, 4, 4))
    assert isinstance(as_target(net, (1, 4, 4)), ModuleTarget)


@pytest.mark.parametrize(
    "parts",
    [
        (nn.Linear(2, 3), nn.Linear(3, 1)),
        (nn.Linear(2, 3), nn.ReLU(), nn.ReLU(), nn.Linear(3, 1)),
        (nn.Linear(2, 1), nn.ReLU()),
        (nn.ReLU(), nn.Linear(2, 1)),
        (nn.Linear(2, 4), nn.Flatten(), nn.ReLU(), nn.Linear(4, 1)),
    ],
)
def test_chains_that_are_no_plain_mlp_go_to_the_module_target(parts: tuple[nn.Module, ...]) -> None:
    assert isinstance(as_target(nn.Sequential(*parts), (2,)), ModuleTarget)


def test_a_forward_method_of_ones_own_is_not_taken_for_a_chain() -> None:
    class Doubled(nn.Sequential):
        def forward(self, x):
            return 2 * super().forward(x)

    assert isinstance(as_target(Doubled(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)), (2,)), ModuleTarget)


def test_the_users_network_is_left_as_it_was() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.ReLU(), nn.Linear(3, 1)).train()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    target = as_target(net, (2,))
    outputs, pullback = target.linearise(torch.randn(2, 5, 2), torch.full((2,), 10.0))
    pullback(torch.ones_like(outputs))
    assert net.training
    assert all(not p.requires_grad or p.grad is None for p in net.parameters())
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_weights_that_are_not_finite_are_refused() -> None:
    net = nn.Sequential(nn.Linear(2, 1))
    with torch.no_grad():
        net[0].weight[0, 0] = float("nan")
    with pytest.raises(RecollectError, match=r"'0.weight' are not finite"):
        as_target(net, (2,))


def test_networks_without_parameters_or_with_odd_outputs_are_refused() -> None:
    with pytest.raises(RecollectError, match="no parameters"):
        ModuleTarget(nn.ReLU(), (2,))
    target = ModuleTarget(nn.Conv1d(1, 1, 1), (1, 4))
    with pytest.raises(RecollectError, match="one row of outputs per input"):
        target.linearise(torch.zeros(1, 3, 1, 4), torch.ones(1))


def test_layer_weights_must_fit_the_network() -> None:
    target = as_target(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)), (2,))
    assert parameter_weights(target, (2.0, 0.0)) == {"0.weight": 2.0, "0.bias": 2.0}
    with pytest.raises(RecollectError, match="has 3 values, but the network has 2 layers"):
        parameter_weights(target, (1.0, 1.0, 1.0))
    with pytest.raises(RecollectError, match="all zero"):
        parameter_weights(target, (0.0, 0.0))


class Branching(nn.Module):
    """What vmap cannot follow: a decision that depends on a value."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) if float(x.detach().sum()) < 1e9 else -self.inner(x)


def test_networks_that_vmap_refuses_are_run_trial_by_trial() -> None:
    inner = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1)).double()
    x, smoothing = torch.randn(3, 5, 4, dtype=torch.float64), torch.tensor([5.0, 20.0, 90.0]).double()
    weights = {"0.weight": 1.0, "0.bias": 1.0, "2.weight": 0.5, "2.bias": 0.5}
    results = []
    for net, prefix in ((inner, ""), (Branching(inner), "inner.")):
        outputs, pullback = ModuleTarget(net, (4,)).linearise(x, smoothing)
        pulled = pullback(torch.ones_like(outputs))
        results.append((outputs.detach(), *pulled.adjoint({prefix + name: w for name, w in weights.items()})))
    for plain, branching in zip(*results, strict=True):
        assert torch.allclose(plain, branching, rtol=1e-12)


def test_a_network_that_fails_by_itself_says_so() -> None:
    target = ModuleTarget(Branching(nn.Linear(7, 1)), (4,))
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        target.linearise(torch.zeros(2, 5, 4), torch.ones(2))


class Attending(nn.Module):
    """Rows of an image attend to one another, by PyTorch's attention or by the same written out."""

    def __init__(self, by_hand: bool = False) -> None:
        super().__init__()
        self.attention, self.last, self.by_hand = (
            nn.MultiheadAttention(6, 1, batch_first=True),
            nn.Linear(6, 3),
            by_hand,
        )

    def forward(self, x: Tensor) -> Tensor:
        if not self.by_hand:
            return self.last(self.attention(x, x, x, need_weights=False)[0].mean(1))
        assert self.attention.in_proj_weight is not None
        q, k, v = nn.functional.linear(x, self.attention.in_proj_weight, self.attention.in_proj_bias).chunk(3, dim=-1)
        mixed = torch.softmax(q @ k.mT / math.sqrt(6), dim=-1) @ v
        return self.last(self.attention.out_proj(mixed).mean(1))


@pytest.mark.parametrize("recompute", [False, True])
def test_attention_is_differentiated_twice(recompute: bool) -> None:
    torch.manual_seed(0)
    fused, by_hand = Attending().double(), Attending(by_hand=True).double()
    by_hand.load_state_dict(fused.state_dict())
    x, smoothing = torch.randn(2, 3, 5, 6, dtype=torch.float64), torch.ones(2, dtype=torch.float64)
    found = []
    for net in (fused, by_hand):
        target = ModuleTarget(net, (5, 6), recompute=recompute)
        outputs, pullback = target.linearise(x, smoothing)
        found.append((outputs.detach(), *pullback(outputs.detach()).adjoint(dict.fromkeys(target.params, 1.0))))
        assert target._vectorised
    for of_fused, written_out in zip(*found, strict=True):
        torch.testing.assert_close(of_fused, written_out)


def test_the_gradient_of_a_loss_passes_through_attention() -> None:
    torch.manual_seed(0)
    fused, by_hand = Attending().double(), Attending(by_hand=True).double()
    by_hand.load_state_dict(fused.state_dict())
    labels, found = torch.tensor([[0, 1, 2]]), []
    for net in (fused, by_hand):
        x = torch.ones(1, 3, 5, 6, dtype=torch.float64).cumsum(dim=-1).requires_grad_()
        ClassifierTarget(net, (5, 6), "last").loss_gradients(x, labels).square().sum().backward()
        found.append(x.grad)
    torch.testing.assert_close(*found)


def test_a_network_with_attention_can_be_attacked() -> None:
    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.last = nn.TransformerEncoderLayer(28, 2, 32, batch_first=True), nn.Linear(28, 10)

        def forward(self, x: Tensor) -> Tensor:
            return self.last(self.encoder(x.squeeze(1)).mean(1))

    found = attack(Encoder(), (1, 28, 28), AttackConfig(candidates=4, steps=3), device="cpu")
    assert bool(found.candidates.isfinite().all())


def test_a_network_that_cannot_be_differentiated_twice_is_refused_in_a_sentence() -> None:
    class Distances(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            return torch.cdist(input, self.weight, p=1.5)

    outputs, pullback = ModuleTarget(Distances(4, 2, bias=False), (4,)).linearise(torch.rand(2, 3, 4), torch.ones(2))
    with pytest.raises(RecollectError, match="cannot be differentiated twice, which this attack needs"):
        pullback(torch.ones_like(outputs)).adjoint({"weight": 1.0})


def test_recomputed_activations_are_those_of_evaluation_mode() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Tanh(), nn.Dropout(), nn.Linear(3, 1)).train()
    x, found = torch.rand(2, 5, 4), []
    for recompute in (False, True):
        target = ModuleTarget(net, (4,), recompute=recompute)
        outputs, pullback = target.linearise(x, torch.ones(2))
        found.append(pullback(torch.ones_like(outputs)).combined)
    torch.testing.assert_close(found[1], found[0])
    assert all(part.training for part in net.modules())


class Remembers(nn.Module):
    """A network of one's own that keeps what it computed."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        self.seen = self.layer(x)
        return self.seen


def _pruned() -> nn.Module:
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))
    prune.l1_unstructured(net[1], "weight", 0.5)
    return net


@pytest.mark.parametrize("make", [_pruned, Remembers])
def test_tensors_that_hooks_and_networks_keep_are_as_they_were(make: Callable[[], nn.Module]) -> None:
    net = make()
    x, kept = torch.randn(3, 4), [set(vars(part)) for part in net.modules()]
    with torch.no_grad():
        before = net(x)
    attack(net, (4,), AttackConfig(candidates=4, steps=3, target="module"), device="cpu")
    copied = deepcopy(net)
    assert torch.equal(copied(x), before)
    assert all(names <= set(vars(part)) for names, part in zip(kept, net.modules(), strict=True))


def test_outputs_that_lose_the_axis_of_candidates_are_refused() -> None:
    class Squeezed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x).squeeze()

    with pytest.raises(RecollectError, match="one row of outputs per input"):
        attack(Squeezed(), (4,), AttackConfig(candidates=1, steps=2), device="cpu")


def test_the_library_refuses_what_the_command_line_refuses() -> None:
    net = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6, track_running_stats=False), nn.ReLU(), nn.Linear(6, 1))
    with pytest.raises(RecollectError, match="depends on the others in the batch"):
        attack(net, (4,), AttackConfig(candidates=4, steps=2), device="cpu")
