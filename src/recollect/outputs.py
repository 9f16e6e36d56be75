"""What a trained network says of labelled samples: its outputs, its errors, and how far each sample is from one."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from recollect.core import RecollectError
from recollect.data import TaskData
from recollect.zoo.losses import margins, wrong_class, wrong_sign

Meaning = Literal["output", "margin"]
"""What stands for a sample's output: the only output itself, or the margin of its class among several."""

_AT_ONCE = 500
"""Samples evaluated together: what a convolution keeps of ten thousand would not fit."""


@torch.no_grad()
def network_outputs(net: nn.Module, x: Float[Tensor, "n ..."]) -> Float[Tensor, "n C"]:
    """``Phi(x)``; a network that returns one number without an axis for it has C = 1."""
    dtype = next(net.parameters()).dtype
    return torch.cat([net(part.to(dtype)).reshape(len(part), -1) for part in x.split(_AT_ONCE)])


def require_outputs(outputs: int, data: TaskData) -> None:
    """Labels of +-1 belong to one output, C classes to C of them."""
    if outputs == (data.classes or 1):
        return
    labels = "labels of +-1" if data.classes is None else f"{data.classes} classes"
    advice = "task = 'classes'" if outputs > 1 else "a binary task"
    raise RecollectError(
        f"the network has {outputs} output{'s' if outputs > 1 else ''}, the data have {labels}; give the data it was "
        f"trained on, with {advice}."
    )


def error_rate(net: nn.Module, data: TaskData) -> float:
    """Share of wrong labels: by sign for one output, by the largest for several."""
    wrong = wrong_sign if data.classes is None else wrong_class
    return float(wrong(network_outputs(net, data.x), data.y).double().mean())


def sample_outputs(net: nn.Module, data: TaskData) -> tuple[Float[Tensor, " n"], Meaning]:
    """One number for each sample: the abscissa of Haim 2022, Fig. 4, and of Buzaglo 2023, Fig. 2."""
    outputs = network_outputs(net, data.x)
    require_outputs(outputs.shape[1], data)
    if data.classes is None:
        return outputs[:, 0], "output"
    return margins(outputs, data.y), "margin"
