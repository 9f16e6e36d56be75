"""Training losses, each per sample: ``(outputs [n, C], labels [n]) -> [n]``."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F


def logistic(outputs: Float[Tensor, "n 1"], labels: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
    """``log(1 + exp(-y Phi(x)))`` for labels of +-1: the exponential-tailed loss the theory asks for."""
    return F.softplus(-labels * outputs[:, 0])


LOSSES = {"logistic": logistic}
