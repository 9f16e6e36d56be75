"""What distinguishes the tasks: the direction in which each candidate sends its multiplier through the network.

Every KKT variant is the one residual ``theta - (1/m) sum_i <c_i, dPhi(x_i)/dtheta>`` with ``c_i = lambda_i u_i``; a
task is a choice of ``u``. A direction never differentiates through the outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

Direction = Callable[[Tensor, Tensor], Tensor]
"""``(labels [m], outputs [T, m, C]) -> [T, m, C]``"""


@dataclass(frozen=True)
class Task:
    """What a network was trained for, as far as the attack must know it.

    ``margin`` is the direction of the KKT condition, ``activation`` the one in which activation maximisation climbs.
    Multipliers of classifiers are not negative; those of regression stand for ``-loss' / weight decay``, of any sign.
    """

    margin: Direction
    activation: Direction
    free_sign: bool = False


def binary(labels: Int[Tensor, " m"], outputs: Float[Tensor, "T m 1"]) -> Float[Tensor, "T m 1"]:
    """``u_i = y_i`` for labels of +-1 and one output (Haim 2022, Eq. 2)."""
    return labels.to(outputs.dtype).unsqueeze(-1).expand_as(outputs)


def own_class(labels: Int[Tensor, " m"], outputs: Float[Tensor, "T m C"]) -> Float[Tensor, "T m C"]:
    """``u_i = e_{y_i}``"""
    return _is_class(labels, outputs).to(outputs.dtype).expand_as(outputs)


def multiclass(labels: Int[Tensor, " m"], outputs: Float[Tensor, "T m C"]) -> Float[Tensor, "T m C"]:
    """``u_i = e_{y_i} - e_{j_i}``, with ``j_i`` the best wrong class of candidate i now (Buzaglo 2023, section 4).

    >>> multiclass(torch.tensor([0]), torch.tensor([[[5.0, 1.0, 2.0]]])).tolist()
    [[[1.0, 0.0, -1.0]]]
    """
    own = _is_class(labels, outputs)
    best_wrong = outputs.masked_fill(own, -torch.inf).argmax(dim=-1)
    return own.to(outputs.dtype) - _is_class(best_wrong, outputs).to(outputs.dtype)


def regression(labels: Int[Tensor, " m"], outputs: Float[Tensor, "T m 1"]) -> Float[Tensor, "T m 1"]:
    """``u_i = 1``: the multiplier says by its sign on which side of its label an output lies (Buzaglo 2023, sec. 5)."""
    del labels
    return torch.ones_like(outputs)


TASKS = {
    "binary": Task(binary, binary),
    "multiclass": Task(multiclass, own_class),
    "regression": Task(regression, binary, free_sign=True),
}


def balanced_labels(m: int, outputs: int) -> Int[Tensor, " m"]:
    """Equal shares of +1 and -1 for one output, of 0, ..., C-1 for several; what is left over goes to the first.

    >>> balanced_labels(5, 1).tolist(), balanced_labels(5, 3).tolist()
    ([1, 1, 1, -1, -1], [0, 0, 1, 1, 2])
    """
    classes = max(2, outputs)
    share = torch.tensor([m // classes + (index < m % classes) for index in range(classes)])
    place = torch.arange(classes).repeat_interleave(share)
    return 1 - 2 * place if outputs == 1 else place


def _is_class(labels: Int[Tensor, "*T m"], outputs: Float[Tensor, "T m C"]) -> Tensor:
    return labels.unsqueeze(-1) == torch.arange(outputs.shape[-1], device=outputs.device)
