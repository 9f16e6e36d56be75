"""Convolutional networks that are invariant by sharing weights: Cohen and Welling 2016, small enough to attack."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal

import torch
from jaxtyping import Float, Int
from pydantic import BaseModel, ConfigDict, Field, PositiveInt
from torch import Tensor, nn
from torch.nn import functional as F

from recollect.core import RecollectError
from recollect.symmetries import named_group


class GroupConvArchitecture(BaseModel):
    """Lifting convolution, one group convolution, mean over positions and elements, Linear layers; ReLU between all.

    ``bias="first"`` is that of the lifting convolution; the network is homogeneous with and without.
    ``first_layer_scale`` draws the lifting convolution from ``scale * N(0, 1)``.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["group_conv"] = "group_conv"
    group: Literal["flip", "klein4", "rotations", "d4"] = "rotations"
    kernel: int = Field(default=3, ge=2)
    """A single pixel looks the same from all sides."""
    channels: tuple[PositiveInt, PositiveInt] = (8, 16)
    hidden: tuple[PositiveInt, ...] = (64,)
    outputs: PositiveInt | None = None
    """Follows from the task when left out."""
    bias: Literal["first", "none"] = "first"
    first_layer_scale: Annotated[float, Field(gt=0)] | Literal["standard"] = "standard"


class GroupConvNet(nn.Module):
    """Feature maps carry one copy for each element of the group; moving the image moves and permutes them."""

    def __init__(self, architecture: GroupConvArchitecture, sample_shape: tuple[int, ...]) -> None:
        super().__init__()
        kernel, (lifted, mixed) = architecture.kernel, architecture.channels
        if len(sample_shape) != 3 or min(sample_shape[1:]) < 2 * kernel - 1:
            raise RecollectError(
                f"two convolutions of {kernel} x {kernel} need images of at least {2 * kernel - 1} pixels a side, the "
                f"samples have shape {list(sample_shape)}; set model.kernel lower, or model.kind to another."
            )
        self.group = named_group(architecture.group, sample_shape)
        self.lift = Lifting(architecture.group, sample_shape[0], lifted, kernel, architecture.bias == "first")
        self.mix = GroupConvolution(architecture.group, lifted, mixed, kernel)
        widths = (mixed, *architecture.hidden, architecture.outputs or 1)
        parts: list[nn.Module] = []
        for before, after in pairwise(widths):
            parts += [nn.Linear(before, after, bias=False), nn.ReLU()]
        self.head = nn.Sequential(*parts[:-1])

    def forward(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n C"]:
        features = torch.relu(self.mix(torch.relu(self.lift(x))))
        return self.head(features.mean(dim=(1, 3, 4)))


class Lifting(nn.Module):
    """``(L x)_g = x * (g w)``: one kernel, turned by every element."""

    positions: Tensor

    def __init__(self, group: str, inputs: int, outputs: int, kernel: int, bias: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(_uniform((outputs, inputs, kernel, kernel), inputs * kernel**2))
        self.bias = nn.Parameter(_uniform((outputs,), inputs * kernel**2)) if bias else None
        self.register_buffer("positions", named_group(group, (kernel, kernel)).actions, persistent=False)

    def forward(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n g out h2 w2"]:
        turned = self.weight.flatten(2)[..., self.positions].unflatten(-1, self.weight.shape[-2:])
        kernels = turned.movedim(2, 0).flatten(0, 1)
        bias = None if self.bias is None else self.bias.repeat(len(self.positions))
        return F.conv2d(x, kernels, bias).unflatten(1, (len(self.positions), -1))


class GroupConvolution(nn.Module):
    """``(C F)_g = sum_k F_k * (g v_{g^-1 k})``, which moves with the group as its input does."""

    positions: Tensor

    def __init__(self, group: str, inputs: int, outputs: int, kernel: int) -> None:
        super().__init__()
        positions = _joint_positions(group, kernel)
        size = len(positions)
        self.weight = nn.Parameter(_uniform((outputs, inputs, size, kernel, kernel), inputs * size * kernel**2))
        self.register_buffer("positions", positions, persistent=False)

    def forward(self, features: Float[Tensor, "n g c h w"]) -> Float[Tensor, "n g out h2 w2"]:
        size, (outputs, inputs) = len(self.positions), self.weight.shape[:2]
        turned = self.weight.flatten(2)[..., self.positions].unflatten(-1, self.weight.shape[2:])
        # From [out, in, g, k, ...] to an ordinary convolution from (k, in) to (g, out).
        kernels = turned.permute(2, 0, 3, 1, 4, 5).reshape(size * outputs, size * inputs, *self.weight.shape[3:])
        return F.conv2d(features.flatten(1, 2), kernels).unflatten(1, (size, outputs))


def _joint_positions(group: str, kernel: int) -> Int[Tensor, "g gkk"]:
    """Where to read ``g v_{g^-1 k}`` in ``v``, flattened over elements and pixels."""
    acting = named_group(group, (kernel, kernel))
    table = acting.products()
    inverse = (table == 0).int().argmax(dim=1)
    blocks = table[inverse] * kernel**2
    return (blocks.unsqueeze(-1) + acting.actions.unsqueeze(1)).flatten(1)


def _uniform(shape: tuple[int, ...], fan_in: int) -> Tensor:
    """PyTorch's own initialisation of a convolution."""
    return (2 * torch.rand(shape) - 1) / fan_in**0.5
