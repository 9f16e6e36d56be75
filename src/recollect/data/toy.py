"""The two-dimensional experiment: small enough to plot every sample and every candidate."""

from __future__ import annotations

import math

import torch

from recollect.core import RecollectError
from recollect.data.tasks import TaskData


def circle(n: int = 20) -> TaskData:
    """Points ``(cos(2 pi k / n), sin(2 pi k / n))`` with labels +1, -1, +1, ... (Haim 2022, section 4).

    >>> circle(4).y.tolist()
    [1, -1, 1, -1]
    """
    if n < 2 or n % 2:
        raise RecollectError(
            f"n = {n} points cannot alternate in label around a circle; give an even number of at least 2"
        )
    indices = torch.arange(n)
    angle = indices.to(torch.float64) * (2 * math.pi / n)
    points = torch.stack([angle.cos(), angle.sin()], dim=1).to(torch.float32)
    return TaskData(x=points, y=1 - 2 * (indices % 2), images=points, mean=torch.zeros(2), indices=indices)
