"""What a sweep has done: a piece of tensors for each finished batch, and a line for each of its trials.

A piece is written atomically and holds everything; lines are for readers, and are written again from pieces where a
kill came between the two.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from recollect.api import Reconstruction
from recollect.config import TrialSettings
from recollect.runs import RunFolder

LINES = "trials.jsonl"
_PIECES = "trials"
_SETTINGS = tuple(TrialSettings.model_fields)


@dataclass(frozen=True)
class Trial:
    """A finished trial; ``score`` is nan where it diverged."""

    number: int
    settings: TrialSettings
    score: float
    diverged: bool
    stalled: bool
    seconds: float
    piece: str

    def as_line(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "settings": self.settings.model_dump(),
            "score": None if math.isnan(self.score) else self.score,
            "diverged": self.diverged,
            "stalled": self.stalled,
            "seconds": self.seconds,
            "piece": self.piece,
        }


def write_piece(
    folder: RunFolder,
    numbers: Sequence[int],
    settings: Sequence[TrialSettings],
    found: Reconstruction,
    score: Tensor,
    seconds: float,
) -> list[Trial]:
    """A finished batch; what it took is shared by its trials alike."""
    name = f"{_PIECES}/{numbers[0]}-{numbers[-1]}.safetensors"
    tensors = {
        "number": torch.tensor(numbers),
        "score": score.double().masked_fill(found.diverged, math.nan),
        "diverged": found.diverged.byte(),
        "stalled": found.stalled.byte(),
        "seconds": torch.full((len(numbers),), seconds / len(numbers), dtype=torch.float64),
        "candidates": found.candidates.float(),
        "labels": found.labels,
    }
    for key in _SETTINGS:
        tensors[f"settings.{key}"] = torch.tensor([getattr(own, key) for own in settings], dtype=torch.float64)
    if found.duals is not None:
        tensors["duals"] = found.duals.float()
    folder.write_tensors(name, tensors)
    return _trials(name, tensors)


def finished_trials(folder: RunFolder) -> list[Trial]:
    """Every trial of every piece, by number; lines that say the same spare reading large pieces."""
    known = _from_lines(folder)
    pieces = [f"{_PIECES}/{path.name}" for path in (folder.path / _PIECES).glob("[0-9]*.safetensors")]
    needed = ["number", "score", "diverged", "stalled", "seconds", *(f"settings.{key}" for key in _SETTINGS)]
    found = [trial for name in pieces for trial in known.get(name) or _trials(name, folder.read_tensors(name, needed))]
    return sorted(found, key=lambda trial: trial.number)


def write_lines(folder: RunFolder, trials: Sequence[Trial]) -> None:
    """All lines, in one atomic step."""
    folder.write_text(LINES, "".join(json.dumps(trial.as_line(), allow_nan=False) + "\n" for trial in trials))


def _from_lines(folder: RunFolder) -> dict[str, list[Trial]]:
    """Trials by piece, of pieces all of whose lines are there."""
    found: dict[str, list[Trial]] = {}
    for line in folder.read_lines(LINES) if folder.has(LINES) else []:
        trial = _trial(line)
        if trial is not None:
            found.setdefault(trial.piece, []).append(trial)
    return {piece: trials for piece, trials in found.items() if _last(piece) == str(trials[-1].number)}


def _last(piece: str) -> str:
    return piece.removesuffix(".safetensors").rpartition("-")[2]


def _trial(line: dict[str, Any]) -> Trial | None:
    try:
        return Trial(
            number=int(line["number"]),
            settings=TrialSettings.model_validate(line["settings"]),
            score=math.nan if line["score"] is None else float(line["score"]),
            diverged=bool(line["diverged"]),
            stalled=bool(line["stalled"]),
            seconds=float(line["seconds"]),
            piece=str(line["piece"]),
        )
    except (KeyError, TypeError, ValueError):
        return None  # the piece knows better


def _trials(piece: str, tensors: dict[str, Tensor]) -> list[Trial]:
    listed = {name: value.tolist() for name, value in tensors.items() if value.ndim == 1 and name != "labels"}
    return [
        Trial(
            number=number,
            settings=TrialSettings(**{key: listed[f"settings.{key}"][row] for key in _SETTINGS}),
            score=listed["score"][row],
            diverged=bool(listed["diverged"][row]),
            stalled=bool(listed["stalled"][row]),
            seconds=listed["seconds"][row],
            piece=piece,
        )
        for row, number in enumerate(listed["number"])
    ]
