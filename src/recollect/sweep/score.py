"""How good a trial is, as far as someone without the training data can tell. Smaller is better."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from recollect.core import RecollectError
from recollect.objectives import KKT
from recollect.problem import Problem, State

Score = Callable[[Problem, State], Float[Tensor, " T"]]


@torch.no_grad()
def first_layer_residual(problem: Problem, state: State) -> Float[Tensor, " T"]:
    """``||theta_1 - G_1|| / ||theta_1||``, with ``G_1 = (1/m) sum_i <c_i, dPhi(x_i)/dtheta_1>``.

    What the candidates leave unexplained of the first layer, weights and bias together; 1 for no candidates at all.
    Later layers keep much of their initial noise, which no candidate explains. In the row space the layer is what
    the search sees of it. Ranks trials of momentum SGD; Adam's drive it below what the true data reach.
    """
    objective, target = problem.objective, problem.target
    if not isinstance(objective, KKT):
        raise RecollectError("trials are ranked by a KKT residual, this attack has none; use attack.method = 'kkt'.")
    first, *others = target.layers
    alone = replace(objective, layer_weights=(1.0, *(0.0 for _ in others)))
    inputs = problem.candidates.inputs(state.variables)
    squared = alone(target, inputs, problem.labels, state.variables)["stationarity"]
    size = torch.stack([target.params[name].square().sum() for name in first]).sum()
    return (squared / size).sqrt()


SCORES: dict[str, Score] = {"first_layer": first_layer_residual}
"""By the name in ``sweep.score``."""
