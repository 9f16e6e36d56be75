"""What is known about samples and multipliers before the attack. Each returns one number per trial."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from jaxtyping import Float
from torch import Tensor, relu
from torch.nn.functional import pad

from recollect.core import per_trial
from recollect.groups import Group


class Prior(Protocol):
    """A penalty on samples, one number per trial, and its gradient."""

    def __call__(self, x: Float[Tensor, "T m ..."]) -> Float[Tensor, " T"]: ...

    def gradient(self, x: Float[Tensor, "T m ..."]) -> Float[Tensor, "T m ..."]: ...


@dataclass(frozen=True)
class Box:
    """``weight * sum relu(x - high)^2 + relu(low - x)^2``: pixels of mean-centred images stay within [-1, 1]."""

    weight: float = 1.0
    low: float = -1.0
    high: float = 1.0

    def __call__(self, x: Float[Tensor, "T m ..."]) -> Float[Tensor, " T"]:
        return self.weight * self._outside(x).flatten(1).square().sum(dim=1)

    def gradient(self, x: Float[Tensor, "T m ..."]) -> Float[Tensor, "T m ..."]:
        return 2 * self.weight * self._outside(x)

    def _outside(self, x: Tensor) -> Tensor:
        return x - x.clamp(self.low, self.high)


@dataclass(frozen=True)
class Variation:
    """``weight * sum`` of squared differences of neighbouring pixels: photographs are smooth, noise is not."""

    weight: float

    def __call__(self, x: Float[Tensor, "T m c h w"]) -> Float[Tensor, " T"]:
        return self.weight * squared_differences(x).sum(dim=1)

    def gradient(self, x: Float[Tensor, "T m c h w"]) -> Float[Tensor, "T m c h w"]:
        down, across = x.diff(dim=3), x.diff(dim=4)
        towards_before = pad(down, (0, 0, 1, 0)) + pad(across, (1, 0))
        return 2 * self.weight * (towards_before - pad(down, (0, 0, 0, 1)) - pad(across, (0, 1)))


def squared_differences(images: Float[Tensor, "T m c h w"]) -> Float[Tensor, "T m"]:
    """Of neighbouring pixels, summed over an image."""
    return images.diff(dim=3).square().sum(dim=(2, 3, 4)) + images.diff(dim=4).square().sum(dim=(2, 3, 4))


@dataclass(frozen=True)
class Asymmetry:
    """``weight * sum_i ||x_i||^2 relu(share - r_i)``, with ``r_i = ||x_i - gbar x_i||^2 / ||x_i||^2``.

    Of the squared length of a sample in general position, about ``1 - dim V^G / d`` lies outside of the fixed space
    ``V^G``; candidates with less than ``share`` of it there are pushed out. The length as a factor makes it quadratic
    and its gradient linear, ``2 weight (share x_i - (x_i - gbar x_i))`` where it acts, so small candidates are not torn
    apart. It is invariant itself: it cannot break a symmetry that a candidate has, only keep one from forming.
    """

    group: Group
    weight: float
    share: float

    def __call__(self, x: Float[Tensor, "T m ..."]) -> Float[Tensor, " T"]:
        return self.weight * relu(self._lacking(x, self.group.asymmetric(x))).sum(dim=1)

    def gradient(self, x: Float[Tensor, "T m ..."]) -> Float[Tensor, "T m ..."]:
        apart = self.group.asymmetric(x)
        acts = (self._lacking(x, apart) > 0).to(x.dtype)
        if not self.group.whole:  # the average over a sample of a group is no projection: twice is not once
            apart = self.group.asymmetric(apart)
        return 2 * self.weight * acts.reshape(*acts.shape, *(1,) * (x.ndim - 2)) * (self.share * x - apart)

    def _lacking(self, x: Tensor, apart: Tensor) -> Float[Tensor, "T m"]:
        return self.share * x.flatten(2).square().sum(dim=2) - apart.flatten(2).square().sum(dim=2)


def dual_floor(duals: Float[Tensor, "T m"], dual_min: Float[Tensor, " T"]) -> Float[Tensor, " T"]:
    """``sum relu(lambda_min - lambda_i)^2``: multipliers below the floor are pushed up (Haim 2022, appendix B.2)."""
    return relu(per_trial(dual_min, duals) - duals).square().sum(dim=1)


def dual_floor_gradient(duals: Float[Tensor, "T m"], dual_min: Float[Tensor, " T"]) -> Float[Tensor, "T m"]:
    return -2 * relu(per_trial(dual_min, duals) - duals)
