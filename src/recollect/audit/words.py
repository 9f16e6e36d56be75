"""The audit in sentences: what was measured, what was declared, what it means, and what it does not exclude."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from recollect.analysis.detection import Roc
from recollect.audit.judging import CONFIDENCE, AuditJudgement, Finding
from recollect.readable import readable_duration

_NAMES = {
    "kkt": "KKT reconstruction",
    "activation": "activation maximisation",
    "weights": "weight visualisation",
    "generator": "the generator attack",
}


def title(method: str) -> str:
    return _NAMES.get(method, method)


def verdict(judgement: AuditJudgement, seconds: float, device: str) -> str:
    """One line: what was recovered, by which attack, at what cost; or that nothing was, within this budget."""
    n, cost = len(judgement.recovered), f"{readable_duration(seconds)} on {device}"
    expected = judgement.rate * n
    if not judgement.beyond_luck:
        passed = (
            f"{judgement.count} of {n} training samples pass a threshold that luck lets {expected:.1f} of them pass"
        )
        return f"Nothing found within this budget ({cost}): {passed}. This does not mean that nothing can be found."
    best = max(judgement.findings, key=lambda finding: int(finding.recovered.sum()))
    by = title(best.evidence.method)
    return (
        f"{judgement.count} of {n} training samples were recovered, {int(best.recovered.sum())} of them by {by}, at a "
        f"false-positive rate of {judgement.rate:.2g} (luck explains about {expected:.1f}), in {cost}, provided that "
        "training and held-out samples are what they were declared to be."
    )


def attack_words(finding: Finding) -> str:
    evidence, threshold = finding.evidence, finding.threshold
    return (
        f"{title(evidence.method)}: {int(finding.recovered.sum())} of {len(evidence.members)} training samples score "
        f"above NCC {threshold.value:.3f}, which {threshold.false_positive_rate:.2%} of unseen samples may "
        f"reach; {evidence.candidates} candidates; luck alone gives as many with probability {finding.luck:.2g}."
    )


def measured(judgement: AuditJudgement) -> list[str]:
    """Counts and scores, nothing that depends on an opinion."""
    n, k, curve = len(judgement.recovered), judgement.null_count, judgement.roc
    first = judgement.findings[0].evidence
    names = ", ".join(title(finding.evidence.method) for finding in judgement.findings)
    bound = (
        f"At least {judgement.at_least} training samples pass for another reason than luck (with {CONFIDENCE:.0%} "
        "confidence, from the ranks of all scores)."
    )
    return [
        f"{judgement.count} of {n} training samples and {judgement.null_recovered} of {k} held-out samples score above "
        f"the threshold of at least one of {len(judgement.findings)} attacks ({names}).",
        *([bound] if judgement.beyond_luck else []),
        f"The probability that luck alone lets as many pass is at most {judgement.luck:.2g}.",
        f"Scores of {title(first.method)} tell training from held-out samples with AUC {curve.auc:.3f}"
        f"{_delong(curve)}; {curve.true_positive_at(0.01):.1%} of "
        f"training samples lie above all but 1% of held-out ones, {curve.true_positive_at(0.001):.1%} above all but "
        "0.1%.",
        f"The highest score of a training sample is {float(first.members.max()):.3f}, of a held-out sample "
        f"{float(first.null.max()):.3f} ({title(first.method)}, NCC).",
        *(attack_words(finding) for finding in judgement.findings),
    ]


def declared(judgement: AuditJudgement, seen: str, copies: int) -> list[str]:
    """What the audit was told and cannot check."""
    return [
        f"The {len(judgement.recovered)} training samples are what the network was trained on.",
        f"The {judgement.null_count} held-out samples are of the same kind and were not used in training.",
        seen,
        *([f"{copies} held-out samples are exact copies of training samples and were left out."] if copies else []),
    ]


def interpretation(judgement: AuditJudgement, fail_above: int) -> list[str]:
    """What the numbers mean, under the declared facts."""
    attacks = len(judgement.findings)
    parts = ", ".join(f"{finding.threshold.false_positive_rate:.2g}" for finding in judgement.findings)
    told = [
        f"Each attack is held to a part of the false-positive rate ({parts}), so that all of them together stay at "
        f"{judgement.rate:.2g}: a sample counts when any of them passes.",
        "A recovered sample is one that candidates resemble more than they resemble samples the network never saw, "
        "up to brightness and contrast; look at the pairs to see what is recognisable.",
    ]
    if any(finding.evidence.method == "generator" for finding in judgement.findings):
        told.append(
            "A generator makes images that are typical of the training data, not copies of samples: one that it counts "
            "is a sample that its images resemble more than they resemble unseen ones."
        )
    if judgement.rate > judgement.asked_rate:
        told.append(
            f"{judgement.null_count} held-out samples are too few for the rate {judgement.asked_rate:g} with {attacks} "
            f"attacks: the rate that can be promised is {judgement.rate:.2g}; {_needed(judgement)} would do."
        )
    if judgement.beyond_luck:
        above = "more than" if judgement.count > fail_above else "no more than"
        told.append(f"The network leaks: {judgement.count} samples, {above} the {fail_above} that --fail-above allows.")
    else:
        told.append("The count is not beyond what luck may give, so no leak is claimed.")
    return told


def not_excluded(judgement: AuditJudgement | None, skipped: Mapping[str, str]) -> list[str]:
    """What a verdict never rules out."""
    told = [
        "Attacks that were not tried, other settings, and the same attacks with more time.",
        "What an attacker with more than the weights can do: training data in part, gradients, several checkpoints.",
        "Leaks that this score does not see, such as a recognisable part of a sample, or membership without a picture.",
    ]
    if judgement is not None:
        n, k = len(judgement.recovered), judgement.null_count
        told.append(
            f"A few recovered samples among {n}: a count close to what luck gives cannot be told from luck with {k} "
            "held-out samples."
        )
    return told + [f"{title(name)} did not run: {reason}" for name, reason in skipped.items()]


def unverified_verdict(kept: int, candidates: int, seconds: float, device: str) -> str:
    return (
        f"Nothing has been verified: {kept} distinct candidates of {candidates} were kept, in "
        f"{readable_duration(seconds)} on {device}; whether any is a training sample only the data can tell."
    )


def obstacles(levels: Sequence[str]) -> str:
    """How the assumptions of the main attack stand."""
    counts = {level: levels.count(level) for level in ("ok", "caution", "obstacle")}
    return ", ".join(f"{count} {level}" for level, count in counts.items() if count)


def _needed(judgement: AuditJudgement) -> int:
    return math.ceil(len(judgement.findings) / judgement.asked_rate - 1e-9) - 1


def _delong(curve: Roc) -> str:
    if curve.auc_interval is None:
        return ""
    return f" ({curve.auc_interval[0]:.3f} to {curve.auc_interval[1]:.3f}, DeLong)"
