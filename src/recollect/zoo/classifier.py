"""An ordinary image classifier: convolutions, batch norm, dropout, leaky ReLU and a fully connected head (TLDR 2024).

Nothing about it is homogeneous and nothing drives it to memorise: the network people really train.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, PositiveInt
from torch import Tensor, nn

from recollect.core import RecollectError

_SMALLEST_SIDE = 16
_CHANNELS = (1, 3)


class ClassifierArchitecture(BaseModel):
    """Blocks of ``Conv(3x3) - batch norm - leaky ReLU - mean of 2x2 - dropout`` halve the image; then two Linear.

    The paper gives no sizes. Pooling, by the mean or the maximum alike, is worth five points of test accuracy on 1,000
    digits against convolutions with strides. ``head_dropout`` acts before the last layer.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["classifier"] = "classifier"
    channels: tuple[PositiveInt, ...] = Field(default=(32, 64, 128), min_length=1, max_length=4)
    hidden: PositiveInt = 128
    outputs: PositiveInt | None = None
    """Follows from the task when left out."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    head_dropout: float = Field(default=0.3, ge=0, lt=1)
    slope: float = Field(default=0.1, ge=0, lt=1)
    """Of leaky ReLU below zero."""


class Classifier(nn.Module):
    """Images in [0, 1] of 1 or 3 channels and at least 16 x 16 pixels to one output per class.

    >>> net = Classifier(ClassifierArchitecture(outputs=10), (1, 28, 28)).eval()
    >>> net(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 10])
    """

    def __init__(self, architecture: ClassifierArchitecture, sample_shape: tuple[int, ...]) -> None:
        super().__init__()
        channels, height, width = _image_shape(sample_shape)
        blocks = [_block(*pair, architecture) for pair in pairwise((channels, *architecture.channels))]
        halvings = 2 ** len(blocks)
        inner = architecture.channels[-1] * math.ceil(height / halvings) * math.ceil(width / halvings)
        self.convolutions = nn.Sequential(*blocks)
        self.hidden = nn.Sequential(
            nn.Flatten(),
            nn.Linear(inner, architecture.hidden),
            nn.LeakyReLU(architecture.slope),
            nn.Dropout(architecture.head_dropout),
        )
        self.head = nn.Linear(architecture.hidden, architecture.outputs or 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.hidden(self.convolutions(x)))


def build_classifier(architecture: ClassifierArchitecture, sample_shape: tuple[int, ...], seed: int) -> Classifier:
    """A freshly initialised classifier, in float32; the same seed gives the same weights on every device."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Classifier(architecture, sample_shape)


def _block(before: int, after: int, architecture: ClassifierArchitecture) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(before, after, kernel_size=3, padding=1, bias=False),  # batch norm has the bias
        nn.BatchNorm2d(after),
        nn.LeakyReLU(architecture.slope),
        nn.AvgPool2d(2, ceil_mode=True),
        nn.Dropout2d(architecture.dropout),
    )


def takes_images(sample_shape: tuple[int, ...]) -> bool:
    """Whether samples of this shape are images that such a classifier can have."""
    return len(sample_shape) == 3 and sample_shape[0] in _CHANNELS and min(sample_shape[1:]) >= _SMALLEST_SIDE


def _image_shape(sample_shape: tuple[int, ...]) -> tuple[int, int, int]:
    if not takes_images(sample_shape):
        raise RecollectError(
            f"a classifier takes images of 1 or 3 channels and at least {_SMALLEST_SIDE} x {_SMALLEST_SIDE} pixels, "
            f"got samples of shape {list(sample_shape)}; choose model.kind = 'mlp' for these."
        )
    return sample_shape[0], sample_shape[1], sample_shape[2]
