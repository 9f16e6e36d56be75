"""Charts of a series whose members are changes of one run, each with a name of its own: bars instead of a curve."""

from __future__ import annotations

import math
from collections.abc import Mapping

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from recollect.report.charts import ACCENT, GREY, INK, plain
from recollect.report.parsing import number
from recollect.report.series_charts import lines_of
from recollect.report.series_tables import Record

GENERATED_BARS = {
    "attack_accuracy": "attack accuracy",
    "density": "density",
    "class_feature_cosine": "cosine within classes",
    "frechet_training": "Frechet distance",
}
"""Of generated images: what becomes of each when a term of the loss is left out."""

_PANEL_WIDTH, _NAMES_WIDTH, _ROW_HEIGHT, _MARGIN = 2.2, 2.4, 0.24, 0.8  # inches


def stand_alone(record: Record) -> bool:
    """Whether every member of the only axis has a name of its own."""
    return len(record["axes"]) == 1 and all(line.across for line in lines_of(record))


def bars(record: Record, figures: Mapping[str, str]) -> Figure:
    """A row for each member, a panel for each of some figures (keys of ``series.json``); what is unknown has no bar."""
    lines = lines_of(record)
    size = _NAMES_WIDTH + _PANEL_WIDTH * len(figures), _MARGIN + _ROW_HEIGHT * len(lines)
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(1, len(figures), sharey=True, squeeze=False)[0]
    for panel, (key, name) in zip(panels, figures.items(), strict=True):
        values = [number(line.members[0][key]) for line in lines]
        panel.barh(range(len(lines)), [math.nan if value is None else value for value in values], color=ACCENT)
        panel.set_xlabel(name, color=INK)
        panel.xaxis.set_major_locator(MaxNLocator(3))
        panel.spines[["top", "right", "left"]].set_visible(False)
        panel.spines["bottom"].set_color(GREY)
        panel.tick_params(colors=INK, color=GREY, left=False)
    panels[0].set_yticks(range(len(lines)), [plain(line.name) for line in lines])
    panels[0].set_ylim(len(lines) - 0.5, -0.5)
    return figure
