"""Networks to practise on: the papers' perceptrons, described by a few numbers that are saved beside the weights."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn


class MLPArchitecture(BaseModel):
    """``d - hidden - ... - outputs`` with ReLU between layers.

    ``bias="first"`` keeps the network homogeneous in its parameters (theory of Haim 2022 holds);
    ``"all"`` adds biases to every hidden layer; ``"none"`` has none. ``first_layer_scale`` draws the first layer
    from ``scale * N(0, 1)`` (published: 1e-4); with ``"standard"`` every layer has PyTorch's own initialisation.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["mlp"] = "mlp"
    hidden: tuple[int, ...] = Field(default=(1000, 1000), min_length=1)
    outputs: int = Field(default=1, ge=1)
    bias: Literal["first", "all", "none"] = "first"
    first_layer_scale: Annotated[float, Field(gt=0)] | Literal["standard"] = 1e-4


class MLP(nn.Module):
    """Flatten, then Linear layers with ReLU between them."""

    is_plain_chain = True

    def __init__(self, architecture: MLPArchitecture, sample_shape: tuple[int, ...]) -> None:
        super().__init__()
        widths = (math.prod(sample_shape), *architecture.hidden, architecture.outputs)
        last = len(widths) - 2
        parts: list[nn.Module] = [nn.Flatten()]
        for index in range(last + 1):
            biased = architecture.bias != "none" and (index == 0 or (architecture.bias == "all" and index < last))
            parts += [nn.Linear(widths[index], widths[index + 1], bias=biased)]
            parts += [nn.ReLU()] if index < last else []
        self.layers = nn.Sequential(*parts)

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


def build_network(architecture: MLPArchitecture, sample_shape: tuple[int, ...], seed: int) -> MLP:
    """A freshly initialised network, in float64; the same seed gives the same weights on every device."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = MLP(architecture, sample_shape).to(torch.float64)
        if architecture.first_layer_scale != "standard":
            first = next(part for part in net.modules() if isinstance(part, nn.Linear))
            with torch.no_grad():
                for parameter in first.parameters():
                    parameter.copy_(architecture.first_layer_scale * torch.randn_like(parameter))
    return net
