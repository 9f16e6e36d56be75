"""A judgement in numbers that JSON can hold, with the rule they were counted by in words."""

from __future__ import annotations

import math

from jaxtyping import Float
from torch import Tensor

from recollect.analysis.calibration import Judgement, NullThreshold
from recollect.analysis.detection import exchangeable_luck

GOOD_SSIM = 0.4
"""Above this a reconstruction is called good (Buzaglo et al. 2023, appendix A.2); not meant for MNIST."""

BEYOND_LUCK = 0.01
"""A count that luck reaches with a higher probability than this is not called recovery."""


def summarise(judgement: Judgement) -> dict[str, int | float | str | bool | None]:
    """Counts and means for the training samples and, prefixed ``null_``, for the held-out ones.

    Null counts are out of ``null_count``, the others out of ``reference_count``. None stands for what does
    not apply: SSIM without images, NCC under the distance "l2" (the NCC of points means nothing), the null
    without held-out samples. An unmatched image counts with SSIM 0, that is DSSIM 0.5. ``mean_dssim_clamp_11`` and its
    like state the scaling and the window they were computed with, whatever the rule's.
    """
    matches, null, rule = judgement.matches, judgement.null, judgement.matches.rule
    correlation = matches.ncc if rule.distance == "ncc" else None
    null_correlation = null.ncc if null is not None and rule.distance == "ncc" else None
    null_ssim = null.ssim if null is not None else None
    return {
        "reference_count": len(matches.candidate),
        "recovered": None if judgement.recovered is None else int(judgement.recovered.sum()),
        "recovered_rule": recovered_rule(judgement),
        "score": judgement.score,
        "threshold": None if judgement.threshold is None else judgement.threshold.value,
        "false_positive_rate": None if judgement.threshold is None else judgement.threshold.false_positive_rate,
        "luck_probability": _luck(judgement),
        "null_count": 0 if null is None else len(null.ncc),
        "null_recovered": judgement.null_recovered,
        "good_ssim04": _count_above(matches.ssim, GOOD_SSIM),
        "null_good_ssim04": _count_above(null_ssim, GOOD_SSIM),
        "top10_ssim": _top_mean(matches.ssim, 10),
        "ncc80": _count_from(correlation, 0.8),
        "ncc90": _count_from(correlation, 0.9),
        "null_ncc80": _count_from(null_correlation, 0.8),
        "null_ncc90": _count_from(null_correlation, 0.9),
        "mean_dssim": _mean_dssim(matches.ssim),
        "null_mean_dssim": _mean_dssim(null_ssim),
        **{f"mean_dssim_{name}": _mean_dssim(scores) for name, scores in matches.variants.items()},
        **{
            f"null_mean_dssim_{name}": _mean_dssim(scores)
            for name, scores in ({} if null is None else null.variants).items()
        },
        "ssim_window": rule.ssim_window,
        "scaling": rule.scaling,
        "vote_ratio": rule.vote_ratio,
        "each_candidate_once": rule.each_candidate_once,
        "group": "trivial" if rule.group is None else rule.group.name,
    }


def recovered_rule(judgement: Judgement) -> str:
    """One sentence that says what "recovered" meant, with every choice it depends on."""
    rule = judgement.matches.rule
    if judgement.score == "distance":
        scale = "Euclidean distance" if rule.distance == "l2" else "normalised distance"
        moves = "" if rule.group is None else f" up to {rule.group.name}"
        return f"some candidate within {rule.radius:g} of the sample{moves} ({scale}); not calibrated on held-out data"
    once = "each candidate once" if rule.each_candidate_once else "candidates may serve many samples"
    distance = "normalised" if rule.distance == "ncc" else "Euclidean"
    channels = ", normalised per channel" if rule.per_channel and judgement.matches.ssim is not None else ""
    moves = f", up to {rule.group.name} ({rule.group.size} elements)" if rule.group is not None else ""
    how = (
        f"{distance} distance{channels}{moves}, votes within {rule.vote_ratio:g} x the smallest distance, {once}, "
        f"SSIM window {rule.ssim_window}, {rule.scaling} scaling"
    )
    if judgement.threshold is None:
        return f"not calibrated: no held-out samples were given; {how}"
    return f"{judgement.score.upper()} above {_threshold_in_words(judgement.threshold)}; {how}"


def _luck(judgement: Judgement) -> float | None:
    """Exact where scores of training and held-out samples are exchangeable, see `judge` for when they are."""
    recovered, null = judgement.recovered, judgement.null
    if recovered is None or null is None or judgement.null_recovered is None:
        return None
    return exchangeable_luck(int(recovered.sum()), len(recovered), judgement.null_recovered, len(null.ncc))


def _threshold_in_words(threshold: NullThreshold) -> str:
    asked = f"quantile {threshold.quantile_asked:g}"
    # Asking for more than 1 - 1 / (k + 1) leaves only the largest score to compare with.
    enough = threshold.false_positive_rate <= 1 - threshold.quantile_asked + 1e-9
    which = (
        f"{asked} of {threshold.null_count} held-out samples"
        if enough
        else f"the highest of {threshold.null_count} held-out samples, too few for {asked}"
    )
    rate = f"at most {threshold.false_positive_rate:.2%} of unseen samples expected by luck"
    return f"{threshold.value:.4f}, {which} ({rate})"


def _count_above(scores: Float[Tensor, " n"] | None, least: float) -> int | None:
    return None if scores is None else int((scores > least).sum())


def _count_from(scores: Float[Tensor, " n"] | None, least: float) -> int | None:
    return None if scores is None else int((scores >= least).sum())


def _top_mean(scores: Float[Tensor, " n"] | None, count: int) -> float | None:
    if scores is None:
        return None
    return _finite(float(scores.topk(min(count, len(scores))).values.double().mean()))


def _mean_dssim(scores: Float[Tensor, " n"] | None) -> float | None:
    return None if scores is None else _finite(float((1 - scores.double()).mean() / 2))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
