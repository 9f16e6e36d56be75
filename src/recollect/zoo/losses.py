"""Training losses, each per sample: ``(outputs [n, C], labels [n]) -> [n]``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

LossName = Literal["logistic", "cross_entropy", "l2", "l2.5", "huber"]


def logistic(outputs: Float[Tensor, "n 1"], labels: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
    """``log(1 + exp(-y Phi(x)))`` for labels of +-1: the exponential-tailed loss the theory asks for."""
    return F.softplus(-labels * outputs[:, 0])


def cross_entropy(outputs: Float[Tensor, "n C"], labels: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
    """``log sum_j exp(Phi_j(x)) - Phi_y(x)`` for labels 0, ..., C - 1 (Buzaglo 2023, section 4)."""
    return F.cross_entropy(outputs, labels, reduction="none")


def l2(outputs: Float[Tensor, "n 1"], labels: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
    """``(Phi(x) - y)^2`` for labels of +-1 (Buzaglo 2023, section 5)."""
    return (outputs[:, 0] - labels).square()


def l2_5(outputs: Float[Tensor, "n 1"], labels: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
    """``|Phi(x) - y|^2.5`` for labels of +-1 (Buzaglo 2023, section 5)."""
    return (outputs[:, 0] - labels).abs().pow(2.5)


def huber(outputs: Float[Tensor, "n 1"], labels: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
    """``z^2 / 2`` up to ``|z| = 1``, then ``|z| - 1/2``, of ``z = Phi(x) - y`` (Buzaglo 2023, section 5)."""
    return F.huber_loss(outputs[:, 0], labels.to(outputs), reduction="none")


def wrong_sign(outputs: Float[Tensor, "n 1"], labels: Int[Tensor, " n"]) -> Bool[Tensor, " n"]:
    """Which samples lie on the other side of zero than their label of +-1, or on it."""
    return outputs[:, 0] * labels <= 0


def wrong_class(outputs: Float[Tensor, "n C"], labels: Int[Tensor, " n"]) -> Bool[Tensor, " n"]:
    """Whose class has not the largest output of all; a tie is wrong, as an output of zero is for signs."""
    return margins(outputs, labels) <= 0


def margins(outputs: Float[Tensor, "n C"], labels: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
    """``Phi_y(x) - max_{j != y} Phi_j(x)`` (Buzaglo 2023, section 4).

    >>> margins(torch.tensor([[1.0, 4.0, 2.0], [3.0, 0.0, 5.0]]), torch.tensor([1, 0])).tolist()
    [2.0, -2.0]
    """
    own = labels.unsqueeze(1)
    others = outputs.scatter(1, own, -torch.inf).amax(dim=1)
    return outputs.gather(1, own).squeeze(1) - others


@dataclass(frozen=True)
class Loss:
    """A loss, and whether it is of ``"signs"``, one output and labels of +-1, or of ``"classes"``, an output each."""

    per_sample: Callable[[Tensor, Tensor], Tensor]
    of: Literal["signs", "classes"]

    @property
    def wrong(self) -> Callable[[Tensor, Tensor], Tensor]:
        """How errors are counted."""
        return wrong_sign if self.of == "signs" else wrong_class


LOSSES: dict[LossName, Loss] = {
    "logistic": Loss(logistic, "signs"),
    "cross_entropy": Loss(cross_entropy, "classes"),
    "l2": Loss(l2, "signs"),
    "l2.5": Loss(l2_5, "signs"),
    "huber": Loss(huber, "signs"),
}
