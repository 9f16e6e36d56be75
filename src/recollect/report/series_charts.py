"""Charts of a series: what was found along one axis, or over two."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from recollect.report.charts import COLOURS, GREY, INK, legend, new_figure, plain
from recollect.report.parsing import number
from recollect.report.series_tables import Record

_LOGARITHMIC = 20
"""From this ratio of the largest to the smallest value on, an axis is logarithmic."""

_INCHES_OF_A_LETTER = 0.04
"""Downwards, of a name that is written at an angle."""


@dataclass(frozen=True)
class Line:
    """Members that are joined in a curve; one alone is drawn across it instead."""

    name: str
    x: list[float]
    members: list[Record]
    across: bool


def lines_of(record: Record) -> list[Line]:
    """The curve of a series with one axis; values that are no numbers stand side by side."""
    points = record["axes"][0]["points"]
    values = [number(point["value"]) for point in points]
    members = {member["place"][0]: member for member in record["members"]}
    names = list(dict.fromkeys(point["line"] for point in points))
    lines = []
    for name in names:
        places = [place for place, point in enumerate(points) if point["line"] == name]
        numeric = all(values[place] is not None for place in places)
        x = [float(values[place] or 0) if numeric else float(place) for place in places]
        alone = len(places) == 1 and len(names) > 1
        lines.append(Line(name, x, [members[place] for place in places], alone))
    return lines


def curve(record: Record, figures: Mapping[str, str], y_label: str) -> Figure:
    """One or two named figures of the members (keys of ``series.json``) against what the only axis varies.

    The second figure is dashed; with several lines the legend names these alone.
    """
    figure, axes = new_figure(plain(record["axes"][0]["label"]), y_label)
    lines = lines_of(record)
    for place, line in enumerate(lines):
        for style, (key, name) in zip(("-", (0, (2, 2))), figures.items(), strict=False):
            y = [_finite(member[key]) for member in line.members]
            joined = line.name or record["axes"][0]["label"]
            label = joined if style == "-" and len(lines) > 1 else name if len(lines) == 1 < len(figures) else None
            _draw(axes, line, y, COLOURS[place % len(COLOURS)], style, None if label is None else plain(label))
    _scale(axes, [value for line in lines if not line.across for value in line.x], record)
    legend(figure, axes)
    return figure


def _draw(axes: Axes, line: Line, y: Sequence[float], colour: str, style: Any, label: str | None) -> None:
    if line.across:
        axes.axhline(y[0], color=colour, linestyle=style, linewidth=1.2, alpha=0.8, label=label)
    else:
        axes.plot(line.x, y, color=colour, linestyle=style, marker="o", markersize=4, linewidth=1.4, label=label)


def _scale(axes: Axes, x: Sequence[float], record: Record) -> None:
    points = record["axes"][0]["points"]
    if any(number(point["value"]) is None for point in points):
        names = [plain(point["name"]) for point in points]
        axes.set_xticks(range(len(points)), names, rotation=30, ha="right")
        figure = axes.get_figure(root=True)
        assert figure is not None
        figure.set_figheight(figure.get_figheight() + _INCHES_OF_A_LETTER * max(map(len, names)))
    elif x and min(x) > 0 and max(x) / min(x) >= _LOGARITHMIC:
        axes.set_xscale("log")
    axes.set_ylim(bottom=0, top=max(axes.get_ylim()[1], 0.1))
    if all(float(value).is_integer() for drawn in axes.lines for value in np.ravel(drawn.get_ydata())):
        axes.set_ylim(top=max(axes.get_ylim()[1], 4))
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))


def heat_map(record: Record, key: str, whole: bool) -> Figure:
    """One figure of the members over both axes: the first downwards, the second across."""
    down, across = record["axes"]
    table = np.full((len(down["points"]), len(across["points"])), math.nan)
    for member in record["members"]:
        table[tuple(member["place"])] = _finite(member[key])
    figure, axes = new_figure(plain(across["label"]), plain(down["label"]))
    axes.grid(False)
    axes.imshow(table, cmap="GnBu", aspect="auto", vmin=0, vmax=max(1e-9, np.nanmax(table, initial=0)))
    axes.set_xticks(range(table.shape[1]), [_tick(point) for point in across["points"]])
    axes.set_yticks(range(table.shape[0]), [_tick(point) for point in down["points"]])
    largest = np.nanmax(table, initial=0)
    for row, column in np.ndindex(table.shape):
        value = table[row, column]
        text = "—" if math.isnan(value) else f"{value:.0f}" if whole else f"{value:.1%}"
        colour = "white" if value > 0.6 * largest else INK
        axes.text(column, row, text, ha="center", va="center", color=colour, fontsize=9)
    axes.spines[["left", "bottom"]].set_color(GREY)
    return figure


def _tick(point: Record) -> str:
    value = point["value"]
    return plain(point["name"] if value is None or point["line"] else str(value))


def _finite(value: object) -> float:
    found = number(value)
    return math.nan if found is None else found
