"""Made-up data: the two-dimensional experiment, small enough to plot, and clouds of points for networks on sets."""

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


def clouds(n: int = 20, held_out: bool = False, points: int = 3, values: int = 64) -> TaskData:
    """Sets of points drawn from N(0, I), with labels +1, -1, +1, ...: nothing to learn but by heart.

    Held-out clouds are drawn from the same distribution and are others.

    >>> clouds(4).x.shape, bool((clouds(4).x == clouds(4, held_out=True).x).any())
    (torch.Size([4, 3, 64]), False)
    """
    if n < 2 or n % 2:
        raise RecollectError(
            f"n = {n} clouds cannot be split into two equal classes; give an even number of at least 2"
        )
    generator = torch.Generator().manual_seed(int(held_out))
    x = torch.randn(n, points, values, generator=generator)
    indices = torch.arange(n)
    return TaskData(x=x, y=1 - 2 * (indices % 2), images=x, mean=torch.zeros(points, values), indices=indices)
