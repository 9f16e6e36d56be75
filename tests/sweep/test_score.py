"""The score of a trial against the same residual, one candidate's gradient at a time, in float64."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest
import torch
from tests.cases import NETWORKS, SAMPLE_SHAPE, chain
from tests.references import margin, published_output
from torch import Tensor, nn

from recollect.build import build_problem
from recollect.config import AttackConfig, TrialSettings
from recollect.core import RecollectError
from recollect.problem import initial_state
from recollect.sweep.score import SCORES, first_layer_residual, layer_residual, telling_layer
from recollect.sweep.settings import SweepConfig

CPU = torch.device("cpu")
TRIALS = (
    TrialSettings(init_scale=1.0, smoothing=5.0),
    TrialSettings(init_scale=0.2, smoothing=60.0),
    TrialSettings(init_scale=3.0, smoothing=200.0),
)


def by_hand(net: nn.Sequential, x: Tensor, duals: Tensor, labels: Tensor, alpha: float) -> float:
    first = list(next(part for part in net if isinstance(part, nn.Linear)).parameters())
    total = [torch.zeros_like(parameter) for parameter in first]
    for i in range(len(x)):
        reached = margin(published_output(net, x[i : i + 1], alpha)[0], int(labels[i]))
        for own, gradient in zip(total, torch.autograd.grad(reached, first), strict=True):
            own += duals[i] * gradient / len(x)
    theta = [parameter.detach() for parameter in first]
    left = sum(float((parameter - own).square().sum()) for parameter, own in zip(theta, total, strict=True))
    return (left / sum(float(parameter.square().sum()) for parameter in theta)) ** 0.5


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("changes", [{}, {"target": "module"}, {"chunk": 2}, {"trials_at_once": 1}], ids=str)
def test_the_score_is_the_relative_residual_of_the_first_layer(name: str, changes: dict) -> None:
    net = NETWORKS[name]()
    attack = AttackConfig(candidates=6, steps=1, precision="fp64", trials=TRIALS, **changes)
    problem = build_problem(net, SAMPLE_SHAPE, attack, seed=0, device=CPU)
    state = initial_state(problem)
    state = replace(state, variables=state.variables | {"duals": 20 * state.variables["duals"]})
    x, duals = problem.candidates.decode(state.variables), state.variables["duals"]
    expected = [by_hand(net, x[t], duals[t], problem.labels, TRIALS[t].smoothing) for t in range(3)]
    score = first_layer_residual(problem, state)
    torch.testing.assert_close(score, torch.tensor(expected, dtype=torch.float64), rtol=1e-10, atol=0)
    assert len(set(score.tolist())) == 3


def test_layer_weights_of_the_search_do_not_change_the_score() -> None:
    net = chain((12, 7, 5, 1), (True, False, False))
    scores = []
    for weights in (None, (0.5, 0.0, 3.0), (0.0, 1.0, 0.0)):
        attack = AttackConfig(candidates=6, steps=1, precision="fp64", trials=TRIALS, layer_weights=weights)
        problem = build_problem(net, SAMPLE_SHAPE, attack, seed=0, device=CPU)
        scores.append(first_layer_residual(problem, initial_state(problem)))
    assert torch.equal(scores[0], scores[1])
    assert torch.equal(scores[0], scores[2])


def test_an_attack_without_residual_has_no_score() -> None:
    attack = AttackConfig(method="activation", candidates=6, steps=1)
    problem = build_problem(chain((12, 7, 1), (True, False)), SAMPLE_SHAPE, attack, seed=0, device=CPU)
    with pytest.raises(RecollectError, match=r"attack\.method = 'kkt'"):
        first_layer_residual(problem, initial_state(problem))


def test_every_score_can_be_chosen() -> None:
    for name in SCORES:
        assert SweepConfig.model_validate({"score": name}).score == name


@pytest.mark.parametrize(("kernel", "place"), [(2, 1), (4, 0)])
@pytest.mark.parametrize("target", ["mlp", "module"])
def test_small_kernels_are_passed_over(target: Literal["mlp", "module"], kernel: int, place: int) -> None:
    """Two kernels of 2 x 2 are fewer numbers than a sample of 4 x 4; two of 4 x 4 are more."""
    net = nn.Sequential(
        nn.Conv2d(1, 2, kernel, bias=False), nn.ReLU(), nn.Flatten(), nn.Linear(2 * (5 - kernel) ** 2, 9), nn.ReLU()
    ).append(nn.Linear(9, 1))
    attack = AttackConfig(candidates=6, steps=1, precision="fp64", trials=TRIALS, target=target)
    problem = build_problem(net.double(), (1, 4, 4), attack, seed=0, device=CPU)
    state = initial_state(problem)
    assert telling_layer(problem.target) == place
    assert torch.equal(first_layer_residual(problem, state), layer_residual(problem, state, place))
