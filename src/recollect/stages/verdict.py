"""A run's result in one or two sentences, with the luck beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def verdict(summary: Mapping[str, Any]) -> str:
    """What was recovered, what chance would have given, and nothing beyond that."""
    n = summary.get("reference_count")
    if n is None:
        kept = summary.get("distilled", 0)
        return f"{kept} distinct candidates were found; without reference data nothing about them has been verified."
    if summary["top10_ssim"] is None and summary["null_count"] in (None, 0):
        return f"{summary['recovered']} of {n} training points have a candidate within the stated distance."
    if summary["recovered"] is None:
        return (
            f"{summary['ncc80']} of {n} training samples are matched at NCC >= 0.8; without held-out samples "
            "nobody can say how much of that is luck."
        )
    counts = (
        f" At NCC >= 0.8: {summary['ncc80']} of {n} training samples, and by luck {summary['null_ncc80']} of "
        f"{summary['null_count']} held-out ones."
    )
    if not summary["recovered"]:
        return (
            f"No training sample of {n} scores above chance. Nothing found within this budget does not mean that "
            f"nothing can be found.{counts}"
        )
    better = f"{100 * (1 - summary['false_positive_rate']):.3g}"
    luck, score = summary["null_count"], summary["score"].upper()
    return (
        f"{summary['recovered']} of {n} training samples were recovered: they match a candidate better than "
        f"{better}% of {luck} held-out samples do ({score} above {summary['threshold']:.2f}).{counts}"
    )
