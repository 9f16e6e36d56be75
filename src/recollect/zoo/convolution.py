"""Convolutional networks to practise on: ``Conv(k, channels) - hidden - outputs`` of Buzaglo 2023, appendix F."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveInt
from torch import Tensor, nn

from recollect.core import RecollectError


class ConvArchitecture(BaseModel):
    """One convolution without padding, then Linear layers without bias, ReLU between all of them.

    A kernel as large as the image makes it a perceptron whose first layer has ``channels`` units.
    ``bias="first"`` is that of the convolution; the network is homogeneous with and without. ``first_layer_scale``
    draws the convolution from ``scale * N(0, 1)``; with ``"standard"`` it has PyTorch's own initialisation.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["conv"] = "conv"
    kernel: PositiveInt = 3
    channels: PositiveInt = 32
    hidden: tuple[PositiveInt, ...] = Field(default=(1000,), min_length=1)
    outputs: PositiveInt | None = None
    """Follows from the task when left out."""
    bias: Literal["first", "none"] = "first"
    first_layer_scale: Annotated[float, Field(gt=0)] | Literal["standard"] = "standard"


class ConvNet(nn.Module):
    """Conv2d, ReLU, Flatten, then Linear layers with ReLU between them."""

    is_plain_chain = True

    def __init__(self, architecture: ConvArchitecture, sample_shape: tuple[int, ...]) -> None:
        super().__init__()
        kernel, channels = architecture.kernel, architecture.channels
        inputs, height, width = _image_shape(sample_shape, kernel)
        features = channels * (height - kernel + 1) * (width - kernel + 1)
        widths = (features, *architecture.hidden, architecture.outputs or 1)
        parts: list[nn.Module] = [
            nn.Conv2d(inputs, channels, kernel, bias=architecture.bias == "first"),
            nn.ReLU(),
            nn.Flatten(),
        ]
        for before, after in pairwise(widths):
            parts += [nn.Linear(before, after, bias=False), nn.ReLU()]
        self.layers = nn.Sequential(*parts[:-1])

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


def _image_shape(sample_shape: tuple[int, ...], kernel: int) -> tuple[int, int, int]:
    if len(sample_shape) != 3:
        raise RecollectError(
            f"a convolution needs images of shape [channels, height, width], the samples have {list(sample_shape)}; "
            "set model.kind to mlp."
        )
    channels, height, width = sample_shape
    if kernel > min(height, width):
        raise RecollectError(
            f"model.kernel = {kernel} is larger than the images of {height} x {width}; give at most "
            f"{min(height, width)}."
        )
    return channels, height, width
