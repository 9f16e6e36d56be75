"""Networks on sets, such as point clouds, that do not see in which order elements come: Zaheer et al. 2017."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Annotated, Literal

from jaxtyping import Float
from pydantic import BaseModel, ConfigDict, Field, PositiveInt
from torch import Tensor, nn

from recollect.core import RecollectError
from recollect.symmetries import LARGEST, named_group


class DeepSetArchitecture(BaseModel):
    """``rho(mean_j phi(x_j))`` for a sample of elements ``x_j``, one per row; ReLU after all layers but the last.

    ``bias="first"`` is that of the first layer of phi alone, which keeps the network homogeneous in its parameters.
    ``first_layer_scale`` draws that layer from ``scale * N(0, 1)``.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["deep_set"] = "deep_set"
    elements: tuple[PositiveInt, ...] = Field(default=(256,), min_length=1)
    """Widths of phi, which sees one element."""
    hidden: tuple[PositiveInt, ...] = (256,)
    """Widths of rho, which sees the mean."""
    outputs: PositiveInt | None = None
    """Follows from the task when left out."""
    bias: Literal["first", "none"] = "first"
    first_layer_scale: Annotated[float, Field(gt=0)] | Literal["standard"] = "standard"


class DeepSet(nn.Module):
    """Invariant to the order of the rows of a sample ``[elements, values]``."""

    def __init__(self, architecture: DeepSetArchitecture, sample_shape: tuple[int, ...]) -> None:
        super().__init__()
        if len(sample_shape) != 2:
            raise RecollectError(
                f"a set needs samples of shape [elements, values], these have {list(sample_shape)}; set model.kind to "
                "another."
            )
        count, values = sample_shape
        self.group = named_group(
            "permutations" if math.factorial(count) <= LARGEST else "permutations:256", sample_shape
        )
        widths = (values, *architecture.elements)
        self.phi = nn.Sequential(*_layers(widths, architecture.bias == "first"), nn.ReLU())
        self.rho = nn.Sequential(*_layers((widths[-1], *architecture.hidden, architecture.outputs or 1), False))

    def forward(self, x: Float[Tensor, "n elements values"]) -> Float[Tensor, "n C"]:
        return self.rho(self.phi(x).mean(dim=1))


def _layers(widths: tuple[int, ...], first_biased: bool) -> list[nn.Module]:
    parts: list[nn.Module] = []
    for before, after in pairwise(widths):
        parts += [nn.Linear(before, after, bias=first_biased and not parts), nn.ReLU()]
    return parts[:-1]
