"""What keeps candidates from the average of their orbit: the prior, the start, the network inside the average."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from recollect.build import build_problem
from recollect.config import AttackConfig
from recollect.core import RecollectError
from recollect.priors import Asymmetry
from recollect.problem import initial_state
from recollect.symmetries import named_group
from recollect.targets import MLPTarget, SymmetrisedTarget
from recollect.zoo import Symmetrised

CPU = torch.device("cpu")
SHAPE = (1, 4, 4)


def network() -> Symmetrised:
    torch.manual_seed(0)
    return Symmetrised(
        nn.Sequential(nn.Flatten(), nn.Linear(16, 5), nn.ReLU(), nn.Linear(5, 1)), named_group("d4", SHAPE)
    )


def built(**changes):
    attack = AttackConfig.model_validate({"candidates": 6, "steps": 5, "precision": "fp64"} | changes)
    return build_problem(network(), SHAPE, attack, seed=0, device=CPU)


@pytest.mark.parametrize("name", ["flip", "d4"])
def test_the_prior_agrees_with_its_definition_and_its_gradient_with_autograd(name: str) -> None:
    group = named_group(name, SHAPE)
    x = torch.randn(2, 5, *SHAPE, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x[:, 0] = group.orbit_average(x[:, 0])
    x[:, 1] = group.orbit_average(x[:, 1]) + 0.1 * group.asymmetric(x[:, 1])
    x[:, 2] = group.asymmetric(x[:, 2])
    x = x.requires_grad_()
    prior = Asymmetry(group, weight=0.7, share=0.4)
    expected = torch.zeros(2, dtype=torch.float64)
    for t in range(2):
        for i in range(5):
            length = x[t, i].square().sum()
            share = group.asymmetric(x[t, i]).square().sum() / length
            expected[t] += 0.7 * length * torch.relu(0.4 - share)
    assert torch.allclose(prior(x), expected, rtol=1e-12)
    assert torch.allclose(prior.gradient(x), torch.autograd.grad(expected.sum(), x)[0], atol=1e-12)
    found = prior.gradient(x).detach()
    assert float(found[:, 2].abs().max()) == 0
    assert float(found[:, 1].abs().max()) > 0


def test_its_gradient_for_a_sample_of_a_group() -> None:
    group = named_group("permutations:20", (9, 2))
    assert not group.whole
    x = torch.randn(1, 4, 9, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    prior = Asymmetry(group, weight=0.7, share=0.95)
    expected = torch.autograd.grad(prior(x).sum(), x)[0]
    assert float(expected.abs().max()) > 0
    assert torch.allclose(prior.gradient(x), expected, atol=1e-12)


def test_it_is_invariant_and_pushes_outwards() -> None:
    group = named_group("d4", SHAPE)
    prior = Asymmetry(group, weight=1.0, share=0.5)
    x = torch.randn(1, 4, *SHAPE, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x = group.orbit_average(x) + 0.1 * group.asymmetric(x)
    moved = group.move(x[0], torch.tensor([1, 3, 5, 7])).unsqueeze(0)
    assert torch.allclose(prior(x), prior(moved))
    assert torch.allclose(prior.gradient(moved)[0], group.move(prior.gradient(x)[0], torch.tensor([1, 3, 5, 7])))
    for _ in range(1000):
        x = x - 0.01 * prior.gradient(x)
    share = group.asymmetric(x).flatten(2).square().sum(2) / x.flatten(2).square().sum(2)
    assert torch.allclose(share, torch.full_like(share, 0.5), atol=0.03)


def test_the_initial_asymmetry_is_scaled_and_the_rest_is_not() -> None:
    group = named_group("d4", SHAPE)
    plain, more = (initial_state(built(asymmetry={"init": factor})).variables["x"] for factor in (1.0, 3.0))
    assert torch.allclose(group.orbit_average(more), group.orbit_average(plain))
    assert torch.allclose(group.asymmetric(more), 3 * group.asymmetric(plain))


def test_unfolding_attacks_the_network_inside() -> None:
    assert isinstance(built().target, SymmetrisedTarget)
    assert isinstance(built(asymmetry={"unfold": True}).target, MLPTarget)
    assert isinstance(built(space="row").target, SymmetrisedTarget)
    inside = built(asymmetry={"unfold": True}, space="row").target
    assert isinstance(inside, MLPTarget)
    assert inside.sample_shape != SHAPE
    attack = AttackConfig.model_validate({"asymmetry": {"unfold": True}})
    with pytest.raises(RecollectError, match="needs a network averaged over a group"):
        build_problem(network().net, SHAPE, attack, seed=0, device=CPU)


def test_orbits_of_the_solution_solve_the_unfolded_condition() -> None:
    """If theta combines averaged gradients at x, it combines plain gradients at the orbits of x."""
    given = {"candidates": 3, "steps": 5, "precision": "fp64", "dual_floor_weight": 0.0}
    folded, unfolded = (
        build_problem(network(), SHAPE, AttackConfig.model_validate(given | extra), seed=0, device=CPU)
        for extra in ({}, {"candidates": 24, "asymmetry": {"unfold": True}})
    )
    group = named_group("d4", SHAPE)
    x, duals = torch.randn(1, 3, *SHAPE, dtype=torch.float64), torch.rand(1, 3, dtype=torch.float64)
    labels = torch.tensor([1, -1, 1])
    before = folded.objective(folded.target, x, labels, {"duals": duals})["stationarity"]
    # Multipliers are divided by the number of candidates, of which there are now |G| times as many.
    orbits = {"duals": duals.repeat_interleave(8, dim=1)}
    after = unfolded.objective(unfolded.target, group.orbit(x).flatten(1, 2), labels.repeat_interleave(8), orbits)[
        "stationarity"
    ]
    assert torch.allclose(before, after, rtol=1e-12)


def test_a_trivial_group_asks_for_nothing() -> None:
    attack = AttackConfig.model_validate({"group": "trivial", "asymmetry": {"weight": 1.0}})
    assert "asymmetry" not in build_problem(network(), SHAPE, attack, seed=0, device=CPU).priors
    attack = AttackConfig.model_validate({"group": "flip", "asymmetry": {"weight": 1.0}})
    prior = build_problem(network(), SHAPE, attack, seed=0, device=CPU).priors["asymmetry"]
    assert isinstance(prior, Asymmetry)
    assert prior.group.size == 2
