"""The page of two runs, before and after a defence: what it hides, what it does not, and what it exposes anew."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from recollect.report import tables
from recollect.report.audit import read_audit
from recollect.report.changes import BOTH, EXPOSED, HIDDEN, NEITHER, Change, Comparison, compare
from recollect.report.charts import SCORE_NAMES
from recollect.report.folder import read_run
from recollect.report.gallery import Gallery, name_column, number_column
from recollect.report.matches import Sample, lifted
from recollect.report.plots import Mark, Plot, Readings, across, dots, line, upright, x_axis, y_axis
from recollect.report.saving import save
from recollect.report.score_plots import shares_plot
from recollect.report.section import Section
from recollect.report.shell import Heading, page
from recollect.report.sprites import sprites
from recollect.report.words import NOTHING, decimal, text, whole

_LOOKS = {NEITHER: "dots grey", BOTH: "dots ink", HIDDEN: "dots accent", EXPOSED: "dots alarm"}


def write_comparison(before: Path, after: Path, out: Path | None = None) -> Path:
    """Write ``comparison.html`` into the second run folder, or to ``out``; self-contained like every page."""
    made = compare(read_run(before), read_run(after))
    return save(after / "comparison.html" if out is None else out, render_comparison(made).encode())


def render_comparison(made: Comparison) -> str:
    shown = change_gallery(made)
    sections = (_counts(made), _gallery(made, shown), _scores(made, shown), _settings(made), _caution())
    heading = Heading(
        name=" → ".join(_names(made)),
        verdict=comparison_verdict(made),
        kicker="before and after",
    )
    return page(heading, sections, shown)


def _names(made: Comparison) -> tuple[str, str]:
    """Of the folders: both runs often come from one configuration and have one name."""
    return made.before.path.resolve().name, made.after.path.resolve().name


def comparison_verdict(made: Comparison) -> str:
    """Both counts and how they came about, in one or two sentences."""
    total = len(made.changes)
    before, after = made.count(HIDDEN) + made.count(BOTH), made.count(EXPOSED) + made.count(BOTH)
    audits = {"before": read_audit(made.before.path), "after": read_audit(made.after.path)}
    quiet = [when for when, audit in audits.items() if audit is not None and audit.leak is False]
    luck = f" Luck explains the count {' and '.join(quiet)}." if quiet else ""
    return (
        f"Of {total} training samples {before} were recovered before and {after} after: {made.count(HIDDEN)} are newly "
        f"hidden, {made.count(EXPOSED)} newly exposed, {made.count(BOTH)} still recovered.{luck}"
    )


def change_gallery(made: Comparison) -> Gallery | None:
    """Each sample with its reconstruction before and after; what changed is shown first."""
    stacks = made.pictures()
    if stacks is None:
        return None
    drawn, tiles = sprites(stacks)
    changes, name = made.changes, SCORE_NAMES[made.score]
    shown = next((state for state in (HIDDEN, EXPOSED) if made.count(state)), None)
    columns = (
        number_column("index", "sample", [change.after.index for change in changes], digits=0, on_card=True),
        name_column("label", "class", [whole(change.after.label) for change in changes], on_card=True),
        name_column("state", "change", [change.state for change in changes]),
        number_column("amount", f"change of {name}", [change.amount(made.score) for change in changes]),
        number_column("before", f"{name} before", [change.before.score(made.score) for change in changes]),
        number_column("after", f"{name} after", [change.after.score(made.score) for change in changes]),
    )
    names = ("training image", "before", "after")
    first = {} if shown is None else {"state": shown}
    return Gallery(columns, "amount", EXPOSED, names, tuple(tiles), drawn, first)


def change_plot(made: Comparison, items: bool) -> Plot:
    """The score after against the score before: on the diagonal nothing changed."""
    name = SCORE_NAMES[made.score]
    first, second = (lifted([side.score(made.score) for side in sides]) for sides in _sides(made.changes))
    thresholds = [None if run.matches is None else run.matches.threshold for run in (made.before, made.after)]
    every = [*first, *second, *(value for value in thresholds if value is not None)]
    x, y = x_axis(every), y_axis(every)
    left, top = [x.at(value) for value in first], [y.at(value) for value in second]
    marks = [Mark("line faint grey", line([x.at(x.low), x.at(x.high)], [y.at(y.low), y.at(y.high)]), "no change")]
    lines = ((thresholds[0], x, upright), (thresholds[1], y, across))
    marks += [Mark("line dashed", draw(axis.at(value))) for value, axis, draw in lines if value is not None]
    for state, look in _LOOKS.items():
        chosen = [row for row, change in enumerate(made.changes) if change.state == state]
        if chosen:
            path = dots([left[row] for row in chosen], [top[row] for row in chosen])
            marks.append(Mark(look, path, f"{state} ({len(chosen)})"))
    side = "above" if made.score == "distance" else "below"
    texts = (
        None if items else [f"sample {row[0]}: {name} {row[2]} before, {row[3]} after, {row[5]}" for row in _rows(made)]
    )
    return Plot(
        name="changes",
        alt=f"{name} of {len(made.changes)} training samples after against before",
        x_label=f"{name} before",
        y_label=f"{name} after",
        x=x,
        y=y,
        marks=tuple(marks),
        readings=Readings(left, top, None if items else texts, near="point"),
        caption=f"Each training sample; {side} the diagonal it is harder to recover than before. Dashed: thresholds.",
    )


def _sides(changes: tuple[Change, ...]) -> tuple[list[Sample], list[Sample]]:
    return [change.before for change in changes], [change.after for change in changes]


def _rows(made: Comparison) -> list[list[str]]:
    return [
        [
            whole(change.after.index),
            whole(change.after.label),
            decimal(change.before.score(made.score)),
            decimal(change.after.score(made.score)),
            _signed(change.amount(made.score)),
            change.state,
        ]
        for change in made.changes
    ]


def _signed(value: float) -> str:
    return NOTHING if math.isnan(value) else f"{value:+.3f}"


def _counts(made: Comparison) -> Section:
    before, after = (
        {row.label.split(":")[0]: row for row in tables.figure_rows(run)} for run in (made.before, made.after)
    )
    rows = []
    for label in dict.fromkeys([*before, *after]):
        sides = [side.get(label) for side in (before, after)]
        rows.append([label, *(cell for row in sides for cell in _cells(row))])
    tally = [(state, str(made.count(state))) for state in (HIDDEN, EXPOSED, BOTH, NEITHER)]
    facts = {"rows": rows, "tally": tally, "cautions": made.cautions, "names": _names(made)}
    return Section("counts", "Side by side", "blocks/counts.html.j2", facts)


def _cells(row: tables.Row | None) -> list[str]:
    return [NOTHING, NOTHING] if row is None else [row.training, row.null]


def _gallery(made: Comparison, shown: Gallery | None) -> Section:
    caption = (
        "Each training image with its reconstruction before and after. The filter “change” chooses what is newly "
        "hidden, newly exposed, or as it was."
    )
    none = "The samples are not images, or the folders hold no pairs, so there is no picture of them."
    facts = {"gallery": shown, "caption": none if shown is None else caption}
    return Section("pairs", "Newly hidden, newly exposed", "blocks/gallery.html.j2", facts)


def _scores(made: Comparison, shown: Gallery | None) -> Section:
    name = SCORE_NAMES[made.score]
    rows = _rows(made)
    facts = {
        "headings": ["sample", "class", f"{name} before", f"{name} after", "change", "verdict"],
        "rows": rows[: tables.SAMPLE_LIMIT],
        "left_out": max(0, len(rows) - tables.SAMPLE_LIMIT),
    }
    before, after = ([side.score(made.score) for side in sides] for sides in _sides(made.changes))
    shares = shares_plot("shares", name, ("after", after), ("before", before))
    plots = (change_plot(made, shown is not None), replace(shares, caption="All scores before and after."))
    return Section("scores", "Change of every sample", "blocks/changes.html.j2", facts, plots)


def _settings(made: Comparison) -> Section:
    first, second = _flat(made.before.config), _flat(made.after.config)
    keys = [key for key in dict.fromkeys([*first, *second]) if first.get(key) != second.get(key)]
    rows = [[key, first.get(key, NOTHING), second.get(key, NOTHING)] for key in keys]
    return Section("settings", "Settings that differ", "blocks/settings.html.j2", {"rows": rows})


def _flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for key, value in settings.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": text(value)}
    return flat


def _caution() -> Section:
    return Section("caution", "What “hidden” does not mean", "blocks/hidden.html.j2")
