"""Two runs on the same samples, sample by sample: what was exposed before, and what is after."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from recollect.core import RecollectError
from recollect.report.charts import SCORE_NAMES
from recollect.report.folder import Run
from recollect.report.matches import Matches, Sample
from recollect.report.words import text

EXPOSED, HIDDEN, BOTH, NEITHER = "newly exposed", "newly hidden", "recovered in both", "recovered in neither"
_RULE = ("ssim_window", "scaling", "vote_ratio", "each_candidate_once", "group")


@dataclass(frozen=True)
class Change:
    """One sample in both runs, with its row in each."""

    before: Sample
    after: Sample
    rows: tuple[int, int]

    @property
    def state(self) -> str:
        pair = (bool(self.before.recovered), bool(self.after.recovered))
        return {(False, True): EXPOSED, (True, False): HIDDEN, (True, True): BOTH, (False, False): NEITHER}[pair]

    def amount(self, score: str) -> float:
        """After less before; nan when one of them is not known."""
        return self.after.score(score) - self.before.score(score)


@dataclass(frozen=True)
class Comparison:
    before: Run
    after: Run
    score: str
    changes: tuple[Change, ...]
    cautions: tuple[str, ...]

    def count(self, state: str) -> int:
        return sum(change.state == state for change in self.changes)

    def pictures(self) -> tuple[Float[Tensor, "n c h w"], ...] | None:
        """Training images, reconstructions before, reconstructions after, a row for each change."""
        stacks = (self.after.reference, self.before.reconstruction, self.after.reconstruction)
        if not self.after.of_images or self.before.sample_shape != self.after.sample_shape:
            return None
        first, second = ([change.rows[place] for change in self.changes] for place in (0, 1))
        reference, before, after = stacks
        return (
            None
            if reference is None or before is None or after is None
            else (reference[second], before[first], after[second])
        )


def compare(before: Run, after: Run) -> Comparison:
    """Samples that both runs have, by their position in the data source, the largest change of score first."""
    first, second = _matches(before), _matches(after)
    if first.score != second.score:
        raise RecollectError(
            f"{before.path} was judged by {SCORE_NAMES[first.score]} and {after.path} by {SCORE_NAMES[second.score]}; "
            "match one of them again with --set match.score=..."
        )
    places = {sample.index: row for row, sample in enumerate(first.samples) if sample.index is not None}
    changes = [
        Change(first.samples[places[sample.index]], sample, (places[sample.index], row))
        for row, sample in enumerate(second.samples)
        if sample.index in places
    ]
    if not changes:
        raise RecollectError(
            f"{before.path} and {after.path} have no training sample in common; compare runs on the same data."
        )
    changes.sort(key=lambda change: -_size(change.amount(first.score)))
    made = Comparison(before, after, first.score, tuple(changes), ())
    return Comparison(before, after, first.score, tuple(changes), tuple(_cautions(made, first, second)))


def _matches(run: Run) -> Matches:
    if run.matches is None or not run.matches.samples:
        raise RecollectError(f"{run.path} has no matched samples to compare; run 'recollect match' with --data first.")
    return run.matches


def _size(amount: float) -> float:
    return -1.0 if math.isnan(amount) else abs(amount)


def _cautions(made: Comparison, first: Matches, second: Matches) -> list[str]:
    """What makes the two runs less than comparable."""
    found = []
    for key in _RULE:
        values = [text(run.summary.get(key)) for run in (made.before, made.after)]
        if values[0] != values[1]:
            found.append(f"The rule of matching differs: {key} is {values[0]} before and {values[1]} after.")
    left = (len(first.samples) - len(made.changes), len(second.samples) - len(made.changes))
    if any(left):
        found.append(f"Samples in the first run alone: {left[0]}, in the second alone: {left[1]}; they are left out.")
    if any(change.before.label != change.after.label for change in made.changes):
        found.append("Some samples have another label in the second run: are these runs on the same data?")
    if _other_pictures(made):
        found.append("Some samples look different in the second run: are these runs on the same data?")
    effort = [[text(run.summary.get(key)) for key in ("trials", "steps")] for run in (made.before, made.after)]
    if effort[0] != effort[1]:
        first_effort, second_effort = (f"{trials} trials of {steps} steps" for trials, steps in effort)
        found.append(f"The search differs: {first_effort} before, {second_effort} after.")
    return found


def _other_pictures(made: Comparison) -> bool:
    first, second = made.before.reference, made.after.reference
    if first is None or second is None or first.shape[1:] != second.shape[1:]:
        return False
    rows = [list(side) for side in zip(*(change.rows for change in made.changes), strict=True)]
    return not torch.allclose(first[rows[0]].float(), second[rows[1]].float(), atol=1 / 255)
