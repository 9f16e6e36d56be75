"""The shape of one input, from the network alone: the first layer says most, trials without memory say the rest."""

from __future__ import annotations

import copy

import torch
from torch import nn

from recollect.core import RecollectError
from recollect.loading.usable import in_evaluation_mode

_LONGEST_SIDE = 320


def shape_from_first_layer(net: nn.Module) -> tuple[int, ...]:
    """``(d,)`` before a Linear layer; channels and the one side length that fits before a convolution.

    Images are taken to be square. Where several side lengths fit, as with global pooling, the network does not say.

    >>> shape_from_first_layer(nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 6 * 6, 1)))
    (3, 8, 8)
    """
    for part in net.modules():
        if isinstance(part, nn.Linear):
            return (part.in_features,)
        if isinstance(part, nn.Conv1d | nn.Conv2d | nn.Conv3d):
            axes = len(part.kernel_size)
            return (part.in_channels, *(_side(net, part.in_channels, axes),) * axes)
    raise RecollectError(
        "the first layer of the network does not tell the shape of an input; give it with --shape, such as 1,28,28."
    )


def _side(net: nn.Module, channels: int, axes: int) -> int:
    # Tensors on this device have a shape and take no memory.
    empty = copy.deepcopy(net).to("meta")
    longest = _LONGEST_SIDE if axes < 3 else 64
    fitting = [side for side in range(1, longest + 1) if _fits(empty, (channels, *(side,) * axes))]
    if len(fitting) != 1:
        several = f"sides of {fitting[0]} to {fitting[-1]} fit" if fitting else "no square image fits"
        raise RecollectError(
            f"the network alone does not tell the size of an input, {several}; give its shape, such as "
            f"--shape {channels},28,28, or data."
        )
    return fitting[0]


def _fits(empty: nn.Module, shape: tuple[int, ...]) -> bool:
    try:
        with in_evaluation_mode(empty), torch.no_grad():
            empty(torch.empty(2, *shape, device="meta", dtype=next(empty.parameters()).dtype))
    except Exception:  # a network of the user's own may raise anything
        return False
    return True
