"""Circumstances of a run as label and text: judgement, search, network, machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recollect.report.folder import Run
from recollect.report.parsing import number
from recollect.report.words import NOTHING, method, text, whole


def rule_facts(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The choices that the figures depend on."""
    once = summary.get("each_candidate_once")
    similarity = [
        ("SSIM window", whole(summary.get("ssim_window"))),
        ("scaling before SSIM", text(summary.get("scaling"))),
    ]
    facts = [] if number(summary.get("mean_dssim")) is None else similarity  # points have no SSIM
    facts += [
        ("votes within", _times(summary.get("vote_ratio"))),
        ("each candidate serves once", {True: "yes", False: "no"}[once] if isinstance(once, bool) else NOTHING),
        ("training samples", whole(summary.get("reference_count"))),
        ("held-out samples", whole(summary.get("null_count"))),
    ]
    return [fact for fact in facts if fact[1] != NOTHING]


def attack_facts(run: Run) -> list[tuple[str, str]]:
    summary = run.summary
    facts = [
        ("method", method(summary)),
        ("trials", whole(summary.get("trials"))),
        ("diverged trials", whole(summary.get("diverged_trials"))),
        ("candidates in each trial", whole(summary.get("candidates"))),
        ("steps", whole(summary.get("steps"))),
        ("time", _unit(summary.get("seconds"), "s")),
        ("time per step and trial", _unit(summary.get("ms_per_step_per_trial"), "ms")),
    ]
    return [fact for fact in facts if fact[1] != NOTHING]


def target_facts(model: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The attacked network and how its training ended."""
    parts = {key: value for key in ("architecture", "training") if isinstance(value := model.get(key), dict)}
    facts = [(key.replace("_", " "), text(value)) for key, value in parts.get("architecture", {}).items()]
    facts += [("sample shape", text(model.get("sample_shape")))]
    names = {"error": "training error", "loss": "training loss", "seconds": "training time in seconds"}
    facts += [(names.get(key, key.replace("_", " ")), text(value)) for key, value in parts.get("training", {}).items()]
    return [fact for fact in facts if fact[1] != NOTHING]


def source_facts(config: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Where a network that was trained elsewhere came from."""
    source = config.get("source")
    named = source if isinstance(source, dict) else {}
    names = {"folder": "folder", "module": "made by", "weights": "weights", "sample_shape": "sample shape"}
    return [(label, text(named[key])) for key, label in names.items() if named.get(key) is not None]


def environment_facts(run: Run) -> list[tuple[str, str]]:
    keys = ("command", "version", "device", "dtype", "seed")
    facts = [(key, text(run.summary.get(key))) for key in keys]
    facts += [(f"stage {stage}", state) for stage, state in run.stages.items() if stage != "report"]
    return [fact for fact in facts if fact[1] != NOTHING]


def _unit(value: object, unit: str) -> str:
    found = number(value)
    return NOTHING if found is None else f"{found:.4g} {unit}"


def _times(value: object) -> str:
    found = number(value)
    return NOTHING if found is None else f"{found:g} x the smallest distance"
