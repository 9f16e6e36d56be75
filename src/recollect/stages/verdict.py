"""A run's result in one or two sentences, with the luck beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

BEYOND_LUCK = 0.01
"""A count that luck reaches with a higher probability than this is not called recovery."""


def verdict(summary: Mapping[str, Any]) -> str:
    """What was recovered, what chance would have given, and nothing beyond that."""
    n = summary.get("reference_count")
    if n is None:
        kept = summary.get("distilled", 0)
        return f"{kept} distinct candidates were found; without reference data nothing about them has been verified."
    if summary["score"] == "distance":
        return f"{summary['recovered']} of {n} training samples were recovered: {summary['recovered_rule']}."
    if summary["recovered"] is None:
        return (
            f"{summary['ncc80']} of {n} training samples are matched at NCC >= 0.8; without held-out samples "
            "nobody can say how much of that is luck."
        )
    counts = "" if summary["ncc80"] is None else _counts(summary)
    rate = summary["false_positive_rate"]
    if summary["luck_probability"] > BEYOND_LUCK:
        return (
            f"Nothing beyond chance: {summary['recovered']} of {n} training samples pass a threshold that luck lets "
            f"{rate * n:.1f} of them pass. Nothing found within this budget does not mean that nothing can be "
            f"found.{counts}"
        )
    better = f"{100 * (1 - rate):.3g}"
    luck, score = summary["null_count"], summary["score"].upper()
    return (
        f"{summary['recovered']} of {n} training samples were recovered: they match a candidate better than "
        f"{better}% of {luck} held-out samples do ({score} above {summary['threshold']:.2f}).{counts}"
    )


def _counts(summary: Mapping[str, Any]) -> str:
    return (
        f" At NCC >= 0.8: {summary['ncc80']} of {summary['reference_count']} training samples, and by luck "
        f"{summary['null_ncc80']} of {summary['null_count']} held-out ones."
    )
