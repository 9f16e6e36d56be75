"""Every attack on every member of a series in one table: the attack itself and its baselines, side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from recollect.report.series_tables import Record, counted, measure, over_trials, share
from recollect.report.words import NOTHING, decimal, text

_OVER_TRIALS = {
    "Mean DSSIM, images stretched from their minimum to their maximum, window 3": "mean_dssim_stretch_3",
    "Mean DSSIM, images clamped to [0, 1], window 3": "mean_dssim_clamp_3",
}
_GENERATED: dict[str, Callable[[Record], str]] = {
    "Attack accuracy of an independent classifier": lambda found: share(found.get("attack_accuracy")),
    "Density among real images": lambda found: decimal(found.get("density")),
    "Frechet distance to training images": lambda found: text(found.get("frechet_training")),
}


@dataclass(frozen=True)
class Table:
    """One figure: a row for each member, a column for each attack."""

    caption: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]


def attack_tables(record: Record) -> list[Table]:
    """None where members have no baselines, or nothing is known of them yet."""
    tables = [_table(record, caption, cell) for caption, cell in _figures(record).items()]
    return [table for table in tables if any(cell != NOTHING for row in table.rows for cell in row[2:])]


def _figures(record: Record) -> dict[str, Callable[[Record], str]]:
    every = [found for member in record["members"] for found in (member, *_baselines(member).values())]
    if any(found.get("label_agreement") is not None for found in every):
        return _GENERATED
    if any(found.get("each_trial") for found in every):
        own = "{}; mean and deviation over trials, each judged by itself, and in brackets the mean of held-out samples"
        return {own.format(name): lambda found, key=key: over_trials(found, key) for name, key in _OVER_TRIALS.items()}
    key, name = measure(record)
    return {f"Training samples, {name}; in brackets held-out ones": lambda found: counted(found, key)}


def _table(record: Record, caption: str, cell: Callable[[Record], str]) -> Table:
    names = list(dict.fromkeys(name for member in record["members"] for name in _baselines(member)))
    rows = [
        [text(member["name"]), cell(member), *(cell(_baselines(member).get(name, {})) for name in names)]
        for member in record["members"]
    ]
    return Table(caption, ["member", "the attack", *(name.replace("_", " ") for name in names)], rows)


def _baselines(member: Record) -> dict[str, Record]:
    return member.get("baselines") or {}
