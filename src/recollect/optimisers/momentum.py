"""Stochastic gradient descent's update with momentum, a rate per variable and per trial."""

from __future__ import annotations

from dataclasses import dataclass, replace

from jaxtyping import Float, Int
from torch import Tensor

from recollect.core import Copies, Variables, per_trial


@dataclass(frozen=True)
class Momentum:
    """``v <- mu v + g``, ``x <- x - rate lr v``: torch.optim.SGD with each trial's own rates.

    ``lr`` maps a variable's name to its rates ``[T]``.
    """

    lr: dict[str, Float[Tensor, " T"]]
    momentum: float = 0.9

    @property
    def copies(self) -> Copies:
        return Copies()

    def init(self, variables: Variables) -> Variables:
        return {name: value.new_zeros(value.shape) for name, value in variables.items()}

    def update(
        self, variables: Variables, grads: Variables, state: Variables, rate: Tensor
    ) -> tuple[Variables, Variables]:
        velocity = {name: self.momentum * state[name] + grads[name] for name in variables}
        moved = {
            name: value - per_trial(self.lr[name] * rate, value) * velocity[name] for name, value in variables.items()
        }
        return moved, velocity

    def displacement(self, state: Variables, rate: Tensor) -> Variables:
        return {name: per_trial(self.lr[name] * rate, velocity) * velocity for name, velocity in state.items()}

    def for_trials(self, chosen: Int[Tensor, " k"]) -> Momentum:
        return replace(self, lr={name: rates[chosen] for name, rates in self.lr.items()})
