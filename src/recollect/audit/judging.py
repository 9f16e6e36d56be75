"""From scores to a judgement: what was recovered, at which rate of false positives, and how likely luck explains it.

Each attack is calibrated on held-out samples at a part of the rate, the main one at half of it or more, so that the
parts add up to the rate (Bonferroni): a sample is recovered when any attack's conformal p-value passes its level.
Pooling all candidates and taking the best score instead would need no correction, but lets an attack whose candidates
resemble everything hide what another one found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from recollect.analysis import NullThreshold, null_threshold
from recollect.analysis.detection import Roc, conformal_p_values, exchangeable_luck, least_beyond_luck, roc
from recollect.analysis.summary import BEYOND_LUCK
from recollect.audit.evidence import Evidence

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Finding:
    """One attack by itself."""

    evidence: Evidence
    threshold: NullThreshold
    p_values: Float[Tensor, " n"]
    recovered: Bool[Tensor, " n"]
    allowed: int
    """Held-out scores above the threshold, at most."""

    @property
    def luck(self) -> float:
        """Probability that luck alone recovers as many."""
        return exchangeable_luck(*self._counts)

    def least(self, doubt: float) -> int:
        """Samples that pass for another reason."""
        return least_beyond_luck(*self._counts, doubt)

    @property
    def _counts(self) -> tuple[int, int, int, int]:
        return int(self.recovered.sum()), len(self.recovered), self.allowed, len(self.evidence.null)


@dataclass(frozen=True)
class AuditJudgement:
    """All attacks together. ``best`` says whose p-value is the smallest, for each training sample."""

    findings: tuple[Finding, ...]
    asked_rate: float
    rate: float
    """What can be promised with so many held-out samples; the asked rate, or more, up to 1, which promises nothing."""
    recovered: Bool[Tensor, " n"]
    p_values: Float[Tensor, " n"]
    """The smallest over attacks, each multiplied by what the correction costs it."""
    best: Int[Tensor, " n"]
    null_recovered: int
    luck: float
    at_least: int
    """Training samples that pass for another reason than luck, at least, with ``CONFIDENCE``; 0 without a leak."""
    roc: Roc

    @property
    def count(self) -> int:
        return int(self.recovered.sum())

    @property
    def beyond_luck(self) -> bool:
        return self.luck <= BEYOND_LUCK

    @property
    def null_count(self) -> int:
        return len(self.findings[0].evidence.null)


def shared_ranks(rate: float, null_count: int, attacks: int) -> list[int]:
    """How many of ``null_count + 1`` ranks each attack may use; together they keep to the rate where they can.

    Every attack needs one. The first has half of them or more, the others share the rest alike.

    >>> shared_ranks(0.01, 400, 3), shared_ranks(0.01, 1999, 3), shared_ranks(0.01, 50, 2)
    ([2, 1, 1], [10, 5, 5], [1, 1])
    """
    # The small addition keeps a product such as 0.01 x 1100 from rounding down to the next rank.
    ranks = int(rate * (null_count + 1) + 1e-9)
    each = max(1, ranks // (2 * max(1, attacks - 1)))
    return [max(1, ranks - each * (attacks - 1)), *[each] * (attacks - 1)]


def judge_attack(evidence: Evidence, ranks: int) -> Finding:
    """Recovered: a score that fewer than ``ranks`` held-out scores reach, so a p-value of ranks / (k + 1) or less."""
    k = len(evidence.null)
    threshold = null_threshold(evidence.null, 1 - min(ranks, k) / (k + 1))
    recovered = evidence.members > threshold.value
    return Finding(
        evidence=evidence,
        threshold=threshold,
        p_values=conformal_p_values(evidence.members, evidence.null),
        recovered=recovered,
        allowed=min(ranks, k) - 1,
    )


def judge_audit(evidence: Sequence[Evidence], rate: float) -> AuditJudgement:
    """The curve is that of the first attack, which was chosen before anything was seen."""
    attacks = len(evidence)
    ranks = shared_ranks(rate, len(evidence[0].null), attacks)
    findings = tuple(judge_attack(one, own) for one, own in zip(evidence, ranks, strict=True))
    # An attack that may use fewer ranks pays more for each of its p-values.
    table = torch.stack([finding.p_values * sum(ranks) / own for finding, own in zip(findings, ranks, strict=True)])
    recovered = torch.stack([finding.recovered for finding in findings]).any(dim=0)
    passed = torch.stack([finding.evidence.null > finding.threshold.value for finding in findings]).any(dim=0)
    promised = sum(finding.threshold.false_positive_rate for finding in findings)
    luck = min(1.0, attacks * min(finding.luck for finding in findings))
    least = max(finding.least((1 - CONFIDENCE) / attacks) for finding in findings)
    return AuditJudgement(
        findings=findings,
        asked_rate=rate,
        rate=min(1.0, max(rate, promised)),
        recovered=recovered,
        p_values=table.amin(dim=0).clamp(max=1.0),
        best=table.argmin(dim=0),
        null_recovered=int(passed.sum()),
        luck=luck,
        at_least=least if luck <= BEYOND_LUCK else 0,
        roc=roc(evidence[0].members, evidence[0].null, CONFIDENCE),
    )
