"""How good a trial is, as far as someone without the training data can tell. Smaller is better."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from recollect.candidates.generator import Generator
from recollect.core import RecollectError, Target
from recollect.objectives import KKT
from recollect.problem import Problem, State

Score = Callable[[Problem, State], Float[Tensor, " T"]]


def first_layer_residual(problem: Problem, state: State) -> Float[Tensor, " T"]:
    """What the candidates leave unexplained of the first layer that can tell them apart.

    Later layers keep much of their initial noise, which no candidate explains. In the row space the layer is what
    the search sees of it. Ranks trials of momentum SGD; Adam's drive it below what the true data reach.
    """
    return layer_residual(problem, state, telling_layer(problem.target))


def telling_layer(target: Target) -> int:
    """The first layer with as many parameters as a sample has values, or the largest of all.

    A few small kernels are a handful of equations, which candidates satisfy that resemble nothing.
    """
    sizes = [sum(target.params[name].numel() for name in layer) for layer in target.layers]
    values = math.prod(target.sample_shape)
    return next((place for place, size in enumerate(sizes) if size >= values), sizes.index(max(sizes)))


@torch.no_grad()
def layer_residual(problem: Problem, state: State, place: int) -> Float[Tensor, " T"]:
    """``||theta_l - G_l|| / ||theta_l||``, with ``G_l = (1/m) sum_i <c_i, dPhi(x_i)/dtheta_l>``.

    Of the layer at ``place``, weights and bias together; 1 for no candidates at all.
    """
    objective, target = problem.objective, problem.target
    if not isinstance(objective, KKT):
        raise RecollectError("trials are ranked by a KKT residual, this attack has none; use attack.method = 'kkt'.")
    alone = replace(objective, layer_weights=tuple(float(place == other) for other in range(len(target.layers))))
    assert not isinstance(problem.candidates, Generator)
    inputs = problem.candidates.inputs(state.variables)
    squared = alone(target, inputs, problem.labels, state.variables)["stationarity"]
    size = torch.stack([target.params[name].square().sum() for name in target.layers[place]]).sum()
    return (squared / size).sqrt()


SCORES: dict[str, Score] = {"first_layer": first_layer_residual}
"""By the name in ``sweep.score``."""
