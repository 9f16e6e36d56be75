"""How many different candidates of a trial others found too, for several meanings of "different" and "others"."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from recollect.sweep.agreement import counted_once, nearest_elsewhere

NEAR = (0.6, 0.7, 0.8, 0.9)
"""Correlations from which on two candidates are the same."""

OTHERS = (1, 2, 4, 8, 16)
"""Trials, beside its own, that must have found a candidate."""


@torch.no_grad()
def agreement(samples: Float[Tensor, "T m ..."], settings: list[int]) -> dict[str, list[float]]:
    """A value for every trial, by name; trials with one number in ``settings`` are not others of each other."""
    found: dict[str, list[float]] = {}
    for own in range(len(samples)):
        others = [other for other in range(len(samples)) if settings[other] != settings[own]]
        nearest = nearest_elsewhere(samples, own, others)
        for near in NEAR:
            once, agreed = counted_once(samples[own], near), (nearest > near).sum(dim=0)
            for count in OTHERS:
                found.setdefault(f"found_{count}_{near}", []).append(float((once * (agreed >= count)).sum()))
    return found
