"""The section of a sweep: which settings were tried, how they scored, and how that compares with the truth."""

from __future__ import annotations

import math
from dataclasses import replace

from recollect.report.section import Material, Section
from recollect.report.sweep_plots import parallel_plot, slice_plots, truth_plot
from recollect.report.sweep_trials import SweptTrial, SweptTrials, rank_correlation, read_trials

_ROWS = 500


def sweep_section(material: Material) -> Section | None:
    """Nothing for a run that is no sweep."""
    swept = read_trials(material.run.path)
    if swept is None:
        return None
    plots = slice_plots(swept)
    if len(swept.matched()) > 1:
        plots = [replace(truth_plot(swept), caption=truth_caption(swept)), *plots]
    facts = {
        "counts": counts(swept, material.run.summary.get("sampler")),
        "parallel": parallel_plot(swept) if swept.names and swept.of("complete") else None,
        "headings": ["trial", "outcome", "score", *swept.names, "steps", *_figure(swept)],
        "rows": [_row(trial, swept) for trial in best_first(swept)[:_ROWS]],
        "left_out": max(0, len(swept.trials) - _ROWS),
    }
    return Section("sweep", "The sweep", "blocks/sweep.html.j2", facts, tuple(plots))


def counts(swept: SweptTrials, sampler: object) -> str:
    """How many trials there were and what became of them."""
    ends = [(len(swept.of("complete")), "came to the last step")]
    ends += [(len(swept.of("pruned")), "stopped early"), (len(swept.of("diverged")), "diverged")]
    known = ", ".join(f"{count} {words}" for count, words in ends if count)
    by = f", settings proposed by {sampler}" if isinstance(sampler, str) else ""
    return f"{len(swept.trials)} trials{by}: {known}."


def truth_caption(swept: SweptTrials) -> str:
    """How well the score ranked trials, now that somebody has the data."""
    matched = swept.matched()
    rho = rank_correlation([trial.score for trial in matched], [float(trial.found or 0) for trial in matched])
    chosen, best = swept.picked(), max(trial.found or 0 for trial in matched)
    picked = f"Trial {chosen.number}, with the best score, has {chosen.found}"
    picked += f"; the best trial {best} of {swept.reference_count}."
    ranked = "" if math.isnan(rho) else f" Rank correlation (Spearman): {rho:.2f}; -1 would be a perfect score."
    return f"{picked}{ranked} The data took no part in the search."


def _figure(swept: SweptTrials) -> list[str]:
    return [swept.figure] if swept.figure else []


def best_first(swept: SweptTrials) -> list[SweptTrial]:
    order = {"complete": 0, "pruned": 1, "diverged": 2}
    return sorted(swept.trials, key=lambda trial: (order[trial.outcome], trial.score, trial.number))


def _row(trial: SweptTrial, swept: SweptTrials) -> list[str]:
    found = ["" if trial.found is None else str(trial.found)] * len(_figure(swept))
    settings = [f"{trial.settings[name]:.4g}" if name in trial.settings else "" for name in swept.names]
    score = "" if math.isnan(trial.score) else f"{trial.score:.4f}"
    return [str(trial.number), trial.outcome, score, *settings, f"{trial.steps:,}", *found]
