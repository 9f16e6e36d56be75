"""The page of a series: every member in a table, what was found along the axes, and which samples leak in each."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

from matplotlib.figure import Figure

from recollect.report.charts import png
from recollect.report.matches import Matches, read_matches
from recollect.report.parsing import read_text
from recollect.report.pictures import Picture, save_pictures
from recollect.report.saving import save
from recollect.report.series_attacks import attack_tables
from recollect.report.series_bars import GENERATED_BARS, bars, stand_alone
from recollect.report.series_charts import curve, heat_map
from recollect.report.series_scatter import PANEL_LIMIT, scatters
from recollect.report.series_tables import Record, listing, measure, read_series, series_verdict
from recollect.report.shell import environment

_SCATTER_DPI = 130
_ERRORS = {"test_error": "test error", "training_error": "training error"}


def write_series_report(folder: Path) -> Path:
    """Write ``report.html`` and its pictures into the folder of a series; like a run's page it loads nothing."""
    record = read_series(folder / "series.json")
    found = {
        member["member"]: matches
        for member in record["members"]
        if (matches := read_matches(folder / "members" / member["member"] / "matches.json")) is not None
    }
    pictures = draw_series(record, {slug: matches for slug, matches in found.items() if matches.samples})
    save_pictures(folder, pictures)
    page = environment().get_template("series.html.j2").render(_context(folder, record, pictures))
    return save(folder / "report.html", page.encode())


def draw_series(record: Record, matches: dict[str, Matches]) -> dict[str, Picture]:
    """Pictures by name: curves along one axis or maps over two, and a scatter for each member that was matched."""
    key, name = measure(record)
    figures = {"count": (key, f"training samples, {name}"), "training": ("training_error", "training error")}
    figures["test"] = ("test_error", "test error")
    known = {title: shown for title, shown in figures.items() if _known(record, shown[0])}
    pictures: dict[str, Picture] = {}
    if len(record["axes"]) == 2:
        for title, (figure, words) in known.items():
            alt = f"Map of {words} over both axes of the series"
            pictures[title] = _chart(title, alt, heat_map(record, figure, whole=title == "count"))
    if stand_alone(record):
        shown = GENERATED_BARS if _known(record, "label_agreement") else {key: name}
        alt = f"Bars of {', '.join(shown.values())} for every member of the series"
        pictures["bars"] = _chart("bars", alt, bars(record, shown))
    elif len(record["axes"]) == 1 and "count" in known:
        alt = f"Curve of {figures['count'][1]} along the axis of the series"
        pictures["count"] = _chart("count", alt, curve(record, {key: name}, f"training samples, {name}"))
    if len(record["axes"]) == 1 and "bars" not in pictures and _known(record, "training_error"):
        alt = "Curves of training and test error along the axis of the series"
        pictures["errors"] = _chart("errors", alt, curve(record, _ERRORS, "share of wrong labels"))
    if matches:
        alt = "For each member the score of every training sample against the network's output for it"
        figure = scatters(record, matches)
        width = int(figure.get_figwidth() * _SCATTER_DPI)
        pictures["scatters"] = Picture("figures/scatters.png", alt, png(figure, _SCATTER_DPI), width)
    return pictures


def _chart(title: str, alt: str, figure: Figure) -> Picture:
    return Picture(f"figures/{title}.png", alt, png(figure), int(108 * figure.get_figwidth()))


def _known(record: Record, key: str) -> bool:
    return any(member.get(key) is not None for member in record["members"])


def _context(folder: Path, record: Record, pictures: dict[str, Picture]) -> dict[str, Any]:
    headings, *rows = listing(record)
    _, name = measure(record)
    slugs = [member["member"] for member in record["members"]]
    links = [f"members/{quote(slug)}/report.html" for slug in slugs]
    present = [(folder / "members" / slug / "report.html").is_file() for slug in slugs]
    return {
        "name": record["name"],
        "title": record["title"],
        "paper": record["paper"],
        "verdict": series_verdict(record),
        "pictures": pictures,
        "count_name": name,
        "headings": headings,
        "rows": [(link if there else "", row) for link, there, row in zip(links, present, rows, strict=True)],
        "failures": [(member["name"], member["failure"]) for member in record["members"] if member["failure"]],
        "attacks": attack_tables(record),
        "left_out": max(0, len(slugs) - PANEL_LIMIT),
        "maps": len(record["axes"]) == 2,
        "config": read_text(folder / "config.toml") or "",
    }
