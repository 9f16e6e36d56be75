"""The trials of a sweep as data: ``trials.jsonl``, and what other files know of them.

``trial_matches.json`` says what each recovered, ``agreement.json`` how much of the best others found too.
"""

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
    confirmed: float | None = None
    """How many of its candidates others found too; None where nobody looked."""


@dataclass(frozen=True)
class SweptTrials:
    trials: tuple[SweptTrial, ...]
    figure: str
    """What ``found`` counts, in words; empty where nothing was matched."""
    reference_count: int
    believed: int | None = None
    """The number of the trial that is ranked first; None where nobody chose."""

    @property
    def names(self) -> list[str]:
        """Settings that differ between trials."""
        first = self.trials[0].settings
        return [name for name in first if len({trial.settings.get(name) for trial in self.trials}) > 1]

    def matched(self) -> list[SweptTrial]:
        return [trial for trial in self.trials if trial.found is not None and math.isfinite(trial.score)]

    def picked(self) -> SweptTrial:
        """The trial that is ranked first, or the one with the best score."""
        best = min(self.matched(), key=lambda trial: trial.score)
        return next((trial for trial in self.matched() if trial.number == self.believed), best)

    def of(self, outcome: Outcome) -> list[SweptTrial]:
        return [trial for trial in self.trials if trial.outcome == outcome]


def read_trials(folder: Path) -> SweptTrials | None:
    """None where the run is no sweep, or nothing of it has finished."""
    lines = read_lines(folder / "trials.jsonl")
    if not lines:
        return None
    matched, agreed = (read_object(folder / name) or {} for name in ("trial_matches.json", "agreement.json"))
    rows = _rows(matched)
    figure = next((name for name in FIGURES if any(number(row.get(name)) for row in rows)), None)
    if figure is None and rows:
        figure = "recovered"
    found = {row.get("number"): number(row.get(figure)) for row in rows} if figure is not None else {}
    confirmed = {row.get("number"): number(row.get("confirmed")) for row in _rows(agreed)}
    numbered = [(line, line.get("number")) for line in lines]
    trials = tuple(_trial(line, found.get(place), confirmed.get(place)) for line, place in numbered)
    count, believed = number(matched.get("reference_count")) or 0, number(agreed.get("best_trial"))
    return SweptTrials(trials, FIGURES.get(figure or "", ""), int(count), None if believed is None else int(believed))


def _rows(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Those of ``trials``, as far as they are any."""
    listed = record.get("trials")
    return [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []


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


def _trial(line: dict[str, Any], found: float | None, confirmed: float | None) -> SweptTrial:
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
        confirmed=confirmed,
    )
