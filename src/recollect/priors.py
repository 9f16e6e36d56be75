"""What is known about samples and multipliers before the attack. Each returns one number per trial."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, relu

from recollect.core import per_trial


@dataclass(frozen=True)
class Box:
    """``weight * sum relu(x - high)^2 + relu(low - x)^2``: pixels of mean-centred images stay within [-1, 1]."""

    weight: float = 1.0
    low: float = -1.0
    high: float = 1.0

    def __call__(self, x: Float[Tensor, "T m ..."]) -> Float[Tensor, " T"]:
        return self.weight * self._outside(x).flatten(1).square().sum(dim=1)

    def gradient(self, x: Float[Tensor, "T m ..."]) -> Float[Tensor, "T m ..."]:
        return 2 * self.weight * self._outside(x)

    def _outside(self, x: Tensor) -> Tensor:
        return x - x.clamp(self.low, self.high)


def dual_floor(duals: Float[Tensor, "T m"], dual_min: Float[Tensor, " T"]) -> Float[Tensor, " T"]:
    """``sum relu(lambda_min - lambda_i)^2``: multipliers below the floor are pushed up (Haim 2022, appendix B.2)."""
    return relu(per_trial(dual_min, duals) - duals).square().sum(dim=1)


def dual_floor_gradient(duals: Float[Tensor, "T m"], dual_min: Float[Tensor, " T"]) -> Float[Tensor, "T m"]:
    return -2 * relu(per_trial(dual_min, duals) - duals)
