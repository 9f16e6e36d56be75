"""Sections that say what was found."""

from __future__ import annotations

from dataclasses import replace

from recollect.report import audit as audits
from recollect.report import tables
from recollect.report.charts import SCORE_NAMES
from recollect.report.facts import rule_facts
from recollect.report.folder import Run
from recollect.report.gallery import Gallery
from recollect.report.matches import UNMATCHED, Matches
from recollect.report.pairs import STATES
from recollect.report.plots import Plot
from recollect.report.roc import roc_of
from recollect.report.score_plots import histogram_plot, roc_plot, scatter_plot
from recollect.report.section import Material, Section
from recollect.report.words import NOTHING, decimal, text, whole

REGRESSION = ("l2", "l2.5", "huber")
"""Losses without a margin: every sample takes part, however far its output is from zero."""


def audit_section(material: Material) -> Section | None:
    """What was measured, what was declared and what that means, each in its own place."""
    if material.audit is None:
        return None
    facts = {
        "audit": material.audit,
        "affected_headings": audits.AFFECTED_HEADINGS,
        "affected_left_out": material.audit.affected_count - len(material.audit.affected),
    }
    return Section("audit", "The audit", "blocks/audit.html.j2", facts)


def figures_section(material: Material) -> Section:
    run = material.run
    figures = tables.figure_rows(run)
    facts = {
        "figures": figures,
        "compared": any(row.null != NOTHING for row in figures),
        "recovered_rule": text(run.summary.get("recovered_rule") or "").rstrip("."),
        "rule": rule_facts(run.summary),
    }
    return Section("figures", "What was found", "blocks/figures.html.j2", facts)


def pairs_section(material: Material) -> Section:
    """Pairs of images; points of the plane have their own picture."""
    if material.run.of_points:
        facts = {"picture": material.pictures["main"]}
        return Section("pairs", "The plane, before and after", "blocks/plane.html.j2", facts)
    facts = {"gallery": material.gallery, "caption": gallery_caption(material.run, material.gallery)}
    return Section("pairs", "Reconstructions", "blocks/gallery.html.j2", facts)


def scores_section(material: Material) -> Section:
    matches = material.run.matches
    if matches is None or not matches.samples:
        return Section("scores", "Which samples leak", "blocks/scores.html.j2", {"headings": [], "rows": []})
    facts = {
        "headings": tables.sample_headings(matches),
        "rows": tables.sample_rows(matches),
        "left_out": max(0, len(matches.samples) - tables.SAMPLE_LIMIT),
    }
    return Section(
        "scores", "Which samples leak", "blocks/scores.html.j2", facts, tuple(_score_plots(material, matches))
    )


def orbitope_section(material: Material) -> Section | None:
    picture = material.pictures.get("orbitope")
    if picture is None:
        return None
    return Section("orbitope", "How symmetric the candidates are", "blocks/orbitope.html.j2", {"picture": picture})


def baselines_section(material: Material) -> Section:
    run = material.run
    shown = {other.name: material.pictures.get(f"baseline {other.path.name}") for other in run.baselines}
    drawn = {name: picture for name, picture in shown.items() if picture is not None and not run.of_images}
    none = "No verdict was recorded." if run.matches is not None else "Not matched with data, so nothing is verified."
    words = [(other.name, str(other.summary.get("verdict") or none)) for other in run.baselines]
    headings, *rows = tables.comparison(run)
    facts = {"headings": headings, "rows": rows, "words": words, "pictures": drawn}
    return Section("baselines", "Compared with simpler attacks", "blocks/baselines.html.j2", facts)


def scatter_caption(run: Run, matches: Matches, score: str) -> str:
    """What the scores are drawn against, and which samples the theory expects to be found."""
    unmatched = score == "ncc" and any(sample.ncc == UNMATCHED for sample in matches.samples)
    edge = " (on the lower edge where no candidate is nearest to it)" if unmatched else ""
    drawn = f"Each training sample{edge}: {SCORE_NAMES[score]} against"
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


def gallery_caption(run: Run, shown: Gallery | None) -> str:
    """What the gallery shows, or why there is none."""
    if run.reference is None or run.matches is None:
        kept = run.distilled.get("candidates")
        if kept is not None and len(kept) and shown is None:
            return (
                f"No reference data, so nothing has been verified; the {len(kept)} distilled candidates have the shape "
                f"{list(run.sample_shape)} and are no images. If the network takes flattened images, say so with "
                "--shape, such as --shape 1,28,28, to see them."
            )
        if shown is None:
            return "The run folder holds no pairs yet: the match stage with reference data writes them."
        return (
            f"No reference data, so nothing here has been verified: the {len(shown)} distilled candidates, the most "
            "promising first, each stretched to full contrast. Some may resemble training samples, others nothing."
        )
    if not len(run.reference):
        return "Matching left no pairs: the reference data hold no samples."
    if shown is None:
        return f"Samples of shape {list(run.sample_shape)} are not images, so there is no picture of them."
    exact = "" if shown.sprites.exact else " Pictures are reduced to fit on the page; pairs.safetensors has them whole."
    return f"Each reconstruction beside its training image, best {shown.column('score').label} first.{exact}"


def _score_plots(material: Material, matches: Matches) -> list[Plot]:
    others = [name for name in ("ssim", "ncc") if name != matches.score and matches.score != "distance"]
    known = [name for name in others if any(sample.score(name) == sample.score(name) for sample in matches.samples)]
    scatters = [
        replace(scatter_plot(matches, name), caption=scatter_caption(material.run, matches, name))
        for name in (matches.score, *known)
    ]
    if material.gallery is None:
        texts = _sample_texts(matches)
        scatters = [replace(plot, readings=replace(plot.readings, texts=texts)) for plot in scatters]
    return [*scatters, replace(histogram_plot(matches), caption=histogram_caption(matches)), *_roc(material, matches)]


def histogram_caption(matches: Matches) -> str:
    name = SCORE_NAMES[matches.score]
    if not matches.null.get(matches.score):
        return f"How training samples score ({name}). The run has no held-out scores to compare with."
    return (
        f"How training samples score ({name}) against held-out samples; one that no candidate is nearest to stands at "
        "the left end."
    )


def _roc(material: Material, matches: Matches) -> list[Plot]:
    of_audit = None if material.audit is None else material.audit.roc
    found = of_audit or roc_of(matches)
    if found is None:
        return []
    caption = (
        f"{found.true_at(0.01):.1%} of the training samples pass a threshold that lets at most 1% of the held-out "
        "samples pass. On the diagonal the score would tell nothing."
    )
    return [replace(roc_plot(found), caption=caption)]


def _sample_texts(matches: Matches) -> list[str]:
    samples = [matches.samples[place] for place in matches.best_first()]
    name = SCORE_NAMES[matches.score]
    return [
        f"sample {whole(sample.index)}, class {whole(sample.label)}: {name} "
        f"{decimal(sample.score(matches.score))}, {STATES[sample.recovered]}"
        for sample in samples
    ]
