"""Candidates that are images: no value below 0 or above 1 once the mean of the training set is added."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from recollect.core import TrialRng, Variables, per_trial


@dataclass(frozen=True)
class Boxed:
    """``x = clamp(u, -mean, 1 - mean)``, and ``u`` takes the steps that ``x`` would (Nesterov 2009, dual averaging).

    A drawing is at the ends of its range nearly everywhere, and so is a candidate that may not leave it: what would be
    noise on paper is exactly white. ``u`` remembers how far it was pushed beyond, so a value that belongs to the end
    stays there. The mean is one image that everybody needs who uses a network trained on centred images.
    """

    candidates: int
    sample_shape: tuple[int, ...]
    init_scale: Float[Tensor, " T"]
    mean: Float[Tensor, "*sample"]

    @property
    def names(self) -> tuple[str, ...]:
        return ("x",)

    def init(self, rng: TrialRng) -> Variables:
        noise = rng.normal("x", (self.candidates, *self.sample_shape))
        return {"x": per_trial(self.init_scale, noise) * noise}

    def inputs(self, variables: Variables) -> Float[Tensor, "T m ..."]:
        return self.decode(variables)

    def decode(self, variables: Variables) -> Float[Tensor, "T m ..."]:
        return torch.minimum(torch.maximum(variables["x"], -self.mean), 1 - self.mean)

    def exposed(self, variables: Variables) -> tuple[Float[Tensor, "T m ..."], None]:
        return self.decode(variables), None

    def pull(
        self,
        variables: Variables,
        inputs_gradient: Tensor,
        sample_gradient: Tensor | None = None,
        which: Tensor | None = None,
    ) -> Variables:
        del variables, which
        return {"x": inputs_gradient if sample_gradient is None else inputs_gradient + sample_gradient}

    def for_trials(self, chosen: Int[Tensor, " k"]) -> Boxed:
        return replace(self, init_scale=self.init_scale[chosen])
