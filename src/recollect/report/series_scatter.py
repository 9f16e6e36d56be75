"""Which samples leak in every member of a series: small multiples of score against output."""

from __future__ import annotations

import math
from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from recollect.report.charts import ACCENT, GREY, INK, SCORE_NAMES, plain
from recollect.report.matches import Matches, Sample, lifted
from recollect.report.parsing import number
from recollect.report.series_tables import Record, measure

PANEL_LIMIT = 36
_COLUMNS = 4
_GOOD_SSIM = 0.4


def scatters(record: Record, matches: Mapping[str, Matches]) -> Figure:
    """A panel for each member that has been matched (Buzaglo 2023, Fig. 3, 10, 14 and 15), all on one scale of scores.

    Members of a grid stand as in the grid, others in their order.
    """
    shown = [member for member in record["members"] if member["member"] in matches][:PANEL_LIMIT]
    columns = len(record["axes"][1]["points"]) if _gridded(record) else _COLUMNS
    rows = len(record["axes"][0]["points"]) if _gridded(record) else -(-len(shown) // columns)
    figure = Figure(figsize=(2.5 * columns, 2.15 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, sharey=True, squeeze=False)
    used = set()
    for order, member in enumerate(shown):
        place = tuple(member["place"]) if _gridded(record) else divmod(order, columns)
        used.add(place)
        _panel(panels[place], member, matches[member["member"]], record)
    for place, axes in zip(((r, c) for r in range(rows) for c in range(columns)), panels.flat, strict=True):
        if place not in used:
            axes.set_axis_off()
    some = next(iter(matches.values()))
    figure.supylabel(SCORE_NAMES[some.score], color=INK, fontsize=9)
    figure.supxlabel(
        "margin of the training sample" if some.of_margins else "network's output for the training sample",
        color=INK,
        fontsize=9,
    )
    return figure


def _gridded(record: Record) -> bool:
    return len(record["axes"]) == 2 and len(record["members"]) <= PANEL_LIMIT


def _panel(axes: Axes, member: Record, found: Matches, record: Record) -> None:
    drawn = lifted([sample.score(found.score) for sample in found.samples])
    for recovered, colour in ((False, GREY), (None, INK), (True, ACCENT)):
        chosen = [place for place, sample in enumerate(found.samples) if sample.recovered is recovered]
        outputs = [_output(found.samples[place]) for place in chosen]
        axes.scatter(outputs, [drawn[place] for place in chosen], s=7, color=colour, linewidths=0)
    if found.score == "ssim":
        axes.axhline(_GOOD_SSIM, color=GREY, linewidth=0.8, linestyle=(0, (4, 3)))
    axes.set_title(f"{plain(str(member['name']))}\n{_figures(member, record)}", fontsize=7.5, color=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(GREY)
    axes.tick_params(colors=INK, color=GREY, labelsize=7)


def _output(sample: Sample) -> float:
    return math.nan if sample.output is None else sample.output


def _figures(member: Record, record: Record) -> str:
    """How many are good, then training and test error."""
    key, _ = measure(record)
    errors = [number(member[part]) for part in ("training_error", "test_error")]
    shown = [f"{error:.0%}" for error in errors if error is not None]
    counts = f"{member[key]} of {member['reference_count']}"
    return f"{counts}; errors {', '.join(shown)}" if shown else counts
