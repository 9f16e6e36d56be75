"""Numbers of a run as words: rows of label and text, ready for any page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from recollect.report.charts import SCORE_NAMES
from recollect.report.folder import Run
from recollect.report.matches import Matches
from recollect.report.parsing import number

NOTHING = "—"
SAMPLE_LIMIT = 500
METHODS = {
    "kkt": "KKT reconstruction",
    "activation": "activation maximisation",
    "weights": "first-layer weights",
    "generator": "conditioned generator",
}


@dataclass(frozen=True)
class Row:
    """A figure for the training samples, and the same figure for held-out samples beside it."""

    label: str
    training: str
    null: str


def figure_rows(run: Run) -> list[Row]:
    """What was found, with what luck finds beside it; figures that do not apply to the run are left out."""
    counts = [
        (threshold_in_words(run.matches), "recovered", "null_recovered"),
        ("NCC ≥ 0.9", "ncc90", "null_ncc90"),
        ("NCC ≥ 0.8", "ncc80", "null_ncc80"),
        ("SSIM > 0.4", "good_ssim04", "null_good_ssim04"),
    ]
    summary = run.summary
    rows = [
        Row(label, _share(summary, key, "reference_count"), _share(summary, null_key, "null_count"))
        for label, key, null_key in counts
    ]
    rows += [
        Row(
            "mean DSSIM (lower is better)", decimal(summary.get("mean_dssim")), decimal(summary.get("null_mean_dssim"))
        ),
        Row("mean SSIM of the ten best", decimal(summary.get("top10_ssim")), NOTHING),
    ]
    return [row for row in rows if (row.training, row.null) != (NOTHING, NOTHING)]


def threshold_in_words(matches: Matches | None) -> str:
    if matches is None or matches.threshold is None:
        return "Recovered"
    if matches.score == "distance":
        return f"Recovered: distance ≤ {matches.threshold:g}"
    return f"Recovered: {SCORE_NAMES[matches.score]} > {matches.threshold:.3f}, the held-out threshold"


def comparison(run: Run) -> list[list[str]]:
    """Headings, then this run and its baselines, a row each; columns that are empty for all are left out."""
    headings = ["", "method", "recovered", "NCC ≥ 0.9", "NCC ≥ 0.8", "SSIM > 0.4", "mean DSSIM"]
    rows = [_comparison(run, "this run"), *(_comparison(other, other.name) for other in run.baselines)]
    kept = [place for place in range(len(headings)) if any(row[place] != NOTHING for row in rows)]
    return [[row[place] for place in kept] for row in (headings, *rows)]


def _comparison(run: Run, name: str) -> list[str]:
    counts = ("recovered", "ncc90", "ncc80", "good_ssim04")
    cells = [_beside(whole(run.summary.get(key)), whole(run.summary.get(f"null_{key}"))) for key in counts]
    dssim = _beside(decimal(run.summary.get("mean_dssim")), decimal(run.summary.get("null_mean_dssim")))
    return [name, method(run.summary), *cells, dssim]


def _beside(figure: str, null: str) -> str:
    return figure if null == NOTHING else f"{figure} ({null})"


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


_SAMPLE_HEADINGS = (
    "sample",
    "label",
    "output",
    "NCC",
    "SSIM",
    "PSNR",
    "distance",
    "votes",
    "trial, candidate",
    "recovered",
)


def sample_headings(matches: Matches) -> list[str]:
    return ["margin" if name == "output" and matches.of_margins else name for name in _SAMPLE_HEADINGS]


def sample_rows(matches: Matches) -> list[list[str]]:
    """One row for each training sample, best score first."""
    rows = []
    for place in matches.best_first()[:SAMPLE_LIMIT]:
        sample = matches.samples[place]
        scores = [decimal(value) for value in (sample.output, sample.ncc, sample.ssim, sample.psnr, sample.distance)]
        candidate = NOTHING if sample.candidate is None else f"{sample.candidate[0]}, {sample.candidate[1]}"
        recovered = {True: "yes", False: "no", None: NOTHING}[sample.recovered]
        rows.append([whole(sample.index), whole(sample.label), *scores, whole(sample.votes), candidate, recovered])
    return rows


def method(summary: Mapping[str, Any]) -> str:
    name = text(summary.get("method"))
    return METHODS.get(name, name)


def whole(value: object) -> str:
    """An integer without decimals, any other number in short.

    >>> whole(14), whole(2.5), whole(None)
    ('14', '2.5', '—')
    """
    found = number(value)
    if found is None:
        return NOTHING
    return f"{int(found)}" if found == int(found) else f"{found:.4g}"


def decimal(value: object) -> str:
    found = number(value)
    return NOTHING if found is None else f"{found:.3f}"


def text(value: object) -> str:
    """Anything JSON holds, in one line."""
    if value is None:
        return NOTHING
    if isinstance(value, list):
        return ", ".join(text(part) for part in value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _share(summary: Mapping[str, Any], key: str, count_key: str) -> str:
    found, count = number(summary.get(key)), number(summary.get(count_key))
    if found is None:
        return NOTHING
    return whole(found) if not count else f"{whole(found)} of {whole(count)} ({found / count:.1%})"


def _unit(value: object, unit: str) -> str:
    found = number(value)
    return NOTHING if found is None else f"{found:.4g} {unit}"


def _times(value: object) -> str:
    found = number(value)
    return NOTHING if found is None else f"{found:g} x the smallest distance"
