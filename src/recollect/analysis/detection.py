"""How sure one can be that scores of training samples are no luck, for held-out sets of any size.

Everything rests on one assumption: were the network independent of the training samples, their scores and those of
held-out samples would be exchangeable. Nothing is assumed about how scores are distributed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import torch
from jaxtyping import Float
from torch import Tensor

from recollect.core import RecollectError

_HALVINGS = 60
"""Of the interval in which a bound is sought; more would not change a float64."""


@dataclass(frozen=True)
class Roc:
    """Shares of held-out and of training samples above each threshold, from the highest threshold down."""

    false_positive: Float[Tensor, " points"]
    true_positive: Float[Tensor, " points"]
    auc: float
    auc_interval: tuple[float, float]

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


def clopper_pearson(passed: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Exact interval of a binomial share (Clopper and Pearson 1934).

    >>> low, high = clopper_pearson(0, 10)
    >>> low, round(high, 4)
    (0.0, 0.3085)
    """
    if not 0 <= passed <= n or n < 1 or not 0 < confidence < 1:
        raise RecollectError(
            f"got {passed} of {n} at confidence {confidence}; give a count between 0 and n and a confidence below 1."
        )
    tail = (1 - confidence) / 2
    low = 0.0 if passed == 0 else _solved(_upper_tail(passed, n), tail)
    high = 1.0 if passed == n else _solved(_upper_tail(passed + 1, n), 1 - tail)
    return low, high


def beyond_luck(passed: int, n: int, rate: float, confidence: float = 0.95) -> tuple[float, float]:
    """How many of ``n`` samples pass for another reason than luck, which lets at most ``rate`` of the others pass.

    With p the probability to pass and q the share that passes for a reason, ``q <= p <= q + (1 - q) rate``: the lower
    bound is ``(p - rate) / (1 - rate)`` at the lowest p of the interval, the upper bound its highest p.

    >>> beyond_luck(0, 100, 0.01)[0]
    0.0
    """
    low, high = clopper_pearson(passed, n, confidence)
    return n * max(0.0, (low - rate) / (1 - rate)), n * high


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
    reach = NormalDist().inv_cdf((1 + confidence) / 2) * deviation
    return Roc(false_positive[kept], true_positive[kept], auc, (max(0.0, auc - reach), min(1.0, auc + reach)))


def _area(members: Tensor, others: Tensor) -> tuple[float, float]:
    """``P(member > other) + P(equal) / 2`` and its standard deviation, from each sample's share in it."""
    of_members = _midrank(members, others) / len(others)
    of_others = 1 - _midrank(others, members) / len(members)
    variances = [
        values.var() / len(values) if len(values) > 1 else torch.zeros(()) for values in (of_members, of_others)
    ]
    return float(of_members.mean()), math.sqrt(float(variances[0] + variances[1]))


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


def _upper_tail(least: int, n: int) -> Callable[[float], float]:
    """``P(X >= least)`` for X binomial, as a function of the share."""
    k = torch.arange(least, n + 1, dtype=torch.float64)
    whole = torch.tensor(n + 1.0, dtype=torch.float64)
    logs = torch.lgamma(whole) - torch.lgamma(k + 1) - torch.lgamma(n - k + 1)

    def tail(share: float) -> float:
        return float((logs + k * math.log(share) + (n - k) * math.log1p(-share)).exp().sum())

    return tail


def _solved(increasing: Callable[[float], float], value: float) -> float:
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if increasing(middle) < value else (low, middle)
    return (low + high) / 2


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _require_numbers(scores: Tensor, null: Tensor) -> None:
    if not len(scores) or not len(null) or bool(scores.isnan().any()) or bool(null.isnan().any()):
        raise RecollectError(
            f"got {len(scores)} scores of training samples and {len(null)} of held-out ones; at least one of each is "
            "needed and all must be numbers, so give samples that are finite."
        )
