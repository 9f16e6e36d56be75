"""Curves of a sweep: the traces of its trials, from the pieces that hold them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from recollect.report.curves import Trace
from recollect.report.parsing import read_tensors

_PREFIX, _STEP = "trace.", "trace.step"
_FIRST = ("stationarity", "dual_floor")
"""As an attack lists them; tensors in a file have no order."""


@dataclass(frozen=True)
class _Piece:
    """Trials that ended together."""

    numbers: list[int]
    steps: list[int]
    terms: dict[str, Float[Tensor, "T steps"]]


def read_trial_traces(folder: Path) -> Trace | None:
    """A column for each trial, by number, nan where it did not come; None where no piece holds a trace."""
    found = [_read(path) for path in folder.glob("[0-9]*.safetensors")]
    pieces = sorted((piece for piece in found if piece is not None), key=lambda piece: piece.numbers)
    if not any(piece.terms for piece in pieces):
        return None
    rows = {step: row for row, step in enumerate(sorted({step for piece in pieces for step in piece.steps}))}
    numbers = [number for piece in pieces for number in piece.numbers]
    order = sorted(range(len(numbers)), key=lambda place: numbers[place])
    terms = {
        name: torch.cat([_placed(piece, name, rows) for piece in pieces], dim=1)[:, order] for name in _names(pieces)
    }
    return Trace([float(step) for step in rows], terms)


def _read(path: Path) -> _Piece | None:
    """None where a piece has no trace, or one of another shape; it has no terms where all trials diverged at once."""
    stored = read_tensors(path, ("number",), _PREFIX) or {}
    numbers, steps = stored.pop("number", torch.empty(0)).flatten(), stored.pop(_STEP, torch.empty(0)).flatten()
    shape = (len(numbers), len(steps))
    terms = {name.removeprefix(_PREFIX): values for name, values in stored.items()}
    if not len(steps) or any(values.shape != shape or not values.is_floating_point() for values in terms.values()):
        return None
    return _Piece(numbers.long().tolist(), steps.long().tolist(), terms)


def _names(pieces: list[_Piece]) -> list[str]:
    known = {name for piece in pieces for name in piece.terms}
    return [*(name for name in _FIRST if name in known), *sorted(known.difference(_FIRST))]


def _placed(piece: _Piece, name: str, rows: dict[int, int]) -> Float[Tensor, "steps T"]:
    columns = torch.full((len(rows), len(piece.numbers)), math.nan)
    if name in piece.terms:
        values = piece.terms[name].float().T
        columns[[rows[step] for step in piece.steps]] = values.masked_fill(~values.isfinite(), math.nan)
    return columns
