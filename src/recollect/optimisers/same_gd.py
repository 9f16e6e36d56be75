"""Symmetry-aware memory-enhanced gradient descent: SAME-GD of Elbaz 2024, algorithm 1.

Gradient descent on an invariant objective never leaves what a symmetry fixes (proposition 2). SAME-GD now and then adds
the asymmetric part of an older point, which does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from recollect.core import Copies, Variables, per_trial
from recollect.groups import Group
from recollect.optimisers.momentum import Momentum

Memory = Literal["squared_gradient", "gradient"]
MixSchedule = Literal["constant", "to_one"]


@dataclass(frozen=True)
class SameGD:
    """Steps of ``descent``, and every so often, for the candidates ``x`` alone:

    every ``update_every`` steps, instead of a step: ``x <- a_t x + (1 - a_t)(x_prev - gbar x_prev)``;
    every ``save_every`` steps: ``x_prev <- b_t x + (1 - b_t) (grad L(x))^2``, the elementwise square as printed, or the
    plain gradient. The schedule ``to_one`` lets ``a_t`` and ``b_t`` grow linearly to 1 at the last step (the paper
    leaves it open). With ``descent`` of momentum 0 this is the printed algorithm; velocities go on through a mix.
    """

    descent: Momentum
    group: Group
    steps: int
    update_every: int = 100
    save_every: int = 50
    alpha: float = 0.9
    beta: float = 0.9
    schedule: MixSchedule = "constant"
    memory: Memory = "squared_gradient"

    @property
    def copies(self) -> Copies:
        return Copies(kept=3, made=10)

    def init(self, variables: Variables) -> Variables:
        x = variables["x"]
        return self.descent.init(variables) | {"x_prev": x.clone(), "steps": x.new_zeros(len(x))}

    def update(
        self, variables: Variables, grads: Variables, state: Variables, rate: Tensor
    ) -> tuple[Variables, Variables]:
        x, done = variables["x"], state["steps"]
        # The save after step t needs the gradient there, which is known when step t + 1 begins.
        kept = grads["x"].square() if self.memory == "squared_gradient" else grads["x"]
        saved = _mixed(self._share(self.beta, done), x, kept)
        due = (done > 0) & (torch.remainder(done, self.save_every) == 0)
        previous = torch.where(per_trial(due, x), saved, state["x_prev"])
        moved, velocity = self.descent.update(variables, grads, state, rate)
        step = done + 1
        mixed = _mixed(self._share(self.alpha, step), x, self.group.asymmetric(previous))
        mixes = torch.remainder(step, self.update_every) == 0
        moved["x"] = torch.where(per_trial(mixes, x), mixed, moved["x"])
        return moved, velocity | {"x_prev": previous, "steps": step}

    def displacement(self, state: Variables, rate: Tensor) -> Variables:
        """The next descent step, and a mix divided among the steps between two of them."""
        ahead = self.descent.displacement({name: state[name] for name in self.descent.lr if name in state}, rate)
        away = (1 - self._share(self.alpha, state["steps"])) / self.update_every
        mix = per_trial(away, state["x_prev"]) * self.group.asymmetric(state["x_prev"])
        return ahead | {"x": ahead["x"].abs() + mix.abs()}

    def for_trials(self, chosen: Int[Tensor, " k"]) -> SameGD:
        return replace(self, descent=self.descent.for_trials(chosen))

    def _share(self, start: float, step: Float[Tensor, " T"]) -> Float[Tensor, " T"]:
        if self.schedule == "constant":
            return torch.full_like(step, start)
        return start + (1 - start) * step / self.steps


def _mixed(share: Float[Tensor, " T"], x: Tensor, other: Tensor) -> Tensor:
    return per_trial(share, x) * x + per_trial(1 - share, x) * other
