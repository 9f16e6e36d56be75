"""What a first layer multiplies its weights with: a whole sample, or every window of a convolution's size."""

from __future__ import annotations

import math
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class Patches:
    """A convolution without padding is a Linear layer on patches: ``P`` of them in each sample, one without a kernel.

    Units of the first layer are ``[T, m P, channels]`` where they belong to a patch, and ``[T, m, P channels]`` where
    the next layer sees them: the same numbers in the same order.
    """

    sample_shape: tuple[int, ...]
    kernel: tuple[int, int] | None = None

    @property
    def count(self) -> int:
        """P"""
        if self.kernel is None:
            return 1
        _, height, width = self.sample_shape
        return (height - self.kernel[0] + 1) * (width - self.kernel[1] + 1)

    @property
    def values(self) -> int:
        """Numbers in one patch."""
        return math.prod(self.sample_shape if self.kernel is None else (self.sample_shape[0], *self.kernel))

    def of(self, x: Float[Tensor, "T m ..."]) -> Float[Tensor, "T mP values"]:
        if self.kernel is None:
            return x.flatten(2)
        windows = x.unfold(3, self.kernel[0], 1).unfold(4, self.kernel[1], 1)
        return windows.permute(0, 1, 3, 4, 2, 5, 6).reshape(len(x), -1, self.values)

    def back(self, adjoint: Float[Tensor, "T mP values"]) -> Float[Tensor, "T m ..."]:
        """The adjoint of ``of``: what overlapping patches say about a pixel is added up."""
        if self.kernel is None:
            return adjoint.unflatten(2, self.sample_shape)
        columns = adjoint.reshape(-1, self.count, self.values).mT
        folded = F.fold(columns, self.sample_shape[1:], self.kernel)
        return folded.reshape(len(adjoint), -1, *self.sample_shape)

    def gathered(self, units: Float[Tensor, "T mP channels"]) -> Float[Tensor, "T m units"]:
        return units.reshape(len(units), -1, self.count * units.shape[-1])

    def spread(self, units: Float[Tensor, "T m units"]) -> Float[Tensor, "T mP channels"]:
        return units.reshape(len(units), units.shape[1] * self.count, -1)
