"""A gallery as columns of numbers and tiles: what the page's script filters, sorts and shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from recollect.report.parsing import number
from recollect.report.sprites import Sprites

STATIC_LIMIT = 60
"""Items that are in the page itself, for readers without scripts; the script shows all."""


@dataclass(frozen=True)
class Column:
    """One value for each item: a number, or the place of a name among ``names``."""

    name: str
    label: str
    values: list[float | None]
    names: tuple[str, ...] | None = None
    digits: int = 3
    on_card: bool = False
    """Whether cards show it, unless a filter has chosen one of its names: then it is the same on all of them."""

    def text(self, row: int) -> str:
        value = self.values[row]
        if value is None:
            return "—"
        return f"{value:.{self.digits}f}" if self.names is None else self.names[int(value)]

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "label": self.label,
            "values": self.values,
            "names": None if self.names is None else list(self.names),
            "digits": self.digits,
            "onCard": self.on_card,
        }


@dataclass(frozen=True)
class Gallery:
    """Items in the order in which they are shown; each has a tile for each of ``tile_names``."""

    columns: tuple[Column, ...]
    title: str
    """Name of the column that a card shows in bold, and that sorts the items unless they are ranked."""
    lit: str
    """Items whose state has this name stand out."""
    tile_names: tuple[str, ...]
    tiles: tuple[list[int], ...]
    sprites: Sprites
    first_choice: dict[str, str]
    """What a filter is set to when the page opens; others let everything pass."""
    ranked: bool = False
    """Whether the order of the items is a ranking of its own, which sorting would spoil."""

    def __len__(self) -> int:
        return len(self.columns[0].values)

    def column(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)

    def choices(self) -> list[Column]:
        """Columns to filter by: those of names that differ."""
        return [column for column in self.columns if column.names is not None and len(set(column.values)) > 1]

    def bounds(self) -> tuple[float, float] | None:
        """Least and greatest value of the title's column; None when they do not differ."""
        known = [value for value in self.column(self.title).values if value is not None]
        return (min(known), max(known)) if len(set(known)) > 1 else None

    def cards(self) -> list[dict[str, Any]]:
        """The first items that the first choice lets pass, as words and places of tiles."""
        chosen = [(self.column(name), choice) for name, choice in self.first_choice.items()]
        passing = [row for row in range(len(self)) if all(column.text(row) == choice for column, choice in chosen)]
        title, states = self.column(self.title), self.column("state")
        on_card = [column for column in self.columns if column.on_card and column.name not in self.first_choice]
        return [
            {
                "tiles": [self.sprites.place(tiles[row]) for tiles in self.tiles],
                "title": f"{title.label} {title.text(row)}",
                "words": " · ".join(f"{column.label} {column.text(row)}" for column in on_card),
                "lit": states.text(row) == self.lit,
            }
            for row in passing[:STATIC_LIMIT]
        ]

    def as_json(self) -> dict[str, Any]:
        return {
            "columns": [column.as_json() for column in self.columns],
            "title": self.title,
            "lit": self.lit,
            "ranked": self.ranked,
            "tileNames": list(self.tile_names),
            "tiles": [list(tiles) for tiles in self.tiles],
            "sheet": {"columns": self.sprites.columns, "rows": self.sprites.rows},
        }


def number_column(name: str, label: str, values: Sequence[object], digits: int = 3, on_card: bool = False) -> Column:
    """Numbers, short enough for a page with thousands of them; what is no number is left out."""
    known = [number(value) for value in values]
    short = [None if value is None else int(value) if digits == 0 else float(f"{value:.5g}") for value in known]
    return Column(name, label, short, digits=digits, on_card=on_card)


def name_column(name: str, label: str, values: Sequence[str], on_card: bool = False) -> Column:
    """Names, numbered in the order of their first appearance, or by size where all are whole numbers."""
    names = list(dict.fromkeys(values))
    if all(value.lstrip("-").isdecimal() for value in names):
        names.sort(key=int)
    places = {value: place for place, value in enumerate(names)}
    return Column(name, label, [places[value] for value in values], tuple(names), on_card=on_card)
