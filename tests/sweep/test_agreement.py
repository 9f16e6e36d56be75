"""What other trials confirm: against a loop over all pairs, along orbits, and in the folder of a sweep."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from recollect.groups import Group
from recollect.sweep.agreement import about_as_good, confirmed, rating
from recollect.symmetries import named_group

Command = Callable[..., Any]


def by_loops(candidates: Tensor, own: int, near: float, enough: int, group: Group | None = None) -> float:
    """Every pair by NumPy's correlation; each candidate moved by every element."""

    def correlation(x: Tensor, y: Tensor) -> float:
        moved = [x] if group is None else list(group.orbit(x))
        return max(float(np.corrcoef(each.flatten(), y.flatten())[0, 1]) for each in moved)

    total = 0.0
    for candidate in candidates[own]:
        found_by = sum(
            max(correlation(candidate, other) for other in candidates[trial]) > near
            for trial in range(len(candidates))
            if trial != own
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


@pytest.mark.parametrize("group", [None, "d4"])
@pytest.mark.parametrize(("near", "enough"), [(0.7, 2), (0.8, 1), (0.9, 3)])
def test_counts_are_those_of_loops(near: float, enough: int, group: str | None) -> None:
    candidates = some_trials(0)
    moving = None if group is None else named_group(group, (1, 4, 4))
    counts = [confirmed(candidates, own, moving, near, enough) for own in range(5)]
    assert counts == pytest.approx([by_loops(candidates, own, near, enough, moving) for own in range(5)])
    assert len(set(counts)) > 1


def test_what_one_trial_makes_up_is_not_counted() -> None:
    found = torch.randn(3, 1, 5, 5, generator=torch.Generator().manual_seed(1))
    made_up = torch.randn(2, 1, 5, 5, generator=torch.Generator().manual_seed(2))
    honest = torch.cat([found, found[:2]])
    candidates = torch.stack([torch.cat([found, made_up]), honest, honest])
    assert confirmed(candidates, 0) == pytest.approx(3)
    assert confirmed(candidates, 1) == pytest.approx(3), "repeats count once"
    assert confirmed(candidates[:2], 0) == 0, "one other is not enough"
    candidates[1:] = torch.nan
    assert confirmed(candidates, 0) == 0


def test_moving_candidates_along_their_orbits_changes_nothing() -> None:
    group = named_group("d4", (1, 4, 4))
    candidates = some_trials(3)
    moved = candidates.clone()
    moved[1], moved[3] = candidates[1].flip(-1), candidates[3].rot90(1, (-2, -1))
    for own in range(5):
        assert confirmed(moved, own, group) == pytest.approx(confirmed(candidates, own, group))


def test_scores_within_reach_are_rated_by_what_others_confirm() -> None:
    assert about_as_good([0.3, 0.24, float("nan"), 0.2, 0.2401]) == [1, 3]
    assert about_as_good([float("nan")]) == []
    assert rating(0.2, 10) > rating(0.24, 10) > rating(0.2, 9)
    assert rating(0.0, 0) == float("inf")


def test_a_sweep_says_which_trial_to_believe(command: Command, tiny: list[str], tmp_path: Path) -> None:
    run = tmp_path / "run"
    ended = command("sweep", "--preset", "demo", *tiny, "--trials", "5", "--batch", "5", "--out", run, "--json")
    assert ended.code == 0, ended.err
    summary = json.loads(ended.out)
    scores = {
        line["number"]: line["score"] for line in map(json.loads, (run / "trials.jsonl").read_text().splitlines())
    }
    record = json.loads((run / "agreement.json").read_text())
    rated = {line["number"]: line["rating"] for line in record["trials"]}
    assert summary["best_trial"] == record["best_trial"] == max(rated, key=lambda number: rated[number])
    assert summary["best_trial_score"] == scores[summary["best_trial"]]
    smallest = min(score for score in scores.values() if score is not None)
    assert set(rated) == {number for number, score in scores.items() if score is not None and score <= 1.2 * smallest}
    page = (run / "report.html").read_text()
    assert "confirmed by others" in page
    assert f"Trial {record['best_trial']}, with a good score that others confirm most" in page


def test_few_trials_are_ranked_by_their_score(command: Command, tiny: list[str], tmp_path: Path) -> None:
    run = tmp_path / "run"
    ended = command("sweep", "--preset", "demo", *tiny, "--trials", "2", "--batch", "2", "--out", run, "--json")
    assert ended.code == 0, ended.err
    assert not (run / "agreement.json").exists()
    assert "confirmed by others" not in (run / "report.html").read_text()
    grown = command("sweep", "--resume", run, "--trials", "4", "--json")
    assert grown.code == 0, grown.err
    assert (run / "agreement.json").exists()
