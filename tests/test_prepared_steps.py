"""Steps prepared for a device, recorded and compiled, against the same steps taken one by one on the CPU in float64.

Without a GPU only the CPU's way of stepping is compared, which holds that every case can be built.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from tests.cases import NEEDS_CUDA, chain
from tests.waiting import never_waits
from torch import nn

from recollect.build import build_problem
from recollect.config import AttackConfig, TrialSettings
from recollect.given import Given
from recollect.problem import Problem, State, initial_state
from recollect.stepping import matmul_precision, step, stepper
from recollect.symmetries import named_group
from recollect.zoo.classifier import ClassifierArchitecture, build_classifier
from recollect.zoo.symmetrised import Symmetrised

IMAGE, STEPS = (1, 16, 16), 5
TRIALS = (
    TrialSettings(lr_x=0.01, lr_duals=0.02, init_scale=0.5, dual_min=0.3, smoothing=20),
    TrialSettings(lr_x=0.002, lr_duals=0.05, init_scale=0.2, dual_min=0.1, smoothing=80),
)


@dataclass(frozen=True)
class Case:
    net: Callable[[], nn.Module]
    settings: dict[str, Any] = field(default_factory=dict)


def perceptron(outputs: int = 1) -> nn.Module:
    return chain((256, 24, 16, outputs), (True, False, False))


def averaged() -> nn.Module:
    return Symmetrised(perceptron(), named_group("flip", IMAGE))


def convolutional() -> nn.Module:
    torch.manual_seed(0)
    parts = (nn.Conv2d(1, 3, 5, bias=False), nn.ReLU(), nn.Flatten(), nn.Linear(3 * 12 * 12, 8), nn.ReLU())
    return nn.Sequential(*parts, nn.Linear(8, 1, bias=False)).to(torch.float64)


def classifier() -> nn.Module:
    return build_classifier(ClassifierArchitecture(channels=(4, 4), hidden=8, outputs=4), IMAGE, seed=0)


MOMENTUM = {"optimiser": "momentum", "schedule": "cosine"}
ADAM = {"optimiser": "adam", "schedule": "constant"}
GENERATOR = {"batch": 16, "width": 4, "latent": 4}

CASES = {
    "perceptron": Case(perceptron, MOMENTUM),
    "more candidates than units": Case(perceptron, MOMENTUM | {"candidates": 40}),
    "first layer alone, by Adam": Case(perceptron, ADAM | {"layer_weights": (1.0, 0.0, 0.0)}),
    "four classes": Case(lambda: perceptron(4), MOMENTUM),
    "row space": Case(perceptron, MOMENTUM | {"space": "row"}),
    "smooth candidates": Case(perceptron, ADAM | {"variation_weight": 0.1}),
    "smooth candidates in the row space": Case(perceptron, MOMENTUM | {"space": "row", "variation_weight": 0.1}),
    "in chunks": Case(perceptron, MOMENTUM | {"chunk": 5}),
    "in groups of trials": Case(perceptron, MOMENTUM | {"trials_at_once": 1}),
    "convolution": Case(convolutional, ADAM),
    "any module": Case(perceptron, MOMENTUM | {"target": "module"}),
    "activation maximisation": Case(perceptron, MOMENTUM | {"method": "activation"}),
    "average over a group": Case(averaged, MOMENTUM),
    "average over a group, row space": Case(averaged, MOMENTUM | {"space": "row"}),
    "inside an average, row space": Case(averaged, MOMENTUM | {"space": "row", "asymmetry": {"unfold": True}}),
    "average over a group, as any module": Case(averaged, MOMENTUM | {"target": "module"}),
    "candidates that are images": Case(averaged, ADAM | {"space": "box"}),
    "SAME-GD": Case(averaged, {"optimiser": "same_gd"}),
    "deep image prior": Case(averaged, ADAM | {"space": "dip", "dip": {"channels": 4}}),
    "inversion": Case(classifier, {"method": "generator", "generator": GENERATOR | {"mode": "inversion"}}),
    "reconstruction": Case(classifier, {"method": "generator", "generator": GENERATOR}),
}


def build(case: Case, device: str, compiled: str) -> Problem:
    given = {"candidates": 12, "steps": 50, "precision": "fp64", "trials": TRIALS, "compile": compiled}
    attack = AttackConfig.model_validate(given | case.settings)
    mean = Given(mean=torch.full(IMAGE, 0.4, dtype=torch.float64))
    return build_problem(case.net(), IMAGE, attack, seed=0, device=torch.device(device), given=mean)


def taken_one_by_one(case: Case) -> State:
    problem = build(case, "cpu", "off")
    state = initial_state(problem)
    for _ in range(STEPS):
        state = step(problem, state)
    return state


@pytest.mark.parametrize(
    ("device", "compiled"),
    [
        pytest.param("cpu", "off", id="cpu"),
        pytest.param("cuda", "off", id="recorded", marks=NEEDS_CUDA),
        pytest.param("cuda", "on", id="compiled and recorded", marks=NEEDS_CUDA),
    ],
)
@pytest.mark.parametrize("name", list(CASES))
def test_prepared_steps_are_the_same_steps(name: str, device: str, compiled: str) -> None:
    problem = build(CASES[name], device, compiled)
    state = initial_state(problem)
    with matmul_precision(problem.precision, problem.rng.device):
        state = stepper(problem, state)(state, STEPS)
    wanted = taken_one_by_one(CASES[name])
    assert bool(state.alive.all())
    for variable, value in wanted.variables.items():
        # The schedule's cosine is taken in float32, which a compiler rounds in its own way.
        torch.testing.assert_close(state.variables[variable].cpu(), value, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", list(CASES))
def test_no_step_waits_for_the_device(name: str) -> None:
    problem = build(CASES[name], "cpu", "off")
    state = step(problem, initial_state(problem))
    with never_waits():
        state = step(problem, state)
    assert bool(state.alive.all())


def test_what_waits_is_noticed() -> None:
    x = torch.randn(4)
    for waiting in (lambda: float(x.sum()), lambda: x[x > 0], x.unique, x.nonzero):
        with pytest.raises(AssertionError, match="waits for its result"), never_waits():
            waiting()
    with never_waits():
        assert x[torch.tensor([1, 1])].shape == (2,)
