"""What is known about samples and multipliers before the attack. Each returns one number per trial."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, relu

from recollect.core import per_trial


def box(x: Float[Tensor, "T m ..."], low: float = -1.0, high: float = 1.0) -> Float[Tensor, " T"]:
    """``sum relu(x - high)^2 + relu(low - x)^2``: pixels of mean-centred images stay within [-1, 1]."""
    outside = relu(x - high) + relu(low - x)
    return outside.flatten(1).square().sum(dim=1)


def dual_floor(duals: Float[Tensor, "T m"], dual_min: Float[Tensor, " T"]) -> Float[Tensor, " T"]:
    """``sum relu(lambda_min - lambda_i)^2``: multipliers below the floor are pushed up (Haim 2022, appendix B.2)."""
    return relu(per_trial(dual_min, duals) - duals).square().sum(dim=1)
