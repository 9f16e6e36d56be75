"""What other trials confirm: against a loop over all pairs, and nothing that one of them made up."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from benchmarks.agreement import NEAR, OTHERS, agreement
from torch import Tensor


def by_loops(candidates: Tensor, settings: list[int], own: int, near: float, enough: int) -> float:
    """Every pair by NumPy's correlation."""

    def correlation(x: Tensor, y: Tensor) -> float:
        return float(np.corrcoef(x.flatten(), y.flatten())[0, 1])

    total = 0.0
    for candidate in candidates[own]:
        found_by = sum(
            max(correlation(candidate, other) for other in candidates[trial]) > near
            for trial in range(len(candidates))
            if settings[trial] != settings[own]
        )
        alike = sum(correlation(candidate, other) > near for other in candidates[own])
        total += (found_by >= enough) / alike
    return total


def some_trials(seed: int) -> Tensor:
    """Five trials of six images, of which each found some of four that are common, more or less well."""
    rng = torch.Generator().manual_seed(seed)
    common = torch.randn(4, 1, 4, 4, generator=rng, dtype=torch.float64)
    noise = torch.randn(5, 6, 1, 4, 4, generator=rng, dtype=torch.float64)
    which = torch.randint(4, (5, 6), generator=rng)
    return common[which] + 0.6 * torch.rand(5, 6, 1, 1, 1, generator=rng, dtype=torch.float64) * noise


@pytest.mark.parametrize("settings", [[0, 1, 2, 3, 4], [0, 0, 1, 1, 2]])
def test_counts_are_those_of_loops(settings: list[int]) -> None:
    candidates = some_trials(0)
    found = agreement(candidates, settings)
    for near in NEAR:
        for enough in OTHERS:
            expected = [by_loops(candidates, settings, own, near, enough) for own in range(5)]
            assert found[f"found_{enough}_{near}"] == pytest.approx(expected)
    assert len(set(found["found_2_0.7"])) > 1


def test_what_one_trial_makes_up_is_not_counted() -> None:
    found = torch.randn(3, 1, 5, 5, generator=torch.Generator().manual_seed(1))
    made_up = torch.randn(2, 1, 5, 5, generator=torch.Generator().manual_seed(2))
    honest = torch.cat([found, found[:2]])
    candidates = torch.stack([torch.cat([found, made_up]), honest, honest])
    assert agreement(candidates, [0, 1, 2])["found_2_0.7"] == pytest.approx([3, 3, 3]), "repeats count once"
    assert agreement(candidates[:2], [0, 1])["found_2_0.7"] == [0, 0], "one other is not enough"
    candidates[1, 4] = torch.nan
    assert agreement(candidates, [0, 1, 2])["found_2_0.7"] == pytest.approx([3, 3, 3]), "nan hides nothing beside it"
    candidates[1:] = torch.nan
    assert agreement(candidates, [0, 1, 2])["found_1_0.7"] == [0, 0, 0]
