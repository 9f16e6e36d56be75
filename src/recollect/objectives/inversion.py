"""Inversion of a classifier by a conditioned generator, and reconstruction of training-like data (TLDR 2024)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from recollect.candidates.generator import Generated, Generator
from recollect.core import RecollectError, Terms, TrialRng, Variables
from recollect.counter_random import TrialStreams
from recollect.objectives import inversion_terms as terms
from recollect.targets.classifier import ClassifierTarget, Observed

Perturbation = Literal["random", "adversarial"]

INVERSION: dict[str, float] = {"divergence": 1.0, "cross_entropy": 3.0, "cosine": 0.3, "orthogonality": 0.1}
"""Weights of the inversion loss: any images that the classifier takes for the class, as diverse as can be.

The paper gives none. A soft condition leaves its label little ahead, so that agreement needs the cross-entropy to lead.
"""

RECONSTRUCTION: dict[str, float] = {
    "divergence": 0.5,
    "cross_entropy": 0.5,
    "divergence_perturbed": 0.5,
    "cross_entropy_perturbed": 0.5,
    "cosine": 0.3,
    "orthogonality": 0.1,
    "variation": 0.003,
    "pixel_range": 0.01,
    "gradient_norm": 0.1,
}
"""Weights of the reconstruction loss, for hot conditions: images such as the classifier was trained on.

The gradient norm differentiates twice and makes a step two to three times as long.
"""


@dataclass(frozen=True)
class _Scene:
    """What terms look at: a batch, what the classifier makes of it, and of the same batch perturbed."""

    classifier: ClassifierTarget
    generated: Generated
    seen: Observed
    perturbed: Observed | None

    @property
    def disturbed(self) -> Observed:
        assert self.perturbed is not None
        return self.perturbed


TERMS: dict[str, Callable[[_Scene], Float[Tensor, " T"]]] = {
    "divergence": lambda on: terms.divergence(on.seen.outputs, on.generated.conditions.distribution),
    "cross_entropy": lambda on: terms.cross_entropy(on.seen.outputs, on.generated.conditions.labels),
    "cosine": lambda on: terms.mean_cosine(on.seen.features),
    "orthogonality": lambda on: terms.orthogonality(on.seen.features),
    "divergence_perturbed": lambda on: terms.divergence(on.disturbed.outputs, on.generated.conditions.distribution),
    "cross_entropy_perturbed": lambda on: terms.cross_entropy(on.disturbed.outputs, on.generated.conditions.labels),
    "variation": lambda on: terms.variation(on.generated.images),
    "pixel_range": lambda on: terms.pixel_range(on.generated.images),
    "gradient_norm": lambda on: terms.gradient_norm(on.classifier, on.generated.images, on.generated.conditions.labels),
    "class_cosine": lambda on: terms.class_cosine(on.seen.features, on.generated.conditions.labels),
    "statistics": lambda on: terms.statistics(on.seen.moments),
}
"""Every term by its name; a term without a weight is never computed."""


@dataclass(frozen=True)
class Inversion:
    """``sum_k w_k L_k`` over the named terms, with weights of each trial's own (TLDR 2024, sections 3.3 and 3.4).

    Perturbed images lie in the L-infinity ball of ``radius`` around the generated ones: at random, or where the loss
    grows fastest. The classifier's weights and statistics are read and never changed.
    """

    weights: Mapping[str, Float[Tensor, " T"]]
    radius: Float[Tensor, " T"]
    streams: TrialStreams
    perturbation: Perturbation = "random"

    def __post_init__(self) -> None:
        unknown = [name for name in self.weights if name not in TERMS]
        if unknown or not self.weights:
            found = f"there is no term '{unknown[0]}'" if unknown else "no term has a weight"
            raise RecollectError(f"{found} in the inversion loss; choose from {', '.join(TERMS)}.")

    def init(self, rng: TrialRng) -> Variables:
        del rng
        return {}

    def __call__(self, classifier: ClassifierTarget, generated: Generated, step: Int[Tensor, "*T"]) -> Terms:
        """Weighted terms of the batch of a step."""
        self.require_possible(classifier)
        seen = classifier.observe(generated.images, with_moments="statistics" in self.weights)
        scene = _Scene(classifier, generated, seen, self._perturbed(classifier, generated, step))
        return {name: weight * TERMS[name](scene) for name, weight in self.weights.items()}

    def require_possible(self, classifier: ClassifierTarget) -> None:
        """Whether every term can be had from this network."""
        if "statistics" in self.weights and not classifier.has_statistics:
            raise RecollectError(
                "the network has no batch norm whose statistics could be matched; leave 'statistics' out."
            )

    def gradient(
        self, classifier: ClassifierTarget, generator: Generator, variables: Variables, step: Int[Tensor, "*T"]
    ) -> Variables:
        """Gradients of the generator's weights at this step; trials share none, so one sum serves all."""
        with torch.enable_grad():
            leaves = {name: variables[name].detach().requires_grad_() for name in generator.names}
            found = self(classifier, generator.generate(leaves, step), step)
            total = torch.stack(list(found.values())).sum()
        grads = torch.autograd.grad(total, list(leaves.values()), materialize_grads=True)
        return dict(zip(leaves, grads, strict=True))

    def in_smaller_chunks(self) -> None:
        """Images of a batch meet in batch norm, cosine and Gram matrix: none can be left for later."""
        return

    def for_trials(self, chosen: Int[Tensor, " k"]) -> Inversion:
        return replace(
            self,
            weights={name: weight[chosen] for name, weight in self.weights.items()},
            radius=self.radius[chosen],
            streams=self.streams.for_trials(chosen),
        )

    def _perturbed(self, classifier: ClassifierTarget, generated: Generated, step: Tensor) -> Observed | None:
        if not any(name.endswith("_perturbed") for name in self.weights):
            return None
        images, labels = generated.images, generated.conditions.labels
        if self.perturbation == "adversarial":
            return classifier.observe(terms.adversarial_perturbation(images, self.radius, classifier, labels))
        return classifier.observe(terms.random_perturbation(images, self.radius, self.streams, step))
