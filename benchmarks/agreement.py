"""How many different candidates of a trial others found too, for several meanings of "different" and "others"."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from benchmarks.traits import directions

NEAR = (0.6, 0.7, 0.8, 0.9)
"""Correlations from which on two candidates are the same."""

OTHERS = (1, 2, 4, 8, 16)
"""Trials, beside its own, that must have found a candidate."""


@torch.no_grad()
def agreement(samples: Float[Tensor, "T m ..."], settings: list[int]) -> dict[str, list[float]]:
    """A value for every trial, by name; trials with one number in ``settings`` are not others of each other."""
    # Without this, nan would be the largest correlation of whatever is compared with it.
    flat = directions(samples.nan_to_num(0.0, 0.0, 0.0))
    found: dict[str, list[float]] = {}
    for own in range(len(samples)):
        others = [other for other in range(len(samples)) if settings[other] != settings[own]]
        nearest = nearest_elsewhere(flat, own, others)
        for near in NEAR:
            once, agreed = counted_once(flat[own], near), (nearest > near).sum(dim=0)
            for count in OTHERS:
                found.setdefault(f"found_{count}_{near}", []).append(float((once * (agreed >= count)).sum()))
    return found


def nearest_elsewhere(flat: Float[Tensor, "T m d"], own: int, others: list[int]) -> Float[Tensor, "others m"]:
    """For every candidate of one trial, the largest correlation with any of each other one."""
    return torch.stack([(flat[own] @ flat[other].T).amax(dim=1) for other in others])


def counted_once(flat: Float[Tensor, "m d"], near: float) -> Float[Tensor, " m"]:
    """One over the number of candidates that show the same, itself among them."""
    return 1 / (flat @ flat.T > near).sum(dim=1).clamp_min(1)
