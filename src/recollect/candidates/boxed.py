"""Candidates that are images: no value below 0 or above 1 once the mean of the training set is added."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from recollect.candidates.pixels import Pixels
from recollect.core import Variables


@dataclass(frozen=True)
class Boxed(Pixels):
    """``x = clamp(u, -mean, 1 - mean)``, and ``u`` takes the steps that ``x`` would (Nesterov 2009, dual averaging).

    A drawing is at the ends of its range nearly everywhere, and so is a candidate that may not leave it: what would be
    noise on paper is exactly white. ``u`` remembers how far it was pushed beyond, so a value that belongs to the end
    stays there. The mean is one image that everybody needs who uses a network trained on centred images.
    """

    mean: Float[Tensor, "*sample"] = field(kw_only=True)

    def decode(self, variables: Variables) -> Float[Tensor, "T m ..."]:
        return torch.minimum(torch.maximum(variables["x"], -self.mean), 1 - self.mean)
