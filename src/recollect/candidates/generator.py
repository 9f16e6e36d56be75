"""Candidates as the images of a conditioned generator, whose weights are the variables (TLDR 2024, section 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod, sqrt

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from recollect.candidates.conditioning import (
    Conditioning,
    Conditions,
    conditions_of,
    draw_conditions,
    hot_matrix,
    uses_matrix,
    uses_vector,
)
from recollect.candidates.upsampling import Layer, Plan, upsampling_plan
from recollect.core import TrialRng, Variables
from recollect.counter_random import TrialStreams

UNSEEN = -1
"""The step whose batch is shown and whose losses are noted: none that the search takes."""


@dataclass(frozen=True)
class Generated:
    """A batch of images and what each was asked to be."""

    images: Float[Tensor, "T m c h w"]
    conditions: Conditions


@dataclass(frozen=True)
class Generator:
    """Latent noise and a condition to images in [0, 1], one generator per trial, ``batch`` images a step.

    A Linear layer, then transposed convolutions, each with batch norm (by the batch's own statistics), leaky ReLU and
    dropout of whole channels, which stays active when images are shown: it is a source of their diversity. A batch is a
    function of weights and step: latents, conditions and masks come from ``streams``.

    Its weights get their gradient from `recollect.objectives.inversion.Inversion`, step by step. ``labels`` are what
    the images are of that it is asked for in the end.

    ``bounded`` ends in a sigmoid; without it the range is left to the pixel penalty of the objective, as in the paper.
    """

    batch: int
    sample_shape: tuple[int, ...]
    classes: int
    streams: TrialStreams
    labels: Int[Tensor, " m"]
    conditioning: Conditioning = "vector_matrix"
    hot: bool = False
    latent: int = 64
    width: int = 64
    dropout: float = 0.3
    bounded: bool = True

    @property
    def candidates(self) -> int:
        """m, images that are shown."""
        return len(self.labels)

    @cached_property
    def plan(self) -> Plan:
        return upsampling_plan(self.sample_shape, self.classes, self.width, uses_matrix(self.conditioning))

    @property
    def names(self) -> tuple[str, ...]:
        normalised = [f"{name}.{kind}" for name in self._normalised for kind in ("weight", "gain", "shift")]
        embedded = ["embedding"] if self.conditioning == "label" else []
        return (*embedded, *normalised, "image.weight", "image.shift")

    def init(self, rng: TrialRng) -> Variables:
        """Weights of variance ``2 / fan_in`` (He et al. 2015), half of it in the last layer."""
        plan, told = self.plan, self._told
        size = plan.start_channels * prod(plan.start)
        variables = {"start.weight": rng.normal("start", (self.latent + told, size)) / sqrt(self.latent + told)}
        for layer in plan.hidden:
            variables[f"{layer.name}.weight"] = _drawn(rng, layer, gain=2)
        for name, channels in self._normalised.items():
            variables[f"{name}.gain"] = variables["start.weight"].new_ones(len(rng.trials), channels)
            variables[f"{name}.shift"] = variables["start.weight"].new_zeros(len(rng.trials), channels)
        variables["image.weight"] = _drawn(rng, plan.last, gain=1)
        variables["image.shift"] = variables["start.weight"].new_zeros(len(rng.trials), plan.last.channels_out)
        if self.conditioning == "label":
            variables["embedding"] = rng.normal("embedding", (self.classes, told))
        return {name: variables[name] for name in self.names}

    def generate(self, variables: Variables, step: Int[Tensor, ""]) -> Generated:
        """The batch of a step: the same weights and step give the same images."""
        dtype = variables["start.weight"].dtype
        conditions = draw_conditions(self.streams, step, self.batch, self.classes, self.conditioning, self.hot, dtype)
        return Generated(self._images(variables, step, conditions), conditions)

    def decode(self, variables: Variables) -> Float[Tensor, "T m c h w"]:
        return self.shown(variables).images

    def shown(self, variables: Variables) -> Generated:
        """Images of ``labels``, from noise that no step of the search has seen: what people look at."""
        step, dtype = self.unseen_step, variables["start.weight"].dtype
        conditions = conditions_of(self.labels, self.streams, step, self.classes, self.conditioning, self.hot, dtype)
        return Generated(self._images(variables, step, conditions), conditions)

    @property
    def unseen_step(self) -> Int[Tensor, ""]:
        return torch.full((), UNSEEN, dtype=torch.int64, device=self.streams.trials.device)

    def for_trials(self, chosen: Int[Tensor, " k"]) -> Generator:
        return replace(self, streams=self.streams.for_trials(chosen))

    @property
    def _told(self) -> int:
        """Length of what is appended to the latent vector."""
        return self.classes if uses_vector(self.conditioning) or self.conditioning == "label" else 0

    @property
    def _normalised(self) -> dict[str, int]:
        """Layers with batch norm, and how many channels each makes."""
        return {"start": self.plan.start_channels} | {layer.name: layer.channels_out for layer in self.plan.hidden}

    def _images(self, variables: Variables, step: Tensor, conditions: Conditions) -> Float[Tensor, "T m c h w"]:
        vectors = self._vectors(variables, step, conditions)
        kept = _of_each({name: self._kept(name, step, vectors, size) for name, size in self._normalised.items()})
        matrices = hot_matrix(conditions.labels, self.classes, vectors.dtype).unsqueeze(2)
        # One after the other: batched weights would make grouped convolutions, ten times slower on GPUs.
        images = [
            self._one_generator(weights, vectors[trial], kept[trial], matrices[trial])
            for trial, weights in enumerate(_of_each(variables))
        ]
        return torch.stack(images)

    def _one_generator(
        self,
        weights: Mapping[str, Tensor],
        vectors: Float[Tensor, "m l"],
        kept: Mapping[str, Float[Tensor, "m c"]],
        matrices: Float[Tensor, "m 1 N N"],
    ) -> Float[Tensor, "m c h w"]:
        plan = self.plan
        features = (vectors @ weights["start.weight"]).unflatten(1, (plan.start_channels, *plan.start))
        features = _activated(features, weights, kept, "start")
        for layer in plan.hidden:
            features = _activated(_upsampled(features, weights, layer), weights, kept, layer.name)
            if layer is plan.to_grid and uses_matrix(self.conditioning):
                features = torch.cat([features, matrices], dim=1)
        images = _upsampled(features, weights, plan.last) + weights["image.shift"][:, None, None]
        return torch.sigmoid(images) if self.bounded else images

    def _vectors(self, variables: Variables, step: Tensor, conditions: Conditions) -> Float[Tensor, "T m l"]:
        m, dtype = conditions.labels.shape[1], variables["start.weight"].dtype
        latent = self.streams.normal("latent", step, (m, self.latent), dtype)
        if self.conditioning == "label":
            index = conditions.labels.unsqueeze(2).expand(-1, -1, self._told)
            return torch.cat([latent, variables["embedding"].gather(1, index)], dim=2)
        return torch.cat([latent, conditions.distribution], dim=2) if uses_vector(self.conditioning) else latent

    def _kept(self, name: str, step: Tensor, like: Float[Tensor, "T m l"], channels: int) -> Float[Tensor, "T m c"]:
        """Factors of whole channels: zero for those that are dropped."""
        if not self.dropout:
            return like.new_ones(*like.shape[:2], channels)
        keep = self.streams.keep(f"dropout.{name}", step, (like.shape[1], channels), self.dropout)
        return keep.to(like.dtype) / (1 - self.dropout)


def _drawn(rng: TrialRng, layer: Layer, gain: float) -> Float[Tensor, "T i o kh kw"]:
    shape = (layer.channels_in, layer.channels_out, *layer.kernel)
    return rng.normal(layer.name, shape) * sqrt(gain / layer.fan_in)


def _of_each(values: Mapping[str, Tensor]) -> list[dict[str, Tensor]]:
    """What is batched over trials, trial by trial."""
    own = zip(*(value.unbind() for value in values.values()), strict=True)
    return [dict(zip(values, one, strict=True)) for one in own]


def _activated(
    features: Float[Tensor, "m c h w"], weights: Mapping[str, Tensor], kept: Mapping[str, Tensor], name: str
) -> Float[Tensor, "m c h w"]:
    """Batch norm, leaky ReLU, dropout of whole channels."""
    features = F.batch_norm(features, None, None, weights[f"{name}.gain"], weights[f"{name}.shift"], training=True)
    return F.leaky_relu(features, 0.2) * kept[name][..., None, None]


def _upsampled(features: Float[Tensor, "m i h w"], weights: Mapping[str, Tensor], layer: Layer) -> Tensor:
    weight = weights[f"{layer.name}.weight"]
    return F.conv_transpose2d(features, weight, stride=layer.stride, padding=layer.padding)
