"""Both targets against a slow reference written from the equations: losses and gradients, in float64."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.cases import NETWORKS, SAMPLE_SHAPE, Trials
from tests.cases import trials as some_trials
from tests.references import kkt_loss, published_output
from torch import Tensor, nn

from recollect.memory import AtOnce
from recollect.objectives import KKT, ActivationMaximisation
from recollect.priors import Box, dual_floor, dual_floor_gradient
from recollect.targets import MLPTarget, ModuleTarget, as_target

TARGETS = {
    "by hand": lambda net: MLPTarget.from_module(net, SAMPLE_SHAPE),
    "by autograd": lambda net: ModuleTarget(net, SAMPLE_SHAPE),
    "by autograd, recomputing": lambda net: ModuleTarget(net, SAMPLE_SHAPE, recompute=True),
}


def relative(a: Tensor, b: Tensor) -> float:
    return float(((a - b).norm() / b.norm()).detach())


def weights_for(net: nn.Module) -> tuple[float, ...]:
    layers = sum(isinstance(part, nn.Linear) for part in net.modules())
    return tuple(1.0 / (index + 1) for index in range(layers))


def engine_loss(target, given: Trials, layer_weights: tuple[float, ...] | None) -> Tensor:
    objective = KKT(given.x.shape[1], given.smoothing, given.dual_min, layer_weights)
    terms = objective(target, given.x, given.labels, {"duals": given.duals})
    return torch.stack(list(terms.values())).sum(dim=0) + Box()(given.x)


def reference_loss(net: nn.Module, given: Trials, layer_weights: tuple[float, ...]) -> Tensor:
    rows = zip(given.x, given.duals, given.smoothing.tolist(), given.dual_min.tolist(), strict=True)
    return torch.stack([kkt_loss(net, x, duals, given.labels, *rest, layer_weights) for x, duals, *rest in rows])


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("name", NETWORKS)
def test_kkt_agrees_with_double_backward(name: str, kind: str) -> None:
    net, given = NETWORKS[name](), some_trials()
    layer_weights = weights_for(net)
    expected = reference_loss(net, given, layer_weights)
    found = engine_loss(TARGETS[kind](net), given, layer_weights)
    assert relative(found, expected) < 1e-9
    expected_grads = torch.autograd.grad(expected.sum(), [given.x, given.duals])
    found_grads = torch.autograd.grad(found.sum(), [given.x, given.duals])
    for got, wanted in zip(found_grads, expected_grads, strict=True):
        assert relative(got, wanted) < 1e-9


@pytest.mark.parametrize("counted", ["all", "first", "last"])
@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("name", NETWORKS)
def test_the_adjoint_agrees_with_autograd_through_the_loss(name: str, kind: str, counted: str) -> None:
    net, given = NETWORKS[name](), some_trials()
    depth = len(weights_for(net))
    chosen = {"all": weights_for(net), "first": (1.0, *[0.0] * (depth - 1)), "last": (*[0.0] * (depth - 1), 1.0)}
    target = TARGETS[kind](net)
    # Without multiplier floor and box: their gradients are large and would hide an error in the residual's.
    objective = KKT(given.x.shape[1], given.smoothing, given.dual_min, chosen[counted], floor_weight=0.0)
    total = objective(target, given.x, given.labels, {"duals": given.duals})["stationarity"].sum()
    expected = torch.autograd.grad(total, [given.x, given.duals], materialize_grads=True)
    with torch.no_grad():
        x, duals = given.x.detach(), given.duals.detach()
        x_gradient, own = objective.gradient(target, x, given.labels, {"duals": duals})
    for got, wanted in zip((x_gradient, own["duals"]), expected, strict=True):
        assert not got.requires_grad
        assert float((got - wanted).norm()) <= 1e-10 * float(wanted.norm())


@pytest.mark.parametrize("m", [2, 6, 40])
def test_few_and_many_candidates_take_different_ways_to_the_same_gradient(m: int) -> None:
    """With few candidates m x m products stand in for the summed gradients; at 6 the layers differ in what they do."""
    net, given = NETWORKS["two hidden layers, all biases"](), some_trials(m)
    target = MLPTarget.from_module(net, SAMPLE_SHAPE)
    objective = KKT(m, given.smoothing, given.dual_min)
    total = torch.stack(
        list(objective(target, given.x, given.labels, {"duals": given.duals}).values()),
    ).sum()
    expected = torch.autograd.grad(total, [given.x, given.duals])
    found, own = objective.gradient(target, given.x.detach(), given.labels, {"duals": given.duals.detach()})
    assert relative(found, expected[0]) < 1e-10
    assert relative(own["duals"], expected[1]) < 1e-10


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("trials", [None, 1, 2])
@pytest.mark.parametrize("chunk", [None, 1, 4, 6, 100])
@pytest.mark.parametrize("kind", TARGETS)
def test_groups_and_chunks_do_not_change_the_gradient(
    kind: str, chunk: int | None, trials: int | None, keep: bool
) -> None:
    net, given = NETWORKS["two hidden layers, all biases"](), some_trials()
    target, duals = TARGETS[kind](net), {"duals": given.duals.detach()}
    whole = KKT(given.x.shape[1], given.smoothing, given.dual_min)
    chunked = replace(whole, at_once=AtOnce(trials, chunk, keep))
    expected, found = (
        objective.gradient(target, given.x.detach(), given.labels, duals) for objective in (whole, chunked)
    )
    assert relative(found[0], expected[0]) < 1e-12
    assert relative(found[1]["duals"], expected[1]["duals"]) < 1e-12
    terms, in_chunks = (objective(target, given.x.detach(), given.labels, duals) for objective in (whole, chunked))
    assert relative(in_chunks["stationarity"], terms["stationarity"]) < 1e-12


def test_prior_gradients_by_hand_agree_with_autograd() -> None:
    given, box = some_trials(), Box(weight=0.7)
    assert torch.allclose(box.gradient(given.x), torch.autograd.grad(box(given.x).sum(), given.x)[0], rtol=1e-12)
    floor = torch.autograd.grad(dual_floor(given.duals, given.dual_min).sum(), given.duals)[0]
    assert torch.allclose(dual_floor_gradient(given.duals, given.dual_min), floor, rtol=1e-12)


@pytest.mark.parametrize("kind", TARGETS)
def test_a_layer_with_weight_zero_does_not_count(kind: str) -> None:
    net, given = NETWORKS["two hidden layers, all biases"](), some_trials()
    found = engine_loss(TARGETS[kind](net), given, (1.0, 0.0, 0.0))
    expected = reference_loss(net, given, (1.0, 0.0, 0.0))
    assert relative(found, expected) < 1e-9
    grads = [torch.autograd.grad(loss.sum(), given.x)[0] for loss in (found, expected)]
    assert relative(*grads) < 1e-9


def test_gradient_agrees_with_finite_differences() -> None:
    """With a smooth network (large slopes removed) the analytic gradient is that of the loss itself."""
    net, given = NETWORKS["linear"](), some_trials()
    target = MLPTarget.from_module(net, SAMPLE_SHAPE)
    analytic = torch.autograd.grad(engine_loss(target, given, None).sum(), given.duals)[0]
    step = 1e-6
    with torch.no_grad():
        for t, i in ((0, 0), (1, 3), (2, 5)):
            up, down = given.duals.clone(), given.duals.clone()
            up[t, i] += step
            down[t, i] -= step
            losses = [
                engine_loss(target, Trials(given.x, moved, given.labels, given.smoothing, given.dual_min), None).sum()
                for moved in (up, down)
            ]
            assert float((losses[0] - losses[1]) / (2 * step)) == pytest.approx(float(analytic[t, i]), rel=1e-6)


@pytest.mark.parametrize("kind", TARGETS)
def test_a_trial_alone_equals_the_trial_in_a_batch(kind: str) -> None:
    net, given = NETWORKS["two hidden layers, all biases"](), some_trials()
    target = TARGETS[kind](net)
    together = engine_loss(target, given, None)
    grads = torch.autograd.grad(together.sum(), given.x)[0]
    for t in range(3):
        alone = Trials(
            given.x[t : t + 1].detach().requires_grad_(),
            given.duals[t : t + 1],
            given.labels,
            given.smoothing[t : t + 1],
            given.dual_min[t : t + 1],
        )
        loss = engine_loss(target, alone, None)
        assert loss[0].item() == pytest.approx(together[t].item(), rel=1e-12)
        assert relative(torch.autograd.grad(loss.sum(), alone.x)[0][0], grads[t]) < 1e-9


@pytest.mark.parametrize("kind", TARGETS)
def test_activation_maximisation_agrees_with_the_network(kind: str) -> None:
    net, given = NETWORKS["two hidden layers, first bias"](), some_trials()
    terms = ActivationMaximisation(given.smoothing)(TARGETS[kind](net), given.x, given.labels, {})
    for t, alpha in enumerate(given.smoothing.tolist()):
        x = given.x[t].detach().requires_grad_()
        expected = -(published_output(net, x, alpha)[:, 0] * given.labels).sum()
        assert terms["activation"][t].item() == pytest.approx(expected.item(), rel=1e-12)
        wanted = torch.autograd.grad(expected, x)[0]
        got = torch.autograd.grad(terms["activation"][t], given.x, retain_graph=True)[0][t]
        assert relative(got, wanted) < 1e-9


def test_targets_agree_on_the_zoo_network_and_are_chosen_by_themselves() -> None:
    from recollect.zoo import MLPArchitecture, build_network

    net = build_network(MLPArchitecture(hidden=(6, 4), bias="all"), SAMPLE_SHAPE, seed=3)
    assert isinstance(as_target(net, SAMPLE_SHAPE), MLPTarget)
    given = some_trials()
    first, *others = [engine_loss(make(net), given, None) for make in TARGETS.values()]
    assert all(relative(other, first) < 1e-9 for other in others)


def test_functional_relu_gets_the_smooth_derivative() -> None:
    """A network that calls ReLU in every way there is, against the same one with modules."""

    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = NETWORKS["four hidden layers, all but the last bias"]()

        def forward(self, x: Tensor) -> Tensor:
            linears = [part for part in self.parts if isinstance(part, nn.Linear)]
            calls = [torch.relu, nn.functional.relu, Tensor.relu, lambda z: nn.functional.relu(z, inplace=True)]
            x = x.flatten(1)
            for linear, call in zip(linears[:-1], calls, strict=True):
                x = call(linear(x))
            return linears[-1](x)

    net, given = Own(), some_trials()
    assert isinstance(as_target(net, SAMPLE_SHAPE), ModuleTarget)
    found = engine_loss(ModuleTarget(net, SAMPLE_SHAPE), given, None)
    expected = engine_loss(ModuleTarget(net.parts, SAMPLE_SHAPE), given, None)
    assert relative(found, expected) < 1e-12
    grads = [torch.autograd.grad(loss.sum(), given.x)[0] for loss in (found, expected)]
    assert relative(*grads) < 1e-9


def test_residual_vanishes_at_a_known_solution() -> None:
    """theta built as a combination of its own gradient: a linear network w = (1/m) sum lambda_i y_i x_i."""
    given = some_trials()
    x, duals = given.x.detach(), given.duals.detach().abs() + 1
    m = x.shape[1]
    combined = (duals[0] * given.labels) @ x[0].flatten(1) / m
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 1, bias=False)).to(torch.float64)
    with torch.no_grad():
        net[1].weight.copy_(combined[None])
    objective = KKT(m, torch.tensor([50.0]), torch.zeros(1, dtype=torch.float64))
    for make in TARGETS.values():
        terms = objective(make(net), x[:1], given.labels, {"duals": duals[:1]})
        assert terms["stationarity"].item() < 1e-24
