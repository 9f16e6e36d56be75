"""Judgement: how near the candidates come to reference data, and what of it is more than luck."""

from recollect.analysis.calibration import (
    Judgement,
    NullScores,
    NullThreshold,
    Score,
    judge,
    null_scores,
    null_threshold,
)
from recollect.analysis.coverage import density_and_coverage
from recollect.analysis.distance import Distance, Pool
from recollect.analysis.distil import distil
from recollect.analysis.frechet import frechet_distance
from recollect.analysis.generated import agreement, class_agreement, feature_similarity, similarity_within_classes
from recollect.analysis.matching import (
    Matches,
    MatchRule,
    candidate_pool,
    match,
    nearest_distance,
    scaled_reconstruction,
)
from recollect.analysis.membership import (
    MemberAdvantage,
    NearestNCC,
    member_advantage,
    nearest_label,
    nearest_ncc,
    nearest_training,
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
    "MemberAdvantage",
    "NearestNCC",
    "NullScores",
    "NullThreshold",
    "Pool",
    "Score",
    "agreement",
    "candidate_pool",
    "clamp01",
    "class_agreement",
    "density_and_coverage",
    "distil",
    "dssim",
    "feature_similarity",
    "frechet_distance",
    "judge",
    "match",
    "member_advantage",
    "ncc",
    "nearest_distance",
    "nearest_label",
    "nearest_ncc",
    "nearest_training",
    "normalise",
    "null_scores",
    "null_threshold",
    "pairwise_ncc",
    "psnr",
    "recovered_rule",
    "scaled_reconstruction",
    "similarity_within_classes",
    "ssim",
    "stretch",
    "summarise",
]
