"""``series.json`` in words: a sentence, and a row for each member."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from recollect.analysis.summary import BEYOND_LUCK
from recollect.core import RecollectError
from recollect.report.parsing import check_format, number, read_object
from recollect.report.words import NOTHING, decimal, text, whole

Record = Mapping[str, Any]
"""``series.json``, or one of its members."""


def read_series(path: Path) -> dict[str, Any]:
    record = read_object(path)
    if record is None:
        raise RecollectError(f"there is no {path}; go on with --resume {path.parent}.")
    check_format(record, path)
    return record


def measure(record: Record) -> tuple[str, str]:
    """The count that a series is drawn by, and its name: SSIM says nothing of points, and little of digits."""
    if any(member["score"] == "ssim" for member in record["members"]):
        return "good_ssim04", "SSIM > 0.4"
    return "recovered", "recovered"


def series_verdict(record: Record) -> str:
    """How far the series is, and the member where most was found."""
    members = record["members"]
    done = sum(member["state"] == "done" for member in members)
    failed = [member["name"] for member in members if member["state"] == "failed"]
    so_far = f"{done} of {len(members)} members are done" + (f", {len(failed)} failed" if failed else "")
    key, name = measure(record)
    matched = [member for member in members if number(member[key]) is not None]
    if not matched:
        return f"{so_far}."
    best = max(matched, key=lambda member: member[key])
    if not best[key]:
        return f"{so_far}. None of them has a training sample counted as {name}."
    if key == "recovered":
        matched = [member for member in matched if (number(member.get("luck_probability")) or 0.0) <= BEYOND_LUCK]
        if not matched:
            return f"{so_far}. In none of them is anything found beyond chance."
        best = max(matched, key=lambda member: member[key])
    luck = "" if not best["null_count"] else f" ({best[f'null_{key}']} of {best['null_count']} held-out ones)"
    return (
        f"{so_far}. Most is found at {best['name']}: {best[key]} of {best['reference_count']} training samples "
        f"{'with ' if key != 'recovered' else ''}{name}{luck}."
    )


_BRIEF: dict[str, Callable[[Record], str]] = {
    "member": lambda member: text(member["name"]),
    "SSIM > 0.4": lambda member: counted(member, "good_ssim04"),
    "recovered": lambda member: counted(member, "recovered"),
    "test error": lambda member: share(member["test_error"]),
    "time": lambda member: _seconds(member["seconds"]),
}
_GENERATED_BRIEF: dict[str, Callable[[Record], str]] = {
    "member": _BRIEF["member"],
    "attack accuracy": lambda member: share(member["attack_accuracy"]),
    "density": lambda member: decimal(member["density"]),
    "coverage": lambda member: share(member["coverage"]),
    "Frechet": lambda member: text(member["frechet_training"]),
    "time": _BRIEF["time"],
}
"""Of series whose members make images by a generator; single training samples are hardly ever recovered there."""
_GENERATED: dict[str, Callable[[Record], str]] = {
    **_GENERATED_BRIEF,
    "label agreement": lambda member: share(member["label_agreement"]),
    "feature cosine": lambda member: decimal(member["feature_cosine"]),
    "class cosine": lambda member: decimal(member["class_feature_cosine"]),
    "member advantage": lambda member: decimal(member["member_advantage"]),
    "test error": _BRIEF["test error"],
}
_FULL: dict[str, Callable[[Record], str]] = {
    **_BRIEF,
    "top-10 SSIM": lambda member: decimal(member["top10_ssim"]),
    "mean DSSIM": lambda member: beside_luck(decimal(member["mean_dssim"]), decimal(member["null_mean_dssim"])),
    "each trial's DSSIM": lambda member: over_trials(member, "mean_dssim_stretch_3"),
    "training error": lambda member: share(member["training_error"]),
    "training loss": lambda member: text(member["training_loss"]),
    "peak memory": lambda member: _gibibytes(member["peak_memory_bytes"]),
}


def listing(record: Record, brief: bool = False) -> list[list[str]]:
    """Headings, then a row for each member; columns that are empty for all are left out, the state when all is done."""
    generated = any(member.get("label_agreement") is not None for member in record["members"])
    columns = dict((_GENERATED_BRIEF if brief else _GENERATED) if generated else _BRIEF if brief else _FULL)
    if measure(record)[0] == "recovered" and not generated:
        columns["NCC ≥ 0.8"] = lambda member: counted(member, "ncc80")
    members = record["members"]
    if any(member["state"] != "done" for member in members):
        columns["state"] = lambda member: text(member["state"])
    cells = {heading: [cell(member) for member in members] for heading, cell in columns.items()}
    kept = {heading: column for heading, column in cells.items() if any(value != NOTHING for value in column)}
    return [list(kept), *([column[row] for column in kept.values()] for row in range(len(members)))]


def counted(member: Record, key: str) -> str:
    """Among training samples, and among held-out ones, of which there are often many more."""
    return beside_luck(
        _among(member.get(key), member.get("reference_count")),
        _among(member.get(f"null_{key}"), member.get("null_count")),
    )


def over_trials(member: Record, key: str) -> str:
    """Mean and deviation over trials, where each was judged by itself, and the mean of what held-out samples score."""
    each = member.get("each_trial") or {}
    means, spread = each.get("mean", {}), number(each.get("deviation", {}).get(key))
    found = decimal(means.get(key))
    return beside_luck(found if spread is None else f"{found} ± {spread:.3f}", decimal(means.get(f"null_{key}")))


def _among(count: object, samples: object) -> str:
    return NOTHING if number(count) is None else f"{whole(count)}/{whole(samples)}"


def beside_luck(found: str, null: str) -> str:
    return found if null == NOTHING else f"{found} ({null})"


def share(value: object) -> str:
    found = number(value)
    return NOTHING if found is None else f"{found:.1%}"


def _seconds(value: object) -> str:
    found = number(value)
    return NOTHING if found is None else f"{found:.0f} s"


def _gibibytes(value: object) -> str:
    found = number(value)
    return NOTHING if found is None else f"{found / 2**30:.1f} GiB"
