"""Smoothness as a prior: its definition, its gradient, where it acts, and what it does to what is found."""

from __future__ import annotations

import itertools

import pytest
import torch
from tests.cases import chain

from recollect.build import build_problem
from recollect.config import AttackConfig
from recollect.core import RecollectError
from recollect.priors import Variation
from recollect.problem import gradient, initial_state, losses
from recollect.stepping import step

CPU = torch.device("cpu")
SHAPE = (2, 3, 4)


def built(shape: tuple[int, ...] = SHAPE, **changes):
    attack = AttackConfig.model_validate({"candidates": 5, "steps": 30, "precision": "fp64"} | changes)
    return build_problem(chain((24, 6, 5, 1), (True, False, False)), shape, attack, seed=0, device=CPU)


def test_it_is_the_sum_over_neighbours_and_its_gradient_is_autograds() -> None:
    x = torch.randn(2, 3, *SHAPE, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    prior, expected = Variation(0.7), torch.zeros(2, dtype=torch.float64)
    channels, height, width = SHAPE
    for trial, image, channel in itertools.product(range(2), range(3), range(channels)):
        pixels = x[trial, image, channel]
        for row, column in itertools.product(range(height), range(width)):
            if row + 1 < height:
                expected[trial] += 0.7 * (pixels[row + 1, column] - pixels[row, column]) ** 2
            if column + 1 < width:
                expected[trial] += 0.7 * (pixels[row, column + 1] - pixels[row, column]) ** 2
    assert torch.allclose(prior(x), expected, rtol=1e-12)
    assert torch.allclose(prior.gradient(x), torch.autograd.grad(expected.sum(), x)[0], atol=1e-12)


@pytest.mark.parametrize("space", ["full", "row"])
def test_it_is_part_of_the_loss_of_every_candidate(space: str) -> None:
    """The box leaves most candidates in the row space alone; this does not."""
    problem = built(space=space, variation_weight=0.3, box_weight=0, exposed_share=0.2)
    variables = {name: value.requires_grad_() for name, value in initial_state(problem).variables.items()}
    total = torch.stack(list(losses(problem, variables).values())).sum()
    wanted = torch.autograd.grad(total, list(variables.values()))
    for got, value in zip(gradient(problem, variables).values(), wanted, strict=True):
        assert torch.allclose(got, value, rtol=1e-9, atol=1e-12)


def test_candidates_become_smoother() -> None:
    def roughness(weight: float) -> float:
        problem = built(variation_weight=weight)
        state = initial_state(problem)
        for _ in range(problem.steps):
            state = step(problem, state)
        x = problem.candidates.decode(state.variables)
        return float(Variation(1.0)(x) / x.square().sum())

    assert roughness(1.0) < 0.8 * roughness(0.0)


def test_vectors_have_no_neighbours() -> None:
    with pytest.raises(RecollectError, match=r"attack\.variation_weight is for images"):
        built((24,), variation_weight=0.1)
