"""Settings of the attack by a conditioned generator, and of the judgement of what it makes (TLDR 2024)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from recollect.candidates.conditioning import Conditioning
from recollect.config.section import Section
from recollect.objectives.inversion import INVERSION, RECONSTRUCTION, Perturbation

Mode = Literal["inversion", "reconstruction"]

_DEFAULTS: dict[Mode, dict[str, float]] = {"inversion": INVERSION, "reconstruction": RECONSTRUCTION}


class TermWeights(Section):
    """Weights of the terms of the loss; those of the mode where one is left out, and 0 removes a term.

    Symbols of the paper in brackets.
    """

    divergence: float | None = Field(default=None, ge=0)
    """[alpha] KL between condition and answer."""
    cross_entropy: float | None = Field(default=None, ge=0)
    """[beta] on the hidden label."""
    cosine: float | None = Field(default=None, ge=0)
    """[gamma] mean cosine of the features of two images."""
    orthogonality: float | None = Field(default=None, ge=0)
    """[delta] of the Gram matrix of features."""
    divergence_perturbed: float | None = Field(default=None, ge=0)
    """[alpha'] on perturbed images."""
    cross_entropy_perturbed: float | None = Field(default=None, ge=0)
    """[beta'] on perturbed images."""
    variation: float | None = Field(default=None, ge=0)
    """[eta_1] squared differences of neighbouring pixels."""
    pixel_range: float | None = Field(default=None, ge=0)
    """[eta_2] pixels outside of [0, 1]; zero for ``bounded`` generators."""
    gradient_norm: float | None = Field(default=None, ge=0)
    """[eta_3] of the loss with respect to the classifier's weights; two to three times the cost of a step."""
    statistics: float | None = Field(default=None, ge=0)
    """Statistics of batch norm against those of training (DeepInversion), which the paper lacks."""
    class_cosine: float | None = Field(default=None, ge=0)
    """Mean cosine of two images of one class, which the paper lacks."""


class GeneratorConfig(Section):
    """A generator per trial, for ``attack.method = "generator"``; ``lr_x`` of a trial is the rate of its Adam."""

    mode: Mode = "reconstruction"
    """``inversion``: any images that the classifier takes for their class. ``reconstruction``: such as it was trained
    on, by hot conditions, perturbed images, priors on pixels and small gradients."""
    conditioning: Conditioning = "vector_matrix"
    hot: bool | None = None
    """Conditions certain of their label; when left out, in reconstruction."""
    weights: TermWeights = TermWeights()
    batch: int = Field(default=64, ge=2)
    """Images of a generator at every step; ``attack.candidates`` are made when it has learnt."""
    radius: float = Field(default=0.3, gt=0)
    """Largest change of a pixel in perturbed images."""
    perturbation: Perturbation = "random"
    latent: int = Field(default=64, ge=1)
    width: int = Field(default=32, ge=2)
    """Channels of the widest transposed convolution."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    bounded: bool = True
    """A sigmoid keeps pixels in [0, 1]; without, ``pixel_range`` has to, as in the paper."""
    betas: tuple[float, float] = (0.5, 0.99)
    """Of Adam, which moves the weights whatever ``attack.optimiser`` says."""
    features: str | None = None
    """Submodule of the classifier whose output are its features; found when left out: what enters its last layer."""

    @property
    def conditions_are_hot(self) -> bool:
        return self.mode == "reconstruction" if self.hot is None else self.hot

    @property
    def term_weights(self) -> dict[str, float]:
        """Every term that takes part.

        >>> GeneratorConfig(mode="inversion", weights=TermWeights(cosine=0, statistics=0.3)).term_weights
        {'divergence': 1.0, 'cross_entropy': 3.0, 'orthogonality': 0.1, 'statistics': 0.3}
        """
        given = self.weights.model_dump(exclude_none=True)
        return {name: weight for name, weight in (_DEFAULTS[self.mode] | given).items() if weight}


class IndependentConfig(Section):
    """The classifiers that judge generated images, trained on images which the attacked one never saw."""

    images: int = Field(default=8000, ge=2)
    """At most so many are trained on."""
    epochs: int = Field(default=8, ge=1)
