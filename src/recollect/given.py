"""What a search is told beside the network."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from recollect.core import RecollectError


@dataclass(frozen=True)
class Given:
    """What is left out a search finds for itself, or says that it cannot."""

    basis: Float[Tensor, "d r"] | None = None
    """Of the row space, where somebody has it already."""
    mean: Float[Tensor, "*sample"] | None = None
    """The image that was taken from every sample before the network saw it."""

    def needed_mean(self, what: str, sample_shape: tuple[int, ...]) -> Float[Tensor, "*sample"]:
        if self.mean is None or tuple(self.mean.shape) != sample_shape:
            got = "none was given" if self.mean is None else f"got one of shape {list(self.mean.shape)}"
            raise RecollectError(
                f"{what} needs the mean image of the training set, of shape {list(sample_shape)}, and {got}; name the "
                "data with --data, or use --set attack.space=full."
            )
        return self.mean


NOTHING = Given()
