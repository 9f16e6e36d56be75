"""matches.json as data: which training samples were found, and how well held-out ones scored."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recollect.core import RecollectError
from recollect.report.parsing import number, numbers, read_object

SCORES = ("ncc", "ssim", "distance")
UNMATCHED = -1.0
"""NCC of a sample that no candidate is nearest to."""


@dataclass(frozen=True)
class Sample:
    """One training sample and what came nearest to it; None for what was not measured."""

    index: int | None
    label: int | None
    output: float | None
    ncc: float | None
    ssim: float | None
    psnr: float | None
    distance: float | None
    candidate: tuple[int, int] | None
    votes: int | None
    recovered: bool | None

    def score(self, name: str) -> float:
        """The named score; nan when there is none."""
        value = {"ncc": self.ncc, "ssim": self.ssim, "distance": self.distance}[name]
        return math.nan if value is None else value


@dataclass(frozen=True)
class Matches:
    """What matching found: a row per training sample, and the scores of held-out samples."""

    score: str
    threshold: float | None
    samples: tuple[Sample, ...]
    null: dict[str, list[float]]
    of_margins: bool = False
    """Whether a sample's ``output`` is its margin: the output of its class less the largest other one."""

    def best_first(self) -> list[int]:
        """Positions of the samples by score, unmatched ones last, equals in the file's order."""
        sign = 1 if self.score == "distance" else -1
        scores = [sign * sample.score(self.score) for sample in self.samples]
        return sorted(range(len(scores)), key=lambda row: math.inf if math.isnan(scores[row]) else scores[row])


def read_matches(path: Path) -> Matches | None:
    """None when there is no such file."""
    record = read_object(path)
    if record is None:
        return None
    samples, null = record.get("samples"), record.get("null")
    if record.get("score") not in SCORES or not isinstance(samples, list):
        raise RecollectError(
            f"{path} needs a list of samples and a score among {', '.join(SCORES)}, got the score "
            f"{record.get('score')!r}; run the match stage again."
        )
    if not all(isinstance(sample, dict) for sample in samples):
        raise RecollectError(f"{path} lists a sample that is not an object; run the match stage again.")
    luck = {name: numbers(null.get(name)) for name in SCORES} if isinstance(null, dict) else {}
    return Matches(
        score=record["score"],
        threshold=number(record.get("threshold")),
        samples=tuple(_sample(entry) for entry in samples),
        null=luck,
        of_margins=record.get("output") == "margin",
    )


def lifted(values: Sequence[float]) -> list[float]:
    """Scores to draw: samples that no candidate is nearest to stand with the least of the others, and stretch no axis.

    >>> lifted([0.5, -1.0, 0.25])
    [0.5, 0.25, 0.25]
    """
    least = min((value for value in values if math.isfinite(value) and value != UNMATCHED), default=UNMATCHED)
    return [least if value == UNMATCHED else value for value in values]


def _sample(entry: dict[str, Any]) -> Sample:
    candidate = numbers(entry.get("candidate"))
    recovered = entry.get("recovered")
    return Sample(
        index=_whole(entry.get("index")),
        label=_whole(entry.get("label")),
        output=number(entry.get("output")),
        ncc=number(entry.get("ncc")),
        ssim=number(entry.get("ssim")),
        psnr=number(entry.get("psnr")),
        distance=number(entry.get("distance")),
        candidate=None if len(candidate) != 2 or math.isnan(sum(candidate)) else _pair(candidate),
        votes=_whole(entry.get("votes")),
        recovered=recovered if isinstance(recovered, bool) else None,
    )


def _pair(values: list[float]) -> tuple[int, int]:
    return int(values[0]), int(values[1])


def _whole(value: object) -> int | None:
    found = number(value)
    return None if found is None else int(found)
