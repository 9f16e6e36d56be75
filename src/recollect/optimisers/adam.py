"""Adam, a rate per variable and per trial: for variables of very different scales, such as a generator's weights."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from recollect.core import Copies, Variables, per_trial

_COUNT = "count"
_MEAN, _SQUARE = "mean of ", "mean square of "


@dataclass(frozen=True)
class Adam:
    """``x <- x - rate lr m' / (sqrt(v') + epsilon)``: torch.optim.Adam with rates per trial (Kingma and Ba 2015).

    ``m' = m / (1 - beta_1^t)`` and ``v' = v / (1 - beta_2^t)`` correct the running means of gradient and squared
    gradient for their start at zero. ``lr`` maps a variable's name to its rates ``[T]``. The count ``t`` is part of the
    state, one per trial and in floating point, as everything in a state is.

    >>> adam = Adam({"x": torch.tensor([0.1])})
    >>> x = {"x": torch.tensor([[1.0, -2.0]])}
    >>> moved, _ = adam.update(x, {"x": torch.tensor([[5.0, -0.01]])}, adam.init(x), torch.ones(()))
    >>> moved["x"].round(decimals=3)
    tensor([[ 0.9000, -1.9000]])
    """

    lr: dict[str, Float[Tensor, " T"]]
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8

    @property
    def copies(self) -> Copies:
        return Copies(kept=3, made=7)

    def init(self, variables: Variables) -> Variables:
        means = {_MEAN + name: torch.zeros_like(value) for name, value in variables.items()}
        squares = {_SQUARE + name: torch.zeros_like(value) for name, value in variables.items()}
        first = next(iter(variables.values()))
        return means | squares | {_COUNT: first.new_zeros(len(first))}

    def update(
        self, variables: Variables, grads: Variables, state: Variables, rate: Tensor
    ) -> tuple[Variables, Variables]:
        means = {_MEAN + name: torch.lerp(grads[name], state[_MEAN + name], self.betas[0]) for name in variables}
        squares = {
            _SQUARE + name: torch.lerp(grads[name].square(), state[_SQUARE + name], self.betas[1]) for name in variables
        }
        after = means | squares | {_COUNT: state[_COUNT] + 1}
        ahead = self.displacement(after, rate)
        return {name: value - ahead[name] for name, value in variables.items()}, after

    def displacement(self, state: Variables, rate: Tensor) -> Variables:
        """The last step once more; before the first step nothing moves."""
        names = [name.removeprefix(_MEAN) for name in state if name.startswith(_MEAN)]
        # Where no step was taken both means are zero, and a count of one leaves them so.
        count = state[_COUNT].clamp(min=1)
        towards, size = (_weight_so_far(beta, count) for beta in self.betas)
        return {
            name: per_trial(self.lr[name] * rate / towards, state[_MEAN + name])
            * state[_MEAN + name]
            / ((state[_SQUARE + name] / per_trial(size, state[_SQUARE + name])).sqrt() + self.epsilon)
            for name in names
        }

    def for_trials(self, chosen: Int[Tensor, " k"]) -> Adam:
        return replace(self, lr={name: rates[chosen] for name, rates in self.lr.items()})


def _weight_so_far(beta: float, count: Float[Tensor, " T"]) -> Float[Tensor, " T"]:
    """``1 - beta^t``, to full precision where ``beta`` is near 1."""
    return -torch.expm1(count * math.log(beta)) if beta else torch.ones_like(count)
