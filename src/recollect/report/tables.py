"""What a run found as rows of text: figures beside those of luck, attacks beside each other, sample by sample."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from recollect.report.charts import SCORE_NAMES
from recollect.report.folder import Run
from recollect.report.matches import Matches
from recollect.report.parsing import number
from recollect.report.words import NOTHING, decimal, method, whole

SAMPLE_LIMIT = 500


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


def _share(summary: Mapping[str, Any], key: str, count_key: str) -> str:
    found, count = number(summary.get(key)), number(summary.get(count_key))
    if found is None:
        return NOTHING
    return whole(found) if not count else f"{whole(found)} of {whole(count)} ({found / count:.1%})"
