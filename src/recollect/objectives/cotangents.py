"""What distinguishes the tasks: the cotangent each candidate sends back through the network.

Every KKT variant is the one residual ``theta - (1/m) sum_i <c_i, dPhi(x_i)/dtheta>``; a task is a choice of
``c``. A cotangent never differentiates through the outputs.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

Cotangent = Callable[[Tensor, Tensor, Tensor], Tensor]
"""``(duals [T, m], labels [m], outputs [T, m, C]) -> [T, m, C]``"""


def binary(
    duals: Float[Tensor, "T m"], labels: Int[Tensor, " m"], outputs: Float[Tensor, "T m 1"]
) -> Float[Tensor, "T m 1"]:
    """``c_i = lambda_i y_i`` for labels of +-1 and one output (Haim 2022, Eq. 2)."""
    del outputs
    return (duals * labels).unsqueeze(-1)


def binary_labels(m: int) -> Int[Tensor, " m"]:
    """Equal shares of +1 and -1; for an odd m the first class gets one more."""
    return torch.where(torch.arange(m) < (m + 1) // 2, 1, -1)
