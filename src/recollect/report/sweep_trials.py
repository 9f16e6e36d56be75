"""The trials of a sweep as data: ``trials.jsonl``, and what ``trial_matches.json`` says that each recovered."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from recollect.report.parsing import number, read_lines, read_object

Outcome = Literal["complete", "pruned", "diverged"]
FIGURES = {"recovered": "samples recovered", "good_ssim04": "samples at SSIM > 0.4", "ncc80": "samples at NCC >= 0.8"}
"""What a trial is compared with, the first that is known and not always zero."""


@dataclass(frozen=True)
class SweptTrial:
    """``score`` is nan where there is none, ``found`` None where the trial was not matched."""

    number: int
    settings: dict[str, float]
    score: float
    outcome: Outcome
    steps: int
    found: int | None = None


@dataclass(frozen=True)
class SweptTrials:
    trials: tuple[SweptTrial, ...]
    figure: str
    """What ``found`` counts, in words; empty where nothing was matched."""
    reference_count: int

    @property
    def names(self) -> list[str]:
        """Settings that differ between trials."""
        first = self.trials[0].settings
        return [name for name in first if len({trial.settings.get(name) for trial in self.trials}) > 1]

    def matched(self) -> list[SweptTrial]:
        return [trial for trial in self.trials if trial.found is not None and math.isfinite(trial.score)]

    def picked(self) -> SweptTrial:
        """The one with the best score, of those that were matched."""
        return min(self.matched(), key=lambda trial: (trial.score, trial.number))

    def of(self, outcome: Outcome) -> list[SweptTrial]:
        return [trial for trial in self.trials if trial.outcome == outcome]


def read_trials(folder: Path) -> SweptTrials | None:
    """None where the run is no sweep, or nothing of it has finished."""
    lines = read_lines(folder / "trials.jsonl")
    if not lines:
        return None
    matched = read_object(folder / "trial_matches.json") or {}
    listed = matched.get("trials")
    rows = [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []
    figure = next((name for name in FIGURES if any(number(row.get(name)) for row in rows)), None)
    if figure is None and rows:
        figure = "recovered"
    found = {row.get("number"): number(row.get(figure)) for row in rows} if figure is not None else {}
    trials = tuple(_trial(line, found.get(line.get("number"))) for line in lines)
    return SweptTrials(trials, FIGURES.get(figure or "", ""), int(number(matched.get("reference_count")) or 0))


def rank_correlation(x: Sequence[float], y: Sequence[float]) -> float:
    """Spearman's rho: the correlation of ranks, equals sharing theirs; nan where one of them is constant.

    >>> round(rank_correlation([1, 2, 3, 4], [1, 4, 9, 16]), 6)
    1.0
    """
    ranks = [_ranks(np.asarray(values, dtype=float)) for values in (x, y)]
    if len(x) < 2 or any(np.ptp(rank) == 0 for rank in ranks):
        return math.nan
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def _ranks(values: np.ndarray) -> np.ndarray:
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    return (last - (count - 1) / 2)[place]


def _trial(line: dict[str, Any], found: float | None) -> SweptTrial:
    settings = line.get("settings")
    known = {str(k): number(v) for k, v in settings.items()} if isinstance(settings, dict) else {}
    score, steps = number(line.get("score")), number(line.get("steps"))
    return SweptTrial(
        number=int(number(line.get("number")) or 0),
        settings={name: value for name, value in known.items() if value is not None},
        score=math.nan if score is None else score,
        outcome="diverged" if line.get("diverged") else "pruned" if line.get("pruned") else "complete",
        steps=int(steps or 0),
        found=None if found is None else int(found),
    )
