"""Activation maximisation, also known as model inversion: the baseline of Haim 2022, section 5.4."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from recollect.core import Target, Terms, TrialRng, Variables
from recollect.objectives.cotangents import Direction, binary


@dataclass(frozen=True)
class ActivationMaximisation:
    """Each candidate climbs the output of its label, or with one output and label -1 descends it, on its own.

    ``loss = - sum_i <u_i, Phi(x_i)>``: candidates do not interact, so a candidate's path does not depend on m.
    """

    smoothing: Float[Tensor, " T"]
    direction: Direction = binary

    def init(self, rng: TrialRng) -> Variables:
        del rng
        return {}

    def __call__(
        self, target: Target, x: Float[Tensor, "T m ..."], labels: Int[Tensor, " m"], variables: Variables
    ) -> Terms:
        del variables
        outputs, _ = target.linearise(x, self.smoothing)
        return {"activation": -(outputs * self.direction(labels, outputs)).sum(dim=(1, 2))}

    def gradient(
        self, target: Target, x: Float[Tensor, "T m ..."], labels: Int[Tensor, " m"], variables: Variables
    ) -> tuple[Float[Tensor, "T m ..."], Variables]:
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            total = self(target, x, labels, variables)["activation"].sum()
        return torch.autograd.grad(total, x)[0], {}

    def in_smaller_chunks(self) -> None:
        return None

    def for_trials(self, chosen: Int[Tensor, " k"]) -> ActivationMaximisation:
        return replace(self, smoothing=self.smoothing[chosen])
