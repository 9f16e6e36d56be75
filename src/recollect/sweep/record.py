"""What a sweep has done: a piece of tensors for trials that ended together, and a line for each of them.

A piece is written atomically and holds everything; lines are for readers, and are written again from pieces where a
kill came between the two.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from recollect.config import TrialSettings
from recollect.runs import RunFolder
from recollect.sweep.pieces import SETTINGS

LINES = "trials.jsonl"
_PIECES = "trials"
_NEEDED = ("number", "score", "diverged", "stalled", "pruned", "steps", "seconds", "rungs")


@dataclass(frozen=True)
class Trial:
    """A trial that ended; ``score`` is nan where it diverged, the last one where it was pruned."""

    number: int
    settings: TrialSettings
    score: float
    diverged: bool
    stalled: bool
    seconds: float
    piece: str
    pruned: bool = False
    steps: int = 0
    rungs: tuple[float, ...] = ()
    """Its scores where trials are compared on their way, as far as it came."""

    @property
    def complete(self) -> bool:
        """Whether it came to its end, so that its candidates count."""
        return not (self.diverged or self.pruned)

    def as_line(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "settings": self.settings.model_dump(),
            "score": None if math.isnan(self.score) else self.score,
            "diverged": self.diverged,
            "stalled": self.stalled,
            "pruned": self.pruned,
            "steps": self.steps,
            "seconds": self.seconds,
            "rungs": list(self.rungs),
            "piece": self.piece,
        }


def write_piece(folder: RunFolder, tensors: dict[str, Tensor]) -> list[Trial]:
    """Trials that ended together, in the order of their numbers; no other piece begins with the same one."""
    first, *_, last = [int(number) for number in tensors["number"].tolist()] * 2
    name = f"{_PIECES}/{first}-{last}.safetensors"
    folder.write_tensors(name, tensors)
    return _trials(name, tensors)


def finished_trials(folder: RunFolder) -> list[Trial]:
    """Every trial of every piece, by number; lines that say the same spare reading large pieces."""
    known = _from_lines(folder)
    pieces = [f"{_PIECES}/{path.name}" for path in (folder.path / _PIECES).glob("[0-9]*.safetensors")]
    needed = [*_NEEDED, *(f"settings.{key}" for key in SETTINGS)]
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
            pruned=bool(line["pruned"]),
            steps=int(line["steps"]),
            rungs=tuple(float(score) for score in line["rungs"]),
        )
    except (KeyError, TypeError, ValueError):
        return None  # the piece knows better


def _trials(piece: str, tensors: dict[str, Tensor]) -> list[Trial]:
    names = [*_NEEDED, *(f"settings.{key}" for key in SETTINGS)]
    listed = {name: tensors[name].tolist() for name in names}
    return [
        Trial(
            number=number,
            settings=TrialSettings(**{key: listed[f"settings.{key}"][row] for key in SETTINGS}),
            score=listed["score"][row],
            diverged=bool(listed["diverged"][row]),
            stalled=bool(listed["stalled"][row]),
            seconds=listed["seconds"][row],
            piece=piece,
            pruned=bool(listed["pruned"][row]),
            steps=listed["steps"][row],
            rungs=tuple(score for score in listed["rungs"][row] if not math.isnan(score)),
        )
        for row, number in enumerate(listed["number"])
    ]
