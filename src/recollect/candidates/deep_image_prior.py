"""Candidates as the images that a random convolutional network makes of noise: the deep image prior.

Ulyanov et al. 2020: what such a network makes easily looks like an image. Its weights are the variables (Elbaz 2024,
section 4). Noise is drawn on a quarter of the image's grid and grows through convolutions and linear interpolation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.func import vjp, vmap
from torch.nn import functional as F

from recollect.core import RecollectError, TrialRng, Variables
from recollect.sharing import SumAcross, alone

Networks = Literal["one", "each"]
Offset = Literal["learned", "half", "mean"]


@dataclass(frozen=True)
class DeepImagePrior:
    """``x_i = sigmoid(f(z_i)) - offset``: ``f`` a network for all candidates of a trial, or one for each.

    The attacked network saw images less the mean of its training set. ``offset`` stands for it: ``mean`` is that image,
    where it is known; ``half`` is 0.5 everywhere; ``learned`` starts there and is one image for all of a trial.
    Convolutions are normalised per image and channel, so candidates of one network do not mix. The last one is scaled
    so that candidates deviate by ``init_scale`` from the middle grey at the start, as pixels would from zero.
    """

    candidates: int
    sample_shape: tuple[int, ...]
    init_scale: Float[Tensor, " T"]
    noise: Float[Tensor, "T m c h w"]
    growth: tuple[tuple[Tensor, Tensor], ...]
    """Interpolation to each next grid, along rows and columns; kept, because a step must not copy from the host."""
    networks: Networks = "one"
    offset: Offset = "learned"
    total: SumAcross = alone
    mean: Float[Tensor, "*sample"] | None = None
    """Of the training set, for the offset of that name."""

    @classmethod
    def drawn(
        cls,
        candidates: int,
        sample_shape: tuple[int, ...],
        init_scale: Float[Tensor, " T"],
        rng: TrialRng,
        channels: int,
        networks: Networks,
        offset: Offset,
        total: SumAcross = alone,
    ) -> DeepImagePrior:
        """With each candidate's noise, which never changes."""
        if len(sample_shape) != 3:
            raise RecollectError(
                f"a deep image prior makes images [channels, height, width], the samples have shape "
                f"{list(sample_shape)}; use --set attack.space=full."
            )
        grids = _grids(sample_shape)
        if grids[0] == (1, 1):  # normalised per image and channel, noise on a single pixel is gone
            raise RecollectError(
                f"a deep image prior grows images from a coarse grid, and {list(sample_shape[1:])} pixels leave it a "
                "single one; use --set attack.space=full."
            )
        noise = rng.normal("noise", (candidates, channels, *grids[0]))
        growth = [[_interpolation(a, b).to(noise) for a, b in zip(*pair, strict=True)] for pair in pairwise(grids)]
        pairs = tuple((rows, columns) for rows, columns in growth)
        return cls(candidates, tuple(sample_shape), init_scale, noise, pairs, networks, offset, total)

    @property
    def names(self) -> tuple[str, ...]:
        learned = ("offset",) if self.offset == "learned" else ()
        return (*(f"{layer}.{kind}" for layer in _LAYERS for kind in ("weight", "bias")), *learned)

    def init(self, rng: TrialRng) -> Variables:
        channels, out = self.noise.shape[2], self.sample_shape[0]
        # One network belongs to all candidates: whoever holds a part of them needs the whole of it.
        everything = replace(rng, part=slice(None)) if self.networks == "one" else rng
        leading = () if self.networks == "one" else (self.candidates,)
        variables: Variables = {}
        for layer in _LAYERS:
            size = 1 if layer == _LAYERS[-1] else 3
            shape = (out if layer == _LAYERS[-1] else channels, channels, size, size)
            weight = everything.normal(layer, (*leading, *shape)) * math.sqrt(2 / (channels * size**2))
            variables[f"{layer}.weight"] = weight
            variables[f"{layer}.bias"] = weight.new_zeros(*weight.shape[: 1 + len(leading)], shape[0])
        last = f"{_LAYERS[-1]}.weight"
        # The slope of a sigmoid at zero is a quarter.
        variables[last] = 4 * self.init_scale.reshape(-1, *(1,) * (variables[last].ndim - 1)) * variables[last]
        if self.offset == "learned":
            trials = len(self.init_scale)
            variables["offset"] = self.init_scale.new_full((trials, *self.sample_shape), 0.5)
        return variables

    def inputs(self, variables: Variables) -> Float[Tensor, "T m ..."]:
        return self.decode(variables)

    def decode(self, variables: Variables) -> Float[Tensor, "T m ..."]:
        return self._images({name: variables[name] for name in self.names})

    def exposed(self, variables: Variables) -> tuple[Float[Tensor, "T m ..."], None]:
        return self.decode(variables), None

    def pull(
        self,
        variables: Variables,
        inputs_gradient: Tensor,
        sample_gradient: Tensor | None = None,
        which: Tensor | None = None,
    ) -> Variables:
        del which
        own = {name: variables[name] for name in self.names}
        send_back = vjp(self._images, own)[1]
        (grads,) = send_back(inputs_gradient if sample_gradient is None else inputs_gradient + sample_gradient)
        shared = self.names if self.networks == "one" else ("offset",)
        return {name: self.total(value) if name in shared else value for name, value in grads.items()}

    def for_trials(self, chosen: Int[Tensor, " k"]) -> DeepImagePrior:
        return replace(self, init_scale=self.init_scale[chosen], noise=self.noise[chosen])

    def _images(self, variables: Variables) -> Float[Tensor, "T m ..."]:
        weights = {name: value for name, value in variables.items() if name != "offset"}
        if self.networks == "one":
            # One after the other: batched weights would make grouped convolutions, ten times slower on GPUs.
            rows = [{name: value[trial] for name, value in weights.items()} for trial in range(len(self.noise))]
            images = torch.stack([self._one_network(own, noise) for own, noise in zip(rows, self.noise, strict=True)])
        else:
            images = vmap(vmap(self._one_network))(weights, self.noise.unsqueeze(2)).squeeze(2)
        known = 0.5 if self.mean is None else self.mean
        return torch.sigmoid(images) - (variables["offset"].unsqueeze(1) if "offset" in variables else known)

    def _one_network(self, weights: Variables, noise: Float[Tensor, "n c h w"]) -> Float[Tensor, "n out H W"]:
        features = noise
        for layer, grown in zip(_LAYERS, (None, *self.growth), strict=False):
            if grown is not None:
                features = grown[0] @ features @ grown[1].T
            features = F.conv2d(features, weights[f"{layer}.weight"], padding=1)
            bias = weights[f"{layer}.bias"]
            # A group for each channel: normalised per image and channel. Without weights its vjp fails (torch 2.13).
            features = F.group_norm(features, len(bias), torch.ones_like(bias), bias)
            features = F.leaky_relu(features, 0.2)
        last = _LAYERS[-1]
        return F.conv2d(features, weights[f"{last}.weight"], weights[f"{last}.bias"])


_LAYERS = ("coarse", "middle", "fine", "last")


def _grids(sample_shape: tuple[int, ...]) -> list[tuple[int, int]]:
    """Quarter, half and whole of the image's sides."""
    height, width = sample_shape[1:]
    return [(-(-height // by), -(-width // by)) for by in (4, 2, 1)]


def _interpolation(before: int, after: int) -> Float[Tensor, "after before"]:
    """Linear interpolation as a matrix, so that its derivative is a product too."""
    return F.interpolate(torch.eye(before)[None], size=after, mode="linear", align_corners=False)[0].T
