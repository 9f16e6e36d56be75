"""Charts as SVG that the page draws with its own colours: they need no script to be seen, and a script can read them.

A plot is geometry and words; ``blocks/plot.html.j2`` turns it into SVG. Points and lines are paths, so that 5,000
samples weigh a few kilobytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from matplotlib.ticker import LogLocator, MaxNLocator

WIDTH, HEIGHT = 460, 300
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 10, 46


@dataclass(frozen=True)
class Axis:
    """A range of values over a range of pixels."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def at(self, value: float) -> float:
        """The pixel of a value; nan for what has none."""
        if not math.isfinite(value) or (self.logarithmic and value <= 0):
            return math.nan
        low, high, value = (math.log10(x) if self.logarithmic else x for x in (self.low, self.high, value))
        return self.start + (value - low) / (high - low) * (self.end - self.start)

    def ticks(self) -> list[tuple[float, str]]:
        """Pixels of round values, and their names."""
        locator = LogLocator(numticks=7) if self.logarithmic else MaxNLocator(5, steps=[1, 2, 2.5, 5, 10])
        values = [float(value) for value in locator.tick_values(self.low, self.high)]
        pixels = [round(self.at(value), 1) for value in values]
        first, last = sorted((self.start, self.end))
        return [(pixel, short(value)) for pixel, value in zip(pixels, values, strict=True) if first <= pixel <= last]


@dataclass(frozen=True)
class Mark:
    """A path with a look (a class of the style sheet) and, when it is to be explained, words for the legend."""

    look: str
    path: str
    words: str = ""


@dataclass(frozen=True)
class Readings:
    """What pointer and keyboard find on a plot: places with a text each, or, without texts, the gallery's items."""

    x: list[float]
    y: list[float]
    texts: list[str] | None = None
    near: Literal["point", "column"] = "column"
    """Whether a pointer finds the nearest point, or the nearest in x wherever it is above the axis."""

    def as_json(self) -> dict[str, object]:
        return {"x": _rounded(self.x), "y": _rounded(self.y), "texts": self.texts, "near": self.near}


@dataclass(frozen=True)
class Plot:
    name: str
    alt: str
    x_label: str
    y_label: str
    x: Axis
    y: Axis
    marks: tuple[Mark, ...]
    readings: Readings
    headings: tuple[str, ...] = ()
    rows: list[list[str]] = field(default_factory=list)
    """The numbers themselves, for those who read rather than look."""
    caption: str = ""


def x_axis(values: Sequence[float], logarithmic: bool = False) -> Axis:
    low, high = _range(values, logarithmic)
    return Axis(low, high, LEFT, WIDTH - RIGHT, logarithmic)


def y_axis(values: Sequence[float], logarithmic: bool = False) -> Axis:
    low, high = _range(values, logarithmic)
    return Axis(low, high, HEIGHT - BOTTOM, TOP, logarithmic)


def dots(x: Sequence[float], y: Sequence[float]) -> str:
    """A path of lines without length: round ends make them dots."""
    places = [(a, b) for a, b in zip(x, y, strict=True) if not math.isnan(a + b)]
    return "".join(f"M{a:.1f} {b:.1f}h0" for a, b in places)


def line(x: Sequence[float], y: Sequence[float]) -> str:
    """A path through the points, broken where one is missing."""
    path, pen = [], "M"
    for a, b in zip(x, y, strict=True):
        if math.isnan(a + b):
            pen = "M"
            continue
        path.append(f"{pen}{a:.1f} {b:.1f}")
        pen = "L"
    return "".join(path)


def steps(edges: Sequence[float], tops: Sequence[float], floor: float) -> str:
    """The outline of a histogram: up from the floor, over the bars, and down again."""
    path = [f"M{edges[0]:.1f} {floor:.1f}"]
    for right, top in zip(edges[1:], tops, strict=True):
        path.append(f"V{top:.1f}H{right:.1f}")
    return "".join([*path, f"V{floor:.1f}"])


def across(y: float) -> str:
    return f"M{LEFT} {y:.1f}H{WIDTH - RIGHT}"


def upright(x: float) -> str:
    return f"M{x:.1f} {TOP}V{HEIGHT - BOTTOM}"


def short(value: float) -> str:
    """A number for an axis.

    >>> short(0.25), short(20000), short(1e-06), short(-0.0)
    ('0.25', '20,000', '1e-6', '0')
    """
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 1e6:
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    mantissa, exponent = f"{value:.2e}".split("e")
    return f"{float(mantissa):g}e{int(exponent)}"


def thinned(count: int, limit: int) -> list[int]:
    """At most ``limit`` places out of ``count``, evenly spread, the first and the last among them."""
    return np.unique(np.linspace(0, count - 1, min(count, limit)).round().astype(int)).tolist() if count else []


def _range(values: Sequence[float], logarithmic: bool) -> tuple[float, float]:
    known = [value for value in values if math.isfinite(value) and (value > 0 or not logarithmic)]
    low, high = (min(known), max(known)) if known else (0.1, 1.0)
    if logarithmic:
        low, high = 10.0 ** math.floor(math.log10(low)), 10.0 ** math.ceil(math.log10(high))
        return (low, high) if high > low else (low / 10, high * 10)
    room = 0.04 * (high - low) or 0.5 * max(abs(low), 1e-3)
    return low - room, high + room


def _rounded(values: list[float]) -> list[float | None]:
    return [None if math.isnan(value) else round(value, 1) for value in values]
