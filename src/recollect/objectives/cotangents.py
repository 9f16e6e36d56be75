"""What distinguishes the tasks: the direction in which each candidate sends its multiplier through the network.

Every KKT variant is the one residual ``theta - (1/m) sum_i <c_i, dPhi(x_i)/dtheta>`` with ``c_i = lambda_i u_i``; a
task is a choice of ``u``. A direction never differentiates through the outputs.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

Direction = Callable[[Tensor, Tensor], Tensor]
"""``(labels [m], outputs [T, m, C]) -> [T, m, C]``"""


def binary(labels: Int[Tensor, " m"], outputs: Float[Tensor, "T m 1"]) -> Float[Tensor, "T m 1"]:
    """``u_i = y_i`` for labels of +-1 and one output (Haim 2022, Eq. 2)."""
    return labels.to(outputs.dtype).unsqueeze(-1).expand_as(outputs)


def binary_labels(m: int) -> Int[Tensor, " m"]:
    """Equal shares of +1 and -1; for an odd m the first class gets one more."""
    return torch.where(torch.arange(m) < (m + 1) // 2, 1, -1)
