"""The report: one HTML page that explains a run, readable offline and on its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from recollect.report import result_sections as results
from recollect.report import setting_sections as setting
from recollect.report.audit import Audit, read_audit
from recollect.report.folder import Run, read_run
from recollect.report.generated import generated_section
from recollect.report.listing import write_listing
from recollect.report.pairs import gallery
from recollect.report.pictures import draw, save_pictures
from recollect.report.saving import save
from recollect.report.section import Material, Section
from recollect.report.shell import Heading, page
from recollect.report.sweep_section import sweep_section

SECTIONS: tuple[Callable[[Material], Section | None], ...] = (
    results.audit_section,
    results.figures_section,
    results.pairs_section,
    results.scores_section,
    results.orbitope_section,
    generated_section,
    sweep_section,
    results.baselines_section,
    setting.attack_section,
    setting.target_section,
    setting.assumptions_section,
    setting.caution_section,
    setting.configuration_section,
    setting.environment_section,
)
"""From top to bottom; a function that returns None leaves its section out."""


def write_report(run: Path) -> Path:
    """Write ``report.html``, its pictures and ``matches.csv`` into a run folder, from what the folder holds.

    The page loads nothing: style, pictures, numbers and script are inside it. Returns its path.
    """
    contents = read_run(run)
    pictures = draw(contents)
    save_pictures(run, pictures)
    write_listing(contents)
    material = Material(contents, pictures, gallery(contents), read_audit(run))
    return save(run / "report.html", render(material).encode())


def render(material: Material) -> str:
    made = [make(material) for make in SECTIONS]
    audit = material.audit
    heading = Heading(
        name=material.run.name,
        verdict=verdict(material.run, audit),
        tone="" if audit is None or audit.leak is None else "leak" if audit.leak else "quiet",
    )
    return page(heading, [section for section in made if section is not None], material.gallery)


def verdict(run: Run, audit: Audit | None) -> str:
    """The audit's or the run's own sentence; before matching, a sentence that says so."""
    found = run.summary.get("verdict") if audit is None else audit.verdict
    if isinstance(found, str) and found.strip():
        return found
    if run.matches is None:
        return "No verdict yet: the candidates were not matched with reference data."
    return "No verdict was recorded; the figures below say what was found."
