"""Adam against torch.optim.Adam in float64, trials with rates of their own."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from recollect.optimisers.adam import Adam

RATES = torch.tensor([0.3, 0.01, 1e-4], dtype=torch.float64)


def start() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = {"weight": (3, 4, 2), "bias": (3, 5)}
    return {name: torch.randn(shape, generator=generator, dtype=torch.float64) for name, shape in shapes.items()}


def slope(variables: dict[str, Tensor]) -> dict[str, Tensor]:
    """Gradient of a bumpy function, without trials that touch one another."""
    return {name: value + 3 * torch.cos(5 * value) for name, value in variables.items()}


def adam(**settings: object) -> Adam:
    return Adam({"weight": RATES, "bias": 2 * RATES}, **settings)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("betas", [(0.9, 0.999), (0.5, 0.9), (0.0, 0.99)])
def test_every_trial_takes_the_steps_of_torch(betas: tuple[float, float]) -> None:
    ours, optimiser = start(), adam(betas=betas)
    state = optimiser.init(ours)
    for step in range(40):
        factor = torch.tensor(1 - step / 50, dtype=torch.float64)
        ours, state = optimiser.update(ours, slope(ours), state, factor)
    for trial, rate in enumerate(RATES.tolist()):
        theirs = {name: value[trial].clone().requires_grad_() for name, value in start().items()}
        groups = [{"params": [theirs["weight"]], "lr": rate}, {"params": [theirs["bias"]], "lr": 2 * rate}]
        reference = torch.optim.Adam(groups, betas=betas)
        for step in range(40):
            for group, full in zip(reference.param_groups, (rate, 2 * rate), strict=True):
                group["lr"] = full * (1 - step / 50)
            for name, gradient in slope({name: value.detach() for name, value in theirs.items()}).items():
                theirs[name].grad = gradient
            reference.step()
        for name, value in theirs.items():
            assert torch.allclose(ours[name][trial], value, rtol=1e-10, atol=1e-12)


def test_displacement_is_the_step_just_taken() -> None:
    before, optimiser, rate = start(), adam(), torch.tensor(0.5, dtype=torch.float64)
    nothing = optimiser.displacement(optimiser.init(before), rate)
    after, state = optimiser.update(before, slope(before), optimiser.init(before), rate)
    for name, moved in optimiser.displacement(state, rate).items():
        assert torch.allclose(before[name] - after[name], moved, rtol=1e-12, atol=1e-15)
        assert not nothing[name].any()


def test_some_trials_move_as_they_do_among_all() -> None:
    chosen = torch.tensor([2, 0])
    variables, optimiser = start(), adam()
    some = {name: value[chosen] for name, value in variables.items()}
    state, some_state, part = optimiser.init(variables), optimiser.init(some), optimiser.for_trials(chosen)
    for _ in range(5):
        variables, state = optimiser.update(variables, slope(variables), state, torch.ones((), dtype=torch.float64))
        some, some_state = part.update(some, slope(some), some_state, torch.ones((), dtype=torch.float64))
    for name, value in variables.items():
        assert torch.equal(value[chosen], some[name])
    for name, value in state.items():
        assert value.is_floating_point()
        assert torch.equal(value[chosen], some_state[name])


def test_early_steps_are_right_in_single_precision_too() -> None:
    """One minus 0.999 has few digits in float32; the first steps must not show it."""
    x = {"x": torch.tensor([[1.0, -2.0, 1e-3]])}
    optimiser, gradient = Adam({"x": torch.tensor([0.1])}), {"x": torch.tensor([[3.0, -0.2, 7.0]])}
    moved, _ = optimiser.update(x, gradient, optimiser.init(x), torch.ones(()))
    assert torch.allclose(x["x"] - moved["x"], 0.1 * gradient["x"].sign(), rtol=1e-5)
