"""How well a score tells training samples from held-out ones, at every threshold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from recollect.analysis import detection
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
    curve = detection.roc(_worst_where_missing(training), _worst_where_missing(held_out))
    return Roc(curve.false_positive.tolist(), curve.true_positive.tolist(), curve.auc, curve.auc_interval)


def _worst_where_missing(scores: Sequence[float]) -> Float[Tensor, " n"]:
    return torch.tensor(scores, dtype=torch.float64).nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
