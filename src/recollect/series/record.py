"""``series.json``: a row for each member of a series, gathered from the members' own folders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from recollect.config import Config
from recollect.runs import FORMAT, RunFolder
from recollect.series.members import Member

_TRAINING = {"training_loss": "loss", "training_error": "error", "test_error": "test_error"}
_VARIANTS = ("stretch_3", "stretch_11", "clamp_3", "clamp_11")
_FOUND = (
    "score",
    "reference_count",
    "null_count",
    "good_ssim04",
    "null_good_ssim04",
    "recovered",
    "null_recovered",
    "luck_probability",
    "ncc80",
    "null_ncc80",
    "top10_ssim",
    "mean_dssim",
    "null_mean_dssim",
    *(f"{who}mean_dssim_{variant}" for who in ("", "null_") for variant in _VARIANTS),
    "median_asymmetry",
    "each_trial",
    "trials",
    "diverged_trials",
    "peak_memory_bytes",
    "label_agreement",
    "attack_accuracy",
    "feature_cosine",
    "class_feature_cosine",
    "density",
    "coverage",
    "frechet_training",
    "member_advantage",
)


def member_folder(folder: RunFolder, member: Member) -> RunFolder:
    return folder.subfolder(f"members/{member.slug}")


def gather(
    folder: RunFolder, config: Config, chosen: Sequence[Member], states: Mapping[str, str], failures: Mapping[str, str]
) -> dict[str, Any]:
    """What the members have found so far; what is not known yet is None."""
    return {
        "format": FORMAT,
        "name": config.name,
        "title": config.title,
        "paper": config.paper,
        "axes": [
            {
                "label": axis.title,
                "key": axis.first_key,
                "points": [
                    {"name": point.name, "line": point.line, "value": point.settings.get(axis.first_key)}
                    for point in axis.points()
                ],
            }
            for axis in config.series
        ],
        "members": [
            {
                "member": member.slug,
                "name": member.name,
                "place": list(member.place),
                "settings": member.settings,
                "state": states[member.slug],
                "failure": failures.get(member.slug),
                **_figures(member_folder(folder, member)),
                "baselines": {
                    name: _found(_read(member_folder(folder, member).subfolder(f"baselines/{name}"), "summary.json"))
                    for name in member.config.baselines
                },
            }
            for member in chosen
        ],
    }


def _figures(folder: RunFolder) -> dict[str, Any]:
    """From the network's description and the summary; either may not be there yet."""
    trained = _read(folder.subfolder("model"), "model.json").get("training", {})
    found = _read(folder, "summary.json")
    times = [part["seconds"] for part in (trained, found) if part.get("seconds") is not None]
    return {
        **{name: trained.get(key) for name, key in _TRAINING.items()},
        **_found(found),
        "seconds": sum(times) if times else None,
    }


def _found(summary: Mapping[str, Any]) -> dict[str, Any]:
    return {name: summary.get(name) for name in _FOUND}


def _read(folder: RunFolder, name: str) -> dict[str, Any]:
    return folder.read_json(name) if folder.has(name) else {}
