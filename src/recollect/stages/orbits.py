"""For networks invariant to a group: where on the orbitopes of the training samples the candidates lie."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from recollect.analysis.distance import Distance
from recollect.analysis.orbitope import orbitope_places
from recollect.groups import Group
from recollect.runs import RunFolder

ORBITOPE = "orbitope.json"
_BINS = 20
_MOST = 10_000
"""Candidates that are placed; of more, an even selection."""


def write_orbitope(
    folder: RunFolder, candidates: Float[Tensor, "k ..."], x: Float[Tensor, "n ..."], group: Group, distance: Distance
) -> None:
    """``orbitope.json``: how many candidates lie how far from the average of an orbit (0) to its elements (1)."""
    step = -(-len(candidates) // _MOST)
    places = orbitope_places(candidates[::step], x, group, distance)
    asymmetry = places.asymmetry[places.asymmetry.isfinite()]
    median = float(asymmetry.median()) if len(asymmetry) else None
    folder.write_json(
        ORBITOPE,
        {
            "group": group.name,
            "group_size": group.size,
            "candidates": int((places.sample >= 0).sum()),
            "edges": torch.linspace(0, 1, _BINS + 1, dtype=torch.float64),
            "counts": places.histogram(_BINS),
            "near_counts": places.histogram(_BINS, least_ncc=0.8),
            "near_ncc": 0.8,
            "position": places.position,
            "nearest": places.sample,
            "ncc": places.ncc,
        },
    )
    folder.update_summary({"median_asymmetry": median})


def forget_orbitope(folder: RunFolder) -> None:
    """What was written for a group that samples are no longer matched up to."""
    if folder.has(ORBITOPE):
        folder.remove(ORBITOPE)
        folder.update_summary({"median_asymmetry": None})
