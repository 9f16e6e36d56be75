"""Where candidates lie between the average of an orbit and its elements, as a figure (Elbaz et al. 2024, Fig. 5)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from recollect.core import RecollectError
from recollect.report.charts import ACCENT, GREY, legend, new_figure, plain
from recollect.report.parsing import numbers, read_object

FILE = "orbitope.json"


@dataclass(frozen=True)
class Orbitope:
    """Counts of candidates in equal parts of the way from average (0) to extreme point (1)."""

    group: str
    edges: list[float]
    counts: list[float]
    near: list[float]
    near_ncc: float


def read_orbitope(folder: Path) -> Orbitope | None:
    """None where there is no such file: the network has no symmetry, or was not matched."""
    record = read_object(folder / FILE)
    if record is None:
        return None
    edges, counts, near = (numbers(record.get(name)) for name in ("edges", "counts", "near_counts"))
    if len(edges) < 2 or len(counts) != len(edges) - 1 or len(near) != len(counts):
        raise RecollectError(f"{folder / FILE} has counts that do not fit its edges; run the match stage again.")
    least = numbers([record.get("near_ncc")])[0]
    return Orbitope(str(record.get("group", "")), edges, counts, near, least)


def orbitope_figure(found: Orbitope) -> Figure:
    """All candidates in grey, those that resemble their nearest point on an outline."""
    figure, axes = new_figure("from the average of the orbit (0) to its elements (1)", "share of candidates")
    total = max(1.0, sum(found.counts))
    axes.stairs([count / total for count in found.counts], found.edges, fill=True, color=GREY, label="all candidates")
    label = f"NCC >= {found.near_ncc:g} with an orbitope"
    axes.stairs([count / total for count in found.near], found.edges, color=ACCENT, linewidth=1.6, label=label)
    axes.set_title(f"group {plain(found.group)}", fontsize=9, loc="right")
    legend(figure, axes)
    return figure
