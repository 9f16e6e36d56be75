"""How sure one can be that scores of training samples are no luck, for held-out sets of any size.

Everything rests on one assumption: were the network independent of the training samples, their scores and those of
held-out samples would be exchangeable. Nothing is assumed about how scores are distributed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import torch
from jaxtyping import Float
from torch import Tensor

from recollect.core import RecollectError


@dataclass(frozen=True)
class Roc:
    """Shares of held-out and of training samples above each threshold, from the highest threshold down."""

    false_positive: Float[Tensor, " points"]
    true_positive: Float[Tensor, " points"]
    auc: float
    auc_interval: tuple[float, float] | None
    """None where all scores of one kind lie above all of the other, or one kind has a single score."""

    def true_positive_at(self, false_positive_rate: float) -> float:
        """Largest share of training samples above a threshold that at most this share of held-out ones passes."""
        return float(self.true_positive[self.false_positive <= false_positive_rate + 1e-12].max())


def conformal_p_values(scores: Float[Tensor, " n"], null: Float[Tensor, " k"]) -> Float[Tensor, " n"]:
    """``p_i = (1 + #{j: null_j >= s_i}) / (k + 1)`` (Vovk et al. 2005, conformal prediction).

    Of a score exchangeable with the null's, ``P(p <= a) <= a`` for every a, whatever the size of the null.

    >>> conformal_p_values(torch.tensor([0.9, 0.5]), torch.tensor([0.1, 0.5, 0.6])).tolist()
    [0.25, 0.75]
    """
    _require_numbers(scores, null)
    ordered = null.double().sort().values
    below = torch.searchsorted(ordered, scores.double().contiguous(), side="left")
    return (1 + len(null) - below).double() / (len(null) + 1)


def exchangeable_luck(passed: int, n: int, allowed: int, null_count: int) -> float:
    """Probability that luck alone lets at least ``passed`` of ``n`` scores exceed all but ``allowed`` null scores.

    Of ``n + k`` exchangeable scores, ``passed`` of the n stand before the null's ``allowed + 1``-st highest when at
    most ``allowed`` of the first ``passed + allowed`` are the null's: a hypergeometric tail. A binomial tail would
    take the threshold for known, though it moves with the null's few highest scores.

    >>> round(exchangeable_luck(1, 3, 0, 1), 3), round(exchangeable_luck(10, 500, 0, 200), 3)
    (0.75, 0.034)
    """
    if passed <= 0:
        return 1.0
    draws, total = passed + allowed, n + null_count
    terms = [
        _log_choose(null_count, above) + _log_choose(n, draws - above) - _log_choose(total, draws)
        for above in range(max(0, draws - n), min(allowed, null_count) + 1)
    ]
    return min(1.0, math.fsum(math.exp(term) for term in terms))


def least_beyond_luck(passed: int, n: int, allowed: int, null_count: int, doubt: float = 0.05) -> int:
    """How many of ``passed`` scores pass for another reason than luck, at least; too high with probability ``doubt``.

    If that were so for fewer than l, then n - l + 1 scores or more would be exchangeable with the null's, and
    passed - l + 1 of them would have passed: the largest l for which luck does that with probability ``doubt`` at most.

    >>> least_beyond_luck(30, 100, 3, 400), least_beyond_luck(5, 500, 3, 400)
    (28, 0)
    """

    def excluded(others: int) -> bool:
        return exchangeable_luck(passed - others, n - others, allowed, null_count) <= doubt

    # The more pass for a reason, the fewer are left for luck to explain.
    low, high = 0, passed
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if excluded(middle) else (low, middle)
    return low


def roc(members: Float[Tensor, " n"], others: Float[Tensor, " k"], confidence: float = 0.95) -> Roc:
    """The curve over all thresholds, its area, and the interval of the area (DeLong et al. 1988).

    >>> curve = roc(torch.tensor([0.9, 0.8, 0.3]), torch.tensor([0.1, 0.5]))
    >>> round(curve.auc, 4), round(curve.true_positive_at(0.0), 4)
    (0.8333, 0.6667)
    """
    _require_numbers(members, others)
    members, others = members.double().cpu(), others.double().cpu()
    thresholds = torch.cat([members, others]).unique().flip(0)
    shares = [_share_from(values, thresholds) for values in (others, members)]
    false_positive, true_positive = (torch.cat([torch.zeros(1, dtype=torch.float64), share]) for share in shares)
    kept = _corners(false_positive, true_positive)
    auc, deviation = _area(members, others)
    interval = None
    if deviation is not None:
        reach = NormalDist().inv_cdf((1 + confidence) / 2) * deviation
        interval = max(0.0, auc - reach), min(1.0, auc + reach)
    return Roc(false_positive[kept], true_positive[kept], auc, interval)


def _area(members: Tensor, others: Tensor) -> tuple[float, float | None]:
    """``P(member > other) + P(equal) / 2`` and its standard deviation, from each sample's share in it.

    Nobody knows the latter where a side has one sample, or no share differs.
    """
    of_members = _midrank(members, others) / len(others)
    of_others = 1 - _midrank(others, members) / len(members)
    if min(len(members), len(others)) < 2:
        return float(of_members.mean()), None
    variance = float(of_members.var() / len(members) + of_others.var() / len(others))
    return float(of_members.mean()), math.sqrt(variance) if variance else None


def _midrank(values: Tensor, among: Tensor) -> Tensor:
    """How many are below each value; equal ones count half."""
    ordered = among.sort().values
    sides = [torch.searchsorted(ordered, values.contiguous(), side=side).double() for side in ("left", "right")]
    return (sides[0] + sides[1]) / 2


def _share_from(values: Tensor, thresholds: Tensor) -> Tensor:
    """Share of values at or above each threshold."""
    below = torch.searchsorted(values.sort().values, thresholds.contiguous(), side="left")
    return 1 - below.double() / len(values)


def _corners(x: Tensor, y: Tensor) -> Tensor:
    """Points in the middle of a level or an upright line say nothing; those on a slope are thresholds."""
    level, upright = y.diff() == 0, x.diff() == 0
    ends = torch.ones(1, dtype=torch.bool)
    return torch.cat([ends, ~((level[:-1] & level[1:]) | (upright[:-1] & upright[1:])), ends])


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _require_numbers(scores: Tensor, null: Tensor) -> None:
    if not len(scores) or not len(null) or bool(scores.isnan().any()) or bool(null.isnan().any()):
        raise RecollectError(
            f"got {len(scores)} scores of training samples and {len(null)} of held-out ones; at least one of each is "
            "needed and all must be numbers, so give samples that are finite."
        )
