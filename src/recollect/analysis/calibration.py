"""What counts as recovered: scores that held-out samples, which the network never saw, do not reach.

Matching the same candidates against held-out samples of the same distribution shows what luck scores. A
training sample is recovered when it scores above a high quantile of that null distribution.

The mean that makes an image of a reconstruction holds 1/n of every training image, which no attack had to find: with
ten images that alone lets noise resemble them. So each held-out sample is scored with a mean that holds 1/n of it too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from recollect.analysis.distance import Pool
from recollect.analysis.matching import Matches, MatchRule, candidate_pool, match, nearest_distance
from recollect.core import RecollectError
from recollect.groups import Group

Score = Literal["ncc", "ssim", "distance"]


@dataclass(frozen=True)
class NullThreshold:
    """A sample counts as recovered when its score is strictly above ``value``."""

    value: float
    quantile_asked: float
    false_positive_rate: float
    """The share of unseen samples that score above ``value`` is at most this, in expectation."""
    null_count: int


@dataclass(frozen=True)
class NullScores:
    """What held-out samples scored, all groups together; ``ssim`` is None without images."""

    ncc: Float[Tensor, " k"]
    ssim: Float[Tensor, " k"] | None
    variants: dict[str, Float[Tensor, " k"]] = field(default_factory=dict)
    """As in `Matches`."""


@dataclass(frozen=True)
class Judgement:
    """Matches with the training samples, and how many of them are more than luck.

    ``threshold``, ``recovered`` and ``null_recovered`` are None where nothing was calibrated.
    """

    matches: Matches
    null: NullScores | None
    score: Score
    threshold: NullThreshold | None
    recovered: Bool[Tensor, " n"] | None
    null_recovered: int | None


def null_threshold(scores: Float[Tensor, " k"], quantile: float = 0.99) -> NullThreshold:
    """The split-conformal quantile: the ``ceil((k + 1) q)``-th smallest of ``k`` null scores (Vovk 2005).

    A further score exchangeable with these exceeds the r-th smallest with probability at most
    ``(k + 1 - r) / (k + 1)``. When ``k`` is too small for the quantile asked, r = k: the largest score, and
    all that can be promised is ``1 / (k + 1)``.

    >>> null_threshold(torch.arange(1.0, 200.0)).value
    198.0
    >>> null_threshold(torch.tensor([0.3, 0.1, 0.2])).false_positive_rate
    0.25
    """
    if not 0 < quantile < 1:
        raise RecollectError(f"quantile is {quantile}; choose a number between 0 and 1, such as 0.99")
    k = scores.numel()
    if k == 0 or bool(scores.isnan().any()):
        raise RecollectError(
            f"got {k} null scores, {int(scores.isnan().sum())} of them not numbers; calibration needs "
            "at least one and all must be numbers, so pass held-out samples that are finite"
        )
    # The small subtraction keeps a product such as 100 x 0.99 from rounding up to the next rank.
    rank = min(max(math.ceil((k + 1) * quantile - 1e-9), 1), k)
    value = float(scores.flatten().sort().values[rank - 1])
    return NullThreshold(value, quantile, (k + 1 - rank) / (k + 1), k)


def null_scores(
    candidates: Pool,
    holdout: Float[Tensor, "k ..."],
    group_size: int,
    mean: Float[Tensor, "*sample"],
    rule: MatchRule,
    added: Float[Tensor, "k ..."],
) -> NullScores:
    """Scores of held-out samples, in groups as large as the training set where each candidate serves only one sample.

    Then samples compete for candidates, so a score depends on how many there are and of which kinds: only groups of
    the training set's size are exchangeable with it, drawn at random, since files may be sorted by class. A remainder
    smaller than ``group_size`` is dropped, unless it is the only group; then competition is weaker than in training and
    the null scores are, if anything, too high.
    """
    groups = [torch.arange(len(holdout))]
    if rule.each_candidate_once:
        order = torch.randperm(len(holdout), generator=torch.Generator().manual_seed(0))
        whole = max(len(holdout) // group_size, 1)
        groups = [group.sort().values for group in order.split(group_size)[:whole]]
    scored = [_group_scores(candidates, holdout[group], mean, rule, added[group]) for group in groups]
    similarity = [scores.ssim for scores in scored if scores.ssim is not None]
    return NullScores(
        torch.cat([scores.ncc for scores in scored]),
        torch.cat(similarity) if similarity else None,
        {name: torch.cat([scores.variants[name] for scores in scored]) for name in scored[0].variants},
    )


def judge(
    candidates: Float[Tensor, "k ..."],
    x: Float[Tensor, "n ..."],
    mean: Float[Tensor, "*sample"],
    holdout: Float[Tensor, "h ..."] | None = None,
    rule: MatchRule = MatchRule(),
    score: Score = "ncc",
    quantile: float = 0.99,
    holdout_mean: Float[Tensor, "h ..."] | None = None,
) -> Judgement:
    """Match candidates with the training samples and count those that score above the held-out null.

    ``x`` and ``holdout`` both have the training mean removed. ``holdout_mean`` is that mean as it would be with each
    held-out sample among those it was taken of; where it is left out, they are taken for ``x``, and a mean of zeros
    for none. The expected share of samples recovered by luck is at most ``threshold.false_positive_rate`` when training
    and held-out scores are exchangeable: so they are when candidates may serve many samples. When each serves once, the
    samples of a group compete among themselves, only whole groups are exchangeable, and the promise is approximate.

    With the score "distance" (points) a sample is recovered when some candidate lies within ``rule.radius``
    of it, whomever else that candidate serves; there is no null, and ``holdout`` is not looked at. With other
    scores and no ``holdout`` nothing is calibrated.
    """
    if score not in ("ncc", "ssim", "distance"):
        raise RecollectError(f"score is {score!r}; choose 'ncc', 'ssim' or 'distance'")
    if score == "ssim" and x.ndim != 4:
        raise RecollectError(
            f"the score 'ssim' needs images [n, c, h, w], got shape {list(x.shape)}; choose 'ncc' or 'distance'"
        )
    prepared = candidate_pool(candidates, rule)
    matches = match(prepared, x, mean, rule)
    if score == "distance":
        recovered = nearest_distance(prepared, x, rule) <= rule.radius
        return Judgement(matches, None, score, None, recovered, None)
    if holdout is None or len(holdout) == 0:
        return Judgement(matches, None, score, None, None, None)
    added = mean_with(holdout, mean, len(x)) if holdout_mean is None else holdout_mean
    null = null_scores(prepared, holdout, len(x), mean, rule, added)
    luck, reached = _scores_named(score, null), _scores_named(score, matches)
    threshold = null_threshold(luck, quantile)
    return Judgement(matches, null, score, threshold, reached > threshold.value, int((luck > threshold.value).sum()))


def mean_with(
    samples: Float[Tensor, "k ..."], mean: Float[Tensor, "*sample"], n: int, group: Group | None = None
) -> Float[Tensor, "k ..."]:
    """The mean of n samples as it would be with each of these, from which it was taken away, among them.

    A mean of zeros is none. With a group the mean is averaged over it.

    >>> mean_with(torch.tensor([[4.0, -2.0]]), torch.tensor([1.0, 1.0]), 2)
    tensor([[3., 0.]])
    """
    if not bool(mean.any()):
        return mean.expand_as(samples)
    return mean + (samples if group is None else group.orbit_average(samples)) / n


def _group_scores(candidates: Pool, group: Tensor, mean: Tensor, rule: MatchRule, added: Tensor) -> NullScores:
    matches = match(candidates, group, mean, rule, added)
    return NullScores(matches.ncc, matches.ssim, matches.variants)


def _scores_named(score: Score, scored: NullScores | Matches) -> Tensor:
    return scored.ssim if score == "ssim" and scored.ssim is not None else scored.ncc
