"""The row space: its rank from the spectrum, and the same search in it as in full dimension."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from recollect.build import build_problem
from recollect.candidates import invariant_basis, signal_basis
from recollect.config import AttackConfig, TrialSettings
from recollect.core import RecollectError
from recollect.problem import gradient, initial_state, losses
from recollect.solve import solve
from recollect.symmetries import named_group
from recollect.zoo import Symmetrised

CPU = torch.device("cpu")
SHAPE = (1, 6, 6)


def low_rank_network(rank: int, noise: float, seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Flatten(), nn.Linear(36, 20), nn.ReLU(), nn.Linear(20, 8), nn.ReLU(), nn.Linear(8, 1))
    with torch.no_grad():
        signal = torch.randn(20, rank) @ torch.randn(rank, 36)
        net[1].weight.copy_(signal + noise * torch.randn(20, 36))
    return net.to(torch.float64)


def problem(net: nn.Module, space: str, **changes):
    settings = [TrialSettings(lr_x=0.02, lr_duals=0.02, init_scale=0.5), TrialSettings(lr_x=0.01, init_scale=0.2)]
    given = {"candidates": 6, "steps": 40, "precision": "fp64", "trials": settings, "space": space}
    given |= {"optimiser": "momentum"}  # rotations of the candidates leave it as it is, unlike Adam
    return build_problem(net, SHAPE, AttackConfig.model_validate(given | changes), seed=0, device=CPU)


@pytest.mark.parametrize("rank", [1, 3, 6])
def test_the_rank_is_that_of_the_signal(rank: int) -> None:
    weight = low_rank_network(rank, noise=1e-3)[1].weight.detach()
    basis = signal_basis(weight, max_rank=20)
    assert basis.shape == (36, rank)
    assert torch.allclose(basis.T @ basis, torch.eye(rank, dtype=torch.float64), atol=1e-12)
    outside = weight - weight @ basis @ basis.T
    assert float(outside.norm() / weight.norm()) < 0.02
    assert signal_basis(weight, max_rank=2).shape[1] == min(rank, 2)


@pytest.mark.parametrize("shape", [(20, 36), (36, 20), (24, 24)])
def test_directions_are_those_of_the_singular_value_decomposition(shape: tuple[int, int]) -> None:
    """Signals down to 1e-3 of the strongest; the projection onto them says everything about their span."""
    rng = torch.Generator().manual_seed(3)
    left, right = (torch.linalg.qr(torch.randn(size, 5, generator=rng, dtype=torch.float64)).Q for size in shape)
    strengths = torch.tensor([1.0, 0.3, 0.1, 0.01, 1e-3], dtype=torch.float64)
    weight = left * strengths @ right.T + 1e-8 * torch.randn(shape, generator=rng, dtype=torch.float64)
    basis = signal_basis(weight, max_rank=20)
    expected = torch.linalg.svd(weight, full_matrices=False).Vh[:5]
    assert basis.shape == (shape[1], 5)
    assert torch.allclose(basis @ basis.T, expected.T @ expected, atol=1e-9)
    assert torch.allclose(basis.T @ basis, torch.eye(5, dtype=torch.float64), atol=1e-12)
    assert torch.allclose((basis.T @ expected.T).abs(), torch.eye(5, dtype=torch.float64), atol=1e-4), "strongest first"


def test_the_search_in_the_row_space_is_the_search_in_full_dimension_from_the_same_start() -> None:
    net = low_rank_network(4, noise=0.0)
    full, row = (problem(net, space, box_weight=0.0) for space in ("full", "row"))
    start = initial_state(full)
    inside = row.candidates.decode(initial_state(row).variables)
    whole = solve(full, state=replace(start, variables=start.variables | {"x": inside}))
    found = solve(row)
    assert torch.allclose(row.candidates.decode(found.variables), whole.variables["x"], rtol=1e-6, atol=1e-7)
    assert torch.allclose(found.variables["duals"], whole.variables["duals"], rtol=1e-6, atol=1e-7)
    assert not torch.allclose(inside, whole.variables["x"], atol=1e-3)


@pytest.mark.parametrize(("group", "rank"), [("flip", 2), ("klein4", 4), ("d4", 8)])
def test_the_row_space_of_an_average_is_that_of_its_first_layer_moved_by_every_element(group: str, rank: int) -> None:
    """One direction of the weights is as many as the group makes of it; the group acts on their coefficients."""
    weight, acting = low_rank_network(1, noise=0.0)[1].weight.detach(), named_group(group, SHAPE)
    basis = invariant_basis(weight, acting, max_rank=20)
    assert basis.shape == (36, rank)
    inside = acting.within(basis)
    coefficients = torch.randn(5, rank, dtype=torch.float64)
    moved = acting.orbit((coefficients @ basis.T).unflatten(1, SHAPE)).flatten(2)
    assert torch.allclose(inside.orbit(coefficients) @ basis.T, moved, atol=1e-12)
    assert torch.equal(inside.products(), acting.products())
    assert torch.allclose(inside.pull_back(inside.orbit(coefficients)), acting.size * coefficients, atol=1e-12)


@pytest.mark.parametrize("most", range(1, 9))
def test_what_belongs_to_directions_that_are_cut_apart_is_added(most: int) -> None:
    """Rotations mix some directions of the same strength: none of them is left alone."""
    weight, acting = low_rank_network(1, noise=0.0)[1].weight.detach(), named_group("d4", SHAPE)
    basis = invariant_basis(weight, acting, most)
    assert most <= basis.shape[1] <= most + 1
    actions = acting.within(basis).actions
    assert torch.allclose(actions @ actions.mT, torch.eye(basis.shape[1], dtype=torch.float64), atol=1e-9)


@pytest.mark.parametrize(("group", "rank"), [("flip", 4), ("d4", 2)])
def test_an_average_is_searched_in_its_row_space_as_in_full_dimension(group: str, rank: int) -> None:
    net = Symmetrised(low_rank_network(rank, noise=0.0), named_group(group, SHAPE))
    full, row = (problem(net, space, box_weight=0.0) for space in ("full", "row"))
    start = initial_state(full)
    inside = row.candidates.decode(initial_state(row).variables)
    whole = solve(full, state=replace(start, variables=start.variables | {"x": inside}))
    found = solve(row)
    assert row.target.sample_shape == (rank * named_group(group, SHAPE).size,)
    assert torch.allclose(row.candidates.decode(found.variables), whole.variables["x"], rtol=1e-6, atol=1e-7)
    assert torch.allclose(found.variables["duals"], whole.variables["duals"], rtol=1e-6, atol=1e-7)
    assert not torch.allclose(inside, whole.variables["x"], atol=1e-3)


def test_elements_drawn_at_random_leave_no_row_space() -> None:
    net = Symmetrised(low_rank_network(2, noise=0.0), named_group("permutations:8", (6, 6)))
    with pytest.raises(RecollectError, match=r"drawn at random from 'permutations:8'.*attack\.space=full"):
        build_problem(net, (6, 6), AttackConfig(space="row", candidates=4), seed=0, device=CPU)


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_the_gradient_with_an_active_box_agrees_with_autograd(share: float) -> None:
    """Three of six candidates are far outside the box and three inside: half of them, the larger, are enough."""
    ours = problem(low_rank_network(4, noise=1e-3), "row", exposed_share=share)
    start = initial_state(ours).variables
    scale = torch.tensor([20.0, 0.05, 20.0, 0.05, 0.05, 20.0], dtype=torch.float64)
    start["x"] = nn.functional.normalize(start["x"], dim=2) * scale[:, None]
    variables = {name: value.requires_grad_() for name, value in start.items()}
    terms = losses(ours, variables)
    assert bool((terms["box"] > 0).all())
    expected = torch.autograd.grad(torch.stack(list(terms.values())).sum(), list(variables.values()))
    with torch.no_grad():
        found = gradient(ours, {name: value.detach() for name, value in variables.items()})
    for name, wanted in zip(variables, expected, strict=True):
        assert float((found[name] - wanted).norm()) < 1e-10 * float(wanted.norm())


def test_networks_without_a_linear_first_layer_have_no_row_space() -> None:
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 1))
    with pytest.raises(RecollectError, match=r"use --set attack.space=full"):
        problem(net, "row")


def test_fewer_exposed_candidates_than_active_ones_are_the_largest() -> None:
    ours = problem(low_rank_network(4, noise=1e-3), "row", exposed_share=1 / 6)
    start = initial_state(ours).variables
    scale = torch.tensor([3.0, 1.0, 5.0, 20.0, 4.0, 2.0], dtype=torch.float64)
    start["x"] = nn.functional.normalize(start["x"], dim=2) * scale[:, None]
    samples, which = ours.candidates.exposed(start)
    assert which is not None
    assert which.tolist() == [[3], [3]]
    assert torch.allclose(samples[:, 0], ours.candidates.decode(start)[:, 3])
