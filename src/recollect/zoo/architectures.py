"""Networks to practise on, described by a few numbers that are saved beside the weights; the papers' perceptrons."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Literal

import torch
from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, PositiveInt, Tag
from torch import Tensor, nn

from recollect.symmetries import checked_name, named_group
from recollect.zoo.classifier import Classifier, ClassifierArchitecture
from recollect.zoo.convolution import ConvArchitecture, ConvNet
from recollect.zoo.deep_set import DeepSet, DeepSetArchitecture
from recollect.zoo.group_convolution import GroupConvArchitecture, GroupConvNet
from recollect.zoo.symmetrised import Symmetrised


class MLPArchitecture(BaseModel):
    """``d - hidden - ... - outputs`` with ReLU between layers.

    ``bias="first"`` keeps the network homogeneous in its parameters (theory of Haim 2022 holds);
    ``"all"`` adds biases to every hidden layer; ``"none"`` has none. ``first_layer_scale`` draws the first layer
    from ``scale * N(0, 1)`` (published: 1e-4); with ``"standard"`` every layer has PyTorch's own initialisation.
    ``group`` names the group that the network is averaged over, which makes it invariant (Elbaz 2024).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["mlp"] = "mlp"
    hidden: tuple[PositiveInt, ...] = Field(default=(1000, 1000), min_length=1)
    outputs: PositiveInt | None = None
    """Follows from the task when left out."""
    bias: Literal["first", "all", "none"] = "first"
    first_layer_scale: Annotated[float, Field(gt=0)] | Literal["standard"] = 1e-4
    group: Annotated[str, AfterValidator(checked_name)] = "trivial"


class MLP(nn.Module):
    """Flatten, then Linear layers with ReLU between them."""

    is_plain_chain = True

    def __init__(self, architecture: MLPArchitecture, sample_shape: tuple[int, ...]) -> None:
        super().__init__()
        widths = (math.prod(sample_shape), *architecture.hidden, architecture.outputs or 1)
        last = len(widths) - 2
        parts: list[nn.Module] = [nn.Flatten()]
        for index in range(last + 1):
            biased = architecture.bias != "none" and (index == 0 or (architecture.bias == "all" and index < last))
            parts += [nn.Linear(widths[index], widths[index + 1], bias=biased)]
            parts += [nn.ReLU()] if index < last else []
        self.layers = nn.Sequential(*parts)

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


def _kind(architecture: object) -> str:
    """What an architecture calls itself; files written before there were kinds describe perceptrons."""
    if isinstance(architecture, Mapping):
        return str(architecture.get("kind", "mlp"))
    return getattr(architecture, "kind", "mlp")


Architecture = Annotated[
    Annotated[MLPArchitecture, Tag("mlp")]
    | Annotated[ConvArchitecture, Tag("conv")]
    | Annotated[GroupConvArchitecture, Tag("group_conv")]
    | Annotated[DeepSetArchitecture, Tag("deep_set")]
    | Annotated[ClassifierArchitecture, Tag("classifier")],
    Discriminator(
        _kind,
        custom_error_type="unknown_kind",
        custom_error_message="There is no such kind; choose 'mlp', 'conv', 'group_conv', 'deep_set' or 'classifier'",
    ),
]


def build_network(architecture: Architecture, sample_shape: tuple[int, ...], seed: int) -> nn.Module:
    """A freshly initialised network in evaluation mode; the same seed gives the same weights on every device.

    It has one output where the architecture leaves their number open, and is in float64, an ordinary one in float32.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = _make(architecture, sample_shape)
        if isinstance(architecture, ClassifierArchitecture):
            return net.eval()
        net.to(torch.float64)
        if architecture.first_layer_scale != "standard":
            first = next(part for part in net.modules() if list(part.parameters(recurse=False)))
            with torch.no_grad():
                for parameter in first.parameters():
                    parameter.copy_(architecture.first_layer_scale * torch.randn_like(parameter))
    return net.eval()


def _make(architecture: Architecture, sample_shape: tuple[int, ...]) -> nn.Module:
    if isinstance(architecture, ConvArchitecture):
        return ConvNet(architecture, sample_shape)
    if isinstance(architecture, GroupConvArchitecture):
        return GroupConvNet(architecture, sample_shape)
    if isinstance(architecture, DeepSetArchitecture):
        return DeepSet(architecture, sample_shape)
    if isinstance(architecture, ClassifierArchitecture):
        return Classifier(architecture, sample_shape)
    net = MLP(architecture, sample_shape)
    group = named_group(architecture.group, sample_shape)
    return net if group.trivial else Symmetrised(net, group)
