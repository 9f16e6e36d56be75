"""SAME-GD against the printed algorithm, and how it leaves what gradient descent cannot leave."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from recollect.build import build_problem
from recollect.config import AttackConfig, TrialSettings
from recollect.core import RecollectError
from recollect.optimisers import Momentum, SameGD
from recollect.problem import Problem, gradient, initial_state
from recollect.solve import solve
from recollect.symmetries import named_group
from recollect.zoo import Symmetrised

CPU = torch.device("cpu")
SHAPE = (1, 3, 4)


def network(seed: int = 0) -> Symmetrised:
    torch.manual_seed(seed)
    inner = nn.Sequential(nn.Flatten(), nn.Linear(12, 9), nn.ReLU(), nn.Linear(9, 1, bias=False)).double()
    return Symmetrised(inner, named_group("flip", SHAPE))


def problem(**changes) -> Problem:
    settings = [TrialSettings(lr_x=0.05, lr_duals=0.02, init_scale=0.5), TrialSettings(lr_x=0.02, init_scale=0.2)]
    given = {"candidates": 4, "steps": 23, "precision": "fp64", "trials": settings, "optimiser": "same_gd"}
    attack = AttackConfig.model_validate({"schedule": "constant"} | given | changes)
    return build_problem(network(), SHAPE, attack, seed=0, device=CPU)


def printed(ours: Problem, config: dict, trial: int) -> Tensor:
    """Algorithm 1, line by line, on one trial; multipliers take plain steps."""
    one = ours.for_trials(torch.tensor([trial]))
    optimiser = ours.optimiser
    assert isinstance(optimiser, SameGD)
    variables = {name: value.clone() for name, value in initial_state(one).variables.items()}
    lr = {name: float(rates[trial]) for name, rates in optimiser.descent.lr.items()}

    def share(start: float, t: int) -> float:
        return start if config["schedule"] == "constant" else start + (1 - start) * t / ours.steps

    previous = variables["x"].clone()
    for t in range(1, ours.steps + 1):
        grads, x = gradient(one, variables), variables["x"]
        if t % config["update_every"] != 0:
            moved = x - lr["x"] * grads["x"]
        else:
            mirror = 0.5 * (previous + previous.flip(-1))
            moved = share(config["alpha"], t) * x + (1 - share(config["alpha"], t)) * (previous - mirror)
        variables = {"x": moved, "duals": variables["duals"] - lr["duals"] * grads["duals"]}
        if t % config["save_every"] == 0:
            slope = gradient(one, variables)["x"]
            slope = slope**2 if config["memory"] == "squared_gradient" else slope
            b = share(config["beta"], t)
            previous = b * moved + (1 - b) * slope
    return variables["x"][0]


@pytest.mark.parametrize("memory", ["squared_gradient", "gradient"])
@pytest.mark.parametrize("schedule", ["constant", "to_one"])
def test_it_is_the_printed_algorithm(memory: str, schedule: str) -> None:
    config = {"update_every": 5, "save_every": 3, "alpha": 0.7, "beta": 0.4, "schedule": schedule, "memory": memory}
    ours = problem(momentum=0.0, same_gd=config, stall=0.0)
    found = solve(ours).variables["x"]
    for trial in range(2):
        assert torch.allclose(found[trial], printed(ours, config, trial), rtol=1e-10, atol=1e-12)


def symmetric_start(ours: Problem):
    """All candidates but the first are mirror images of themselves, and so is what is remembered of them."""
    state = initial_state(ours)
    x = state.variables["x"]
    x[:, 1:] = 0.5 * (x[:, 1:] + x[:, 1:].flip(-1))
    return state


def test_gradient_descent_keeps_every_symmetry_and_a_remembered_asymmetry_breaks_it() -> None:
    group = named_group("flip", SHAPE)
    plain = problem(optimiser="momentum", stall=0.0)
    end = solve(plain, state=symmetric_start(plain)).variables["x"]
    assert bool(group.stabiliser(end[:, 1:], 1e-9).all())
    ours = problem(same_gd={"update_every": 5, "save_every": 1000}, stall=0.0)
    state = symmetric_start(ours)
    # What it remembers is the point from before symmetry set in.
    state.optimiser["x_prev"].copy_(initial_state(ours).variables["x"])
    after = solve(ours, state=state).variables["x"]
    assert int(group.stabiliser(after, 1e-9).sum()) == 2 * 4  # the identity alone


def test_it_goes_on_from_a_saved_state_with_the_same_bits_and_for_some_trials() -> None:
    ours = problem(same_gd={"update_every": 4, "save_every": 3}, stall=0.0)
    whole = solve(ours).variables["x"]
    for trial in range(2):
        alone = solve(ours.for_trials(torch.tensor([trial]))).variables["x"]
        assert torch.allclose(alone[0], whole[trial], rtol=1e-10)
    optimiser = ours.optimiser
    state = initial_state(ours)
    assert isinstance(optimiser, SameGD)
    assert all(value.shape[0] == 2 and value.is_floating_point() for value in state.optimiser.values())


def test_displacement_counts_the_mixes_to_come() -> None:
    """A run whose gradient has vanished is not at rest while remembered asymmetry waits to be mixed in."""
    group = named_group("flip", SHAPE)
    rates = {"x": torch.tensor([0.1]).double(), "duals": torch.tensor([0.1]).double()}
    optimiser = SameGD(Momentum(rates), group, steps=100, update_every=10, alpha=0.5)
    variables = {"x": torch.randn(1, 3, *SHAPE).double(), "duals": torch.ones(1, 3).double()}
    ahead = optimiser.displacement(optimiser.init(variables), torch.tensor(1.0))
    expected = 0.05 * group.asymmetric(variables["x"]).abs()
    assert torch.allclose(ahead["x"], expected)
    assert float(ahead["duals"].abs().max()) == 0


@pytest.mark.parametrize("space", ["dip", "row"])
def test_it_moves_samples_and_nothing_else(space: str) -> None:
    inner, shape = nn.Sequential(nn.Flatten(), nn.Linear(36, 4), nn.ReLU(), nn.Linear(4, 1)), (1, 6, 6)
    attack = AttackConfig.model_validate({"optimiser": "same_gd", "space": space})
    with pytest.raises(RecollectError, match="same_gd moves samples themselves"):
        build_problem(inner, shape, attack, seed=0, device=CPU)
