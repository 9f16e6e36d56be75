"""Activation maximisation, also known as model inversion: the baseline of Haim 2022, section 5.4."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from recollect.core import Target, Terms, TrialRng, Variables


@dataclass(frozen=True)
class ActivationMaximisation:
    """Each candidate climbs (label +1) or descends (label -1) the network's output, on its own.

    ``loss = - sum_i y_i Phi(x_i)``: candidates do not interact, so a candidate's path does not depend on m.
    """

    smoothing: Float[Tensor, " T"]

    def init(self, rng: TrialRng) -> Variables:
        del rng
        return {}

    def __call__(
        self, target: Target, x: Float[Tensor, "T m ..."], labels: Int[Tensor, " m"], variables: Variables
    ) -> Terms:
        del variables
        outputs, _ = target.linearise(x, self.smoothing)
        return {"activation": -(outputs[..., 0] * labels).sum(dim=1)}

    def gradient(
        self, target: Target, x: Float[Tensor, "T m ..."], labels: Int[Tensor, " m"], variables: Variables
    ) -> tuple[Float[Tensor, "T m ..."], Variables]:
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            total = self(target, x, labels, variables)["activation"].sum()
        return torch.autograd.grad(total, x)[0], {}

    def in_smaller_chunks(self) -> None:
        return None
