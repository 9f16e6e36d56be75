"""How well a score tells training samples from held-out ones, at every threshold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from recollect.report.matches import Matches


@dataclass(frozen=True)
class Roc:
    """Shares of held-out (false) and of training samples (true) that pass, from the strictest threshold on."""

    false_positive: list[float]
    true_positive: list[float]
    auc: float
    auc_interval: tuple[float, float] | None = None

    def true_at(self, rate: float) -> float:
        """The share of training samples that pass while at most ``rate`` of the held-out ones do."""
        pairs = zip(self.false_positive, self.true_positive, strict=True)
        return max((true for false, true in pairs if false <= rate + 1e-12), default=0.0)


def roc_of(matches: Matches) -> Roc | None:
    """None without training samples or without held-out ones. A sample that nothing matched scores worst."""
    sign = -1 if matches.score == "distance" else 1
    training = [sign * sample.score(matches.score) for sample in matches.samples]
    held_out = [sign * value for value in matches.null.get(matches.score, [])]
    return roc(training, held_out) if training and held_out else None


def roc(training: Sequence[float], held_out: Sequence[float]) -> Roc:
    """The curve through all thresholds; equal scores pass together.

    >>> roc([0.9, 0.8], [0.8, 0.1]).auc
    0.875
    """
    scores = np.nan_to_num(np.array([*training, *held_out], dtype=float), nan=-np.inf, posinf=np.inf, neginf=-np.inf)
    member = np.arange(len(scores)) < len(training)
    thresholds, where = np.unique(-scores, return_inverse=True)
    true = np.concatenate([[0], np.bincount(where[member], minlength=len(thresholds)).cumsum() / len(training)])
    false = np.concatenate([[0], np.bincount(where[~member], minlength=len(thresholds)).cumsum() / len(held_out)])
    up, right = np.diff(true) > 0, np.diff(false) > 0
    corner = np.ones(len(true), dtype=bool)  # but for the middle of a straight way up or to the right
    corner[1:-1] = (up[:-1] & up[1:] & (right[:-1] | right[1:])) | (up[:-1] != up[1:])
    area = float(((true[1:] + true[:-1]) / 2 * np.diff(false)).sum())
    return Roc(false[corner].tolist(), true[corner].tolist(), area)
