"""``audit.json``: the whole verdict as data, for pages and pipelines."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from recollect import __version__
from recollect.audit import words
from recollect.audit.judging import CONFIDENCE, AuditJudgement
from recollect.data import TaskData

RECORD = "audit.json"


@dataclass(frozen=True)
class Circumstances:
    """What a record says beside the judgement."""

    seconds: float
    device: str
    fail_above: int
    seen_words: str
    network: Sequence[str]
    """What was inferred about the network, and from what."""
    skipped: Mapping[str, str]
    assumptions: Mapping[str, Any]
    copies: int = 0


def record(judgement: AuditJudgement, data: TaskData, facts: Circumstances) -> dict[str, Any]:
    curve = judgement.roc
    return {
        "verdict": words.verdict(judgement, facts.seconds, facts.device),
        "leak": judgement.beyond_luck,
        "false_positive_rate": judgement.rate,
        "recovered": judgement.count,
        "reference_count": len(judgement.recovered),
        "at_least": judgement.at_least,
        "confidence": CONFIDENCE,
        "null_count": judgement.null_count,
        "null_recovered": judgement.null_recovered,
        "attacks": _attacks(judgement),
        "affected": _affected(judgement, data),
        "roc": {
            "false_positive": curve.false_positive.tolist(),
            "true_positive": curve.true_positive.tolist(),
            "auc": curve.auc,
            "auc_interval": None if curve.auc_interval is None else list(curve.auc_interval),
        },
        "measured": [*words.measured(judgement), *facts.network],
        "declared": words.declared(judgement, facts.seen_words, facts.copies),
        "interpretation": [*words.interpretation(judgement, facts.fail_above), _assumed(facts)],
        "not_excluded": words.not_excluded(judgement, facts.skipped),
        "assumptions": dict(facts.assumptions),
        "environment": _environment(facts),
    }


def unverified_record(
    kept: int, candidates: int, attacks: list[dict[str, Any]], measured: list[str], facts: Circumstances
) -> dict[str, Any]:
    """The same keys, where there were no data to verify anything with."""
    unknown = ("recovered", "reference_count", "at_least", "confidence", "null_count", "null_recovered", "roc")
    return {
        "verdict": words.unverified_verdict(kept, candidates, facts.seconds, facts.device),
        "leak": None,
        "false_positive_rate": None,
        **dict.fromkeys(unknown),
        "attacks": attacks,
        "affected": [],
        "measured": [*measured, *facts.network],
        "declared": [facts.seen_words],
        "interpretation": [
            "Candidates are ranked by multiplier times the share of the first layer that their trial explains; "
            "this is an order to look at them in, and no evidence that any is a training sample.",
            _assumed(facts),
        ],
        "not_excluded": words.not_excluded(None, facts.skipped),
        "assumptions": dict(facts.assumptions),
        "environment": _environment(facts),
    }


def _attacks(judgement: AuditJudgement) -> list[dict[str, Any]]:
    return [
        {
            "name": finding.evidence.name,
            "method": finding.evidence.method,
            "folder": finding.evidence.folder,
            "seconds": finding.evidence.seconds,
            "recovered": int(finding.recovered.sum()),
            "threshold": finding.threshold.value,
            "luck_probability": finding.luck,
            "words": words.attack_words(finding),
        }
        for finding in judgement.findings
    ]


def _affected(judgement: AuditJudgement, data: TaskData) -> list[dict[str, Any]]:
    """Recovered samples, worst first: by p-value, then by score."""
    rows = []
    for i in judgement.recovered.nonzero().flatten().tolist():
        evidence = judgement.findings[int(judgement.best[i])].evidence
        rows.append(
            {
                "index": int(data.indices[i]),
                "label": _label(data, data.y[i]),
                "score": float(evidence.members[i]),
                "p_value": float(judgement.p_values[i]),
                "attack": evidence.name,
                "candidate": evidence.places[i],
            }
        )
    return sorted(rows, key=lambda row: (row["p_value"], -row["score"]))


def _label(data: TaskData, y: Tensor) -> int:
    """As the source calls it, where there are classes; +1 or -1 otherwise."""
    return int(y) if data.labels is None else data.labels[int(y)]


def _assumed(facts: Circumstances) -> str:
    findings = facts.assumptions.get("findings", [])
    return (
        f"Assumptions of KKT reconstruction: {words.obstacles([finding['level'] for finding in findings])}. "
        f"{facts.assumptions.get('closing', '')}"
    ).strip()


def _environment(facts: Circumstances) -> dict[str, Any]:
    versions = {"recollect": __version__, "torch": torch.__version__, "python": platform.python_version()}
    return {"versions": versions, "device": facts.device, "seconds": facts.seconds}
