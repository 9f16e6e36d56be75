"""Networks averaged over orbits: against double backward through the average, and the laws of Elbaz 2024."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cases import NETWORKS, SAMPLE_SHAPE, Trials, trials
from tests.references import published_output
from torch import Tensor, nn

from recollect.build import build_problem
from recollect.config import AttackConfig
from recollect.groups import Group
from recollect.memory import AtOnce, step_bytes
from recollect.objectives import KKT, ActivationMaximisation
from recollect.symmetries import group_of, named_group
from recollect.targets import MLPTarget, ModuleTarget, SymmetrisedTarget, as_target
from recollect.zoo import DeepSetArchitecture, GroupConvArchitecture, MLPArchitecture, Symmetrised, build_network

GROUPS = ["trivial", "flip", "klein4", "rotations", "d4", "permutations"]
KINDS = {
    "by hand": lambda net: as_target(net, SAMPLE_SHAPE),
    "by autograd inside": lambda net: as_target(net, SAMPLE_SHAPE, "module"),
    "by autograd outside": lambda net: ModuleTarget(net, SAMPLE_SHAPE),
}


def symmetrised(name: str, network: str = "two hidden layers, all biases") -> Symmetrised:
    return Symmetrised(NETWORKS[network](), named_group(name, SAMPLE_SHAPE))


def relative(a: Tensor, b: Tensor) -> float:
    return float(((a - b).norm() / b.norm()).detach())


def slow_residual(net: Symmetrised, given: Trials, layer_weights: tuple[float, ...]) -> Tensor:
    """``sum_l w_l ||theta_l - (1/m) sum_i lambda_i y_i d/dtheta_l (1/|G|) sum_g Phi(g x_i)||^2``, sample by sample."""
    params = list(net.net.parameters())
    names = [name.rpartition(".")[0] for name, _ in net.net.named_parameters()]
    order = {name: index for index, name in enumerate(dict.fromkeys(names))}
    losses = []
    for t, alpha in enumerate(given.smoothing.tolist()):
        combined = [torch.zeros_like(p) for p in params]
        m = given.x.shape[1]
        for i in range(m):
            output = torch.zeros((), dtype=torch.float64)
            for places in net.group.actions:
                moved = given.x[t, i].flatten()[places].reshape(1, *SAMPLE_SHAPE)
                output = output + published_output(net.net, moved, alpha).squeeze() / net.group.size
            grads = torch.autograd.grad(given.labels[i] * output, params, create_graph=True)
            combined = [c + given.duals[t, i] * g / m for c, g in zip(combined, grads, strict=True)]
        rows = zip(names, params, combined, strict=True)
        losses.append(sum(layer_weights[order[name]] * (p.detach() - c).square().sum() for name, p, c in rows))
    return torch.stack(losses)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", GROUPS)
def test_kkt_agrees_with_double_backward_through_the_average(name: str, kind: str) -> None:
    net, given = symmetrised(name), trials(m=3)
    target, weights = KINDS[kind](net), (1.0, 0.5, 0.25)
    expected = slow_residual(net, given, weights)
    wanted = torch.autograd.grad(expected.sum(), [given.x, given.duals])
    objective = KKT(3, given.smoothing, given.dual_min, weights, floor_weight=0.0)
    found = objective(target, given.x, given.labels, {"duals": given.duals})["stationarity"]
    assert relative(found, expected) < 1e-9
    recorded = torch.autograd.grad(found.sum(), [given.x, given.duals])
    with torch.no_grad():
        x_gradient, own = objective.gradient(target, given.x.detach(), given.labels, {"duals": given.duals.detach()})
    for got in (recorded, (x_gradient, own["duals"])):
        assert relative(got[0], wanted[0]) < 1e-9
        assert relative(got[1], wanted[1]) < 1e-9


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("chunk", [None, 2])
def test_by_hand_is_by_autograd_for_every_network_and_in_chunks(name: str, chunk: int | None) -> None:
    net, given = symmetrised("klein4", name), trials()
    objective = KKT(6, given.smoothing, given.dual_min)
    duals = {"duals": given.duals.detach()}
    wanted = objective.gradient(KINDS["by autograd outside"](net), given.x.detach(), given.labels, duals)
    with torch.no_grad():
        target = KINDS["by hand"](net)
        found = replace(objective, at_once=AtOnce(candidates=chunk)).gradient(
            target, given.x.detach(), given.labels, duals
        )
    assert relative(found[0], wanted[0]) < 1e-10
    assert relative(found[1]["duals"], wanted[1]["duals"]) < 1e-10


def test_the_hand_derived_path_is_found_by_itself() -> None:
    target = as_target(symmetrised("flip"), SAMPLE_SHAPE)
    assert isinstance(target, SymmetrisedTarget)
    assert isinstance(target.inner, MLPTarget)
    other = as_target(symmetrised("flip"), SAMPLE_SHAPE, "module")
    assert isinstance(other, SymmetrisedTarget)
    assert isinstance(other.inner, ModuleTarget)


def test_half_precision_products_inside() -> None:
    net, given = symmetrised("d4").float(), trials()
    objective = KKT(6, given.smoothing.float(), given.dual_min.float(), floor_weight=0.0)
    duals = {"duals": given.duals.detach().float()}
    exact, half = (
        objective.gradient(as_target(net, SAMPLE_SHAPE, half=half), given.x.detach().float(), given.labels, duals)[0]
        for half in (False, True)
    )
    assert 0 < relative(half, exact) < 0.02


def test_activation_maximisation_climbs_the_average() -> None:
    net, given = symmetrised("d4"), trials()
    objective = ActivationMaximisation(given.smoothing)
    found, expected = (
        objective.gradient(KINDS[kind](net), given.x.detach(), given.labels, {})[0]
        for kind in ("by hand", "by autograd outside")
    )
    assert relative(found, expected) < 1e-10


INVARIANT = {
    "averaged, flip": lambda seed: (_averaged("flip", seed), SAMPLE_SHAPE),
    "averaged, d4": lambda seed: (_averaged("d4", seed), SAMPLE_SHAPE),
    "group convolution": lambda seed: (
        build_network(GroupConvArchitecture(group="d4", kernel=2, channels=(3, 3), hidden=(4,)), (1, 4, 4), seed),
        (1, 4, 4),
    ),
    "deep set": lambda seed: (build_network(DeepSetArchitecture(elements=(7,), hidden=(5,)), (3, 2), seed), (3, 2)),
}


def _averaged(name: str, seed: int) -> Symmetrised:
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 7), nn.ReLU(), nn.Linear(7, 1, bias=False)).double()
    return Symmetrised(net, named_group(name, SAMPLE_SHAPE))


def _step(target, objective, x: Tensor, labels: Tensor, duals: Tensor) -> Tensor:
    """One step of gradient descent on the candidates."""
    return x - 0.1 * objective.gradient(target, x, labels, {"duals": duals})[0]


def _moved(group: Group, x: Tensor, element: Tensor) -> Tensor:
    return group.move(x.flatten(0, 1), element).unflatten(0, x.shape[:2])


@settings(max_examples=12, deadline=None)
@given(st.sampled_from(sorted(INVARIANT)), st.integers(0, 1000))
def test_propositions_1_and_2(name: str, seed: int) -> None:
    """Moving each candidate along its orbit leaves the objective; a step moves with the candidates it starts from."""
    net, shape = INVARIANT[name](seed)
    group, target = group_of(net, shape), as_target(net, shape)
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(2, 4, *shape, generator=generator, dtype=torch.float64)
    duals = {"duals": torch.rand(2, 4, generator=generator, dtype=torch.float64)}
    element, labels = torch.randint(group.size, (8,), generator=generator), torch.tensor([1, 1, -1, -1])
    smoothing = torch.tensor([5.0, 50.0], dtype=torch.float64)
    for objective in (KKT(4, smoothing, torch.zeros(2, dtype=torch.float64)), ActivationMaximisation(smoothing)):
        before, after = (objective(target, at, labels, duals) for at in (x, _moved(group, x, element)))
        for term in before:
            assert torch.allclose(before[term], after[term], rtol=1e-9, atol=1e-12)
        stepped = _step(target, objective, x, labels, duals["duals"])
        from_moved = _step(target, objective, _moved(group, x, element), labels, duals["duals"])
        assert relative(from_moved, _moved(group, stepped, element)) < 1e-9


@pytest.mark.parametrize("name", INVARIANT)
def test_stabilisers_never_shrink_under_gradient_descent(name: str) -> None:
    net, shape = INVARIANT[name](7)
    group, target = group_of(net, shape), as_target(net, shape)
    x = torch.randn(1, 6, *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    orbit = group.orbit(x)
    x = torch.stack([orbit[:, i, [0, i % group.size]].mean(dim=1) for i in range(6)], dim=1)
    objective = KKT(6, torch.tensor([20.0]).double(), torch.zeros(1).double())
    duals, labels = torch.rand(1, 6, dtype=torch.float64), torch.tensor([1, 1, 1, -1, -1, -1])
    start = stabiliser = group.stabiliser(x, 1e-9)
    assert 0 < int((start.sum(dim=-1) > 1).sum()) < 6
    for _ in range(20):
        x = _step(target, objective, x, labels, duals)
        now = group.stabiliser(x, 1e-9)
        assert bool((now | ~stabiliser).all())
        stabiliser = now


def test_a_memory_limit_counts_every_element_of_the_orbits() -> None:
    net = build_network(MLPArchitecture(hidden=(300, 300), group="d4"), (1, 28, 28), seed=0)
    chunks = []
    for limit in ("10GiB", "80MB"):
        chosen = {"candidates": 400, "steps": 5, "optimiser": "momentum", "memory_limit": limit}
        attack = AttackConfig.model_validate(chosen)
        objective = build_problem(net, (1, 28, 28), attack, seed=0, device=torch.device("cpu")).objective
        assert isinstance(objective, KKT)
        chunks.append(objective.at_once.candidates)
    assert chunks[0] is None
    assert chunks[1] is not None
    chosen = AtOnce(candidates=chunks[1], keep_products=False)
    assert step_bytes((784, 300, 300, 1), 1, 400, chosen, moves=8) <= 80e6
