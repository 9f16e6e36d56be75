"""Judgement: how near the candidates come to reference data, and what of it is more than luck."""

from recollect.analysis.calibration import (
    Judgement,
    NullScores,
    NullThreshold,
    Score,
    judge,
    luck_probability,
    null_scores,
    null_threshold,
)
from recollect.analysis.distance import Distance, Pool
from recollect.analysis.distil import distil
from recollect.analysis.matching import (
    Matches,
    MatchRule,
    candidate_pool,
    match,
    nearest_distance,
    scaled_reconstruction,
)
from recollect.analysis.metrics import (
    SCALINGS,
    clamp01,
    dssim,
    ncc,
    normalise,
    pairwise_ncc,
    psnr,
    ssim,
    stretch,
)
from recollect.analysis.summary import recovered_rule, summarise

__all__ = [
    "SCALINGS",
    "Distance",
    "Judgement",
    "MatchRule",
    "Matches",
    "NullScores",
    "NullThreshold",
    "Pool",
    "Score",
    "candidate_pool",
    "clamp01",
    "distil",
    "dssim",
    "judge",
    "luck_probability",
    "match",
    "ncc",
    "nearest_distance",
    "normalise",
    "null_scores",
    "null_threshold",
    "pairwise_ncc",
    "psnr",
    "recovered_rule",
    "scaled_reconstruction",
    "ssim",
    "stretch",
    "summarise",
]
