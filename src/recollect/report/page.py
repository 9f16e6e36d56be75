"""The report: one HTML page that explains a run, readable offline and on its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from recollect.report import tables
from recollect.report.charts import SCORE_NAMES
from recollect.report.folder import Run, read_run
from recollect.report.kernels import KERNEL_LIMIT, kernels
from recollect.report.matches import Matches
from recollect.report.pictures import GRID_LIMIT, Picture, draw, grid_score, save_pictures
from recollect.report.saving import save

REGRESSION = ("l2", "l2.5", "huber")
"""Losses without a margin: every sample takes part, however far its output is from zero."""


def write_report(run: Path) -> Path:
    """Write ``report.html`` and its pictures into a run folder, from what the folder holds; return the page's path.

    The page loads nothing: style and pictures are inside it, and it has no scripts.
    """
    contents = read_run(run)
    pictures = draw(contents)
    save_pictures(run, pictures)
    return save(run / "report.html", render(contents, pictures).encode())


def render(run: Run, pictures: dict[str, Picture]) -> str:
    """The page as text. Everything that comes from the run folder is escaped."""
    return environment().get_template("page.html.j2").render(_context(run, pictures))


def environment() -> Environment:
    """The templates. The suffix .j2 hides .html from jinja2's own guess, so escaping is switched on for all."""
    return Environment(
        loader=PackageLoader("recollect.report", "."), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )


def _context(run: Run, pictures: dict[str, Picture]) -> dict[str, Any]:
    figures = tables.figure_rows(run)
    samples = () if run.matches is None else run.matches.samples
    return {
        "name": run.name,
        "verdict": verdict(run),
        "pictures": pictures,
        "points": run.of_points,
        "figures": figures,
        "compared": any(row.null != tables.NOTHING for row in figures),
        "recovered_rule": tables.text(run.summary.get("recovered_rule") or "").rstrip("."),
        "rule": tables.rule_facts(run.summary),
        "grid_caption": grid_caption(run),
        "score": SCORE_NAMES[run.matches.score] if run.matches is not None else "",
        "null_known": run.matches is not None and bool(run.matches.null.get(run.matches.score)),
        "scatter_caption": "" if run.matches is None else scatter_caption(run, run.matches),
        "sample_headings": [] if run.matches is None else tables.sample_headings(run.matches),
        "samples": [] if run.matches is None else tables.sample_rows(run.matches),
        "samples_left_out": max(0, len(samples) - tables.SAMPLE_LIMIT),
        "attack": tables.attack_facts(run),
        "target": tables.target_facts(run.model),
        "comparison": tables.comparison(run),
        "baselines": run.baselines,
        "config": run.config_text,
        "environment": tables.environment_facts(run),
        "kernels_caption": kernels_caption(run),
    }


def verdict(run: Run) -> str:
    """The run's own sentence; before matching, a sentence that says so."""
    found = run.summary.get("verdict")
    if isinstance(found, str) and found.strip():
        return found
    if run.matches is None:
        return "No verdict yet: the candidates were not matched with reference data."
    return "No verdict was recorded; the figures below say what was found."


def scatter_caption(run: Run, matches: Matches) -> str:
    """What the scores are drawn against, and which samples the theory expects to be found."""
    drawn = f"Each training sample: {SCORE_NAMES[matches.score]} against"
    if matches.of_margins:
        return (
            f"{drawn} its margin, the output of its class less the largest other. Samples with the smallest margins "
            "are the ones this attack can see."
        )
    training = run.config.get("training")
    if isinstance(training, dict) and training.get("loss") in REGRESSION:
        return f"{drawn} the network's output, which training drew towards +1 or -1."
    return (
        f"{drawn} the network's output. Samples near the margin have small outputs; they are the ones this attack can "
        "see."
    )


def kernels_caption(run: Run) -> str:
    """What the kernels are, or nothing where the network has none."""
    found = kernels(run)
    if found is None:
        return ""
    count, _, height, width = found.shape
    shown = f"{count}" if count <= KERNEL_LIMIT else f"The first {KERNEL_LIMIT} of {count}"
    return (
        f"{shown} kernels of {height} x {width} as images, each stretched to full contrast (Buzaglo et al. 2023, "
        "Figure 16)."
    )


def grid_caption(run: Run) -> str:
    """What the pair grid shows, or why there is none."""
    if run.reference is None or run.matches is None:
        if "candidates" in run.distilled and run.of_images:
            total = len(run.distilled["candidates"])
            return (
                f"No reference data: the {min(total, GRID_LIMIT)} of {total} distilled candidates with the largest "
                "multipliers, each stretched to full contrast and titled with its multiplier."
            )
        return "The run folder holds no pairs yet: the match stage with reference data writes them."
    if not len(run.reference):
        return "Matching left no pairs: the reference data hold no samples."
    if not run.of_images:
        return f"Samples of shape {list(run.sample_shape)} are not images, so there is no picture of them."
    total = len(run.reference)
    return (
        f"The {min(total, GRID_LIMIT)} best of {total} training samples by {SCORE_NAMES[grid_score(run)]}, best first: "
        "reconstruction above, training image below."
    )
