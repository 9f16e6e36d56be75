"""A run's result in one or two sentences, with the luck beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recollect.analysis.summary import BEYOND_LUCK


def verdict(summary: Mapping[str, Any]) -> str:
    """What was recovered, what chance would have given, and nothing beyond that."""
    n = summary.get("reference_count")
    if summary.get("trials") and summary.get("diverged_trials") == summary["trials"]:
        return "Every trial diverged, so nothing was found; choose smaller rates (lr_x and lr_duals of attack.trials)."
    if n is None:
        kept = summary.get("distilled", 0)
        return f"{kept} distinct candidates were found; without reference data nothing about them has been verified."
    if summary["score"] == "distance":
        if not summary["distilled"]:
            return f"None of {n} training samples was recovered: no multiplier reaches match.distil_min_dual."
        return f"{summary['recovered']} of {n} training samples were recovered: {summary['recovered_rule']}."
    if summary["recovered"] is None:
        matched = f"{n} training samples were matched"
        if summary["ncc80"] is not None:
            matched = f"{summary['ncc80']} of {n} training samples are matched at NCC >= 0.8"
        return f"{matched}; without held-out samples nobody can say how much of that is luck."
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


def verdict_beside_others(summary: Mapping[str, Any], method: str) -> str:
    """Of an attack in a run where one is by a generator, so that what all of them made is judged as images too.

    What was recovered comes first, unless nothing was and the attack is by a generator.
    """
    images, luck = generated_verdict(summary), summary.get("luck_probability")
    recovered = luck is not None and luck <= BEYOND_LUCK
    if summary.get("reference_count") is None or (method == "generator" and not recovered):
        return images
    return f"{verdict(summary)} Judged as generated images: {images}"


def generated_verdict(summary: Mapping[str, Any]) -> str:
    """What generated images show: whether they are of the class asked for, and whether they are training images.

    Images that an independent classifier recognises are like training data; only those nearer to training images than
    to as many held-out ones say something of the training set itself.
    """
    count = summary["generators"]
    if not count:
        return "Every trial diverged; lower the rates of attack.trials."
    asked = f"The attacked network gives {summary['label_agreement']:.1%} of the images the label asked for"
    if summary.get("attack_accuracy") is None:
        return (
            f"{asked}; without images that it never saw nobody can say whether they show more than noise that fools it."
        )
    sentence = f"{asked}, an independent one {summary['attack_accuracy']:.1%}"
    if count > 1:
        sentence += f" (mean of {count} trials, deviation {summary['attack_accuracy_deviation']:.1%})"
    if summary.get("density") is not None:
        sentence += (
            f"; among real images they are {summary['density']:.2f} times as dense as those, and cover "
            f"{summary['coverage']:.1%} of them"
        )
    if summary.get("member_luck") is None:
        return f"{sentence}. Without held-out images nobody can say whether they are nearer to training images."
    ahead = f"their NCC with the nearest differs by {summary['member_advantage']:+.4f}"
    if summary["member_luck"] > BEYOND_LUCK:
        return (
            f"{sentence}. Nothing says that they are nearer to training images than to held-out ones ({ahead}, and "
            f"{summary['member_luck']:.1%} of random divisions of both do as well): at best they are training-like."
        )
    return (
        f"{sentence}. They are nearer to training images than to held-out ones ({ahead}, which at most "
        f"{summary['member_luck']:.1%} of random divisions of both reach)."
    )


def _counts(summary: Mapping[str, Any]) -> str:
    return (
        f" At NCC >= 0.8: {summary['ncc80']} of {summary['reference_count']} training samples, and by luck "
        f"{summary['null_ncc80']} of {summary['null_count']} held-out ones."
    )
