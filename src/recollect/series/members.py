"""From one configuration with ``[[series]]`` to the configuration of every member."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from recollect.config import Config, to_toml, with_settings
from recollect.core import RecollectError
from recollect.series.axes import Point

_LONGEST_SLUG = 80


@dataclass(frozen=True)
class Member:
    """One run of a series: its folder's name, its name in words, and where it stands on each axis."""

    slug: str
    name: str
    place: tuple[int, ...]
    settings: dict[str, Any]
    config: Config


def members(config: Config) -> list[Member]:
    """Every combination of the points of all axes, the last axis fastest; a mistake in any of them is an error.

    >>> from recollect.config import parse_config
    >>> config = parse_config('name = "s"' + "\\n[[series]]\\nkey = 'seed'\\nvalues = [1, 2]\\n", "an example")
    >>> [(member.slug, member.config.name, member.config.seed) for member in members(config)]
    [('seed-1', 's-seed-1', 1), ('seed-2', 's-seed-2', 2)]
    """
    axes = [axis.points() for axis in config.series]
    made: list[Member] = []
    for place in product(*(range(len(points)) for points in axes)):
        chosen = [points[position] for points, position in zip(axes, place, strict=True)]
        made.append(_member(config, place, chosen, {member.slug for member in made}))
    _require_different(made)
    return made


def _member(config: Config, place: tuple[int, ...], chosen: Sequence[Point], taken: set[str]) -> Member:
    name = ", ".join(point.name for point in chosen)
    settings = {key: value for point in chosen for key, value in point.settings.items()}
    slug = _slug(name)
    if slug in taken:
        slug += "-" + "-".join(str(position) for position in place)
    alone = with_settings(config.model_copy(update={"series": ()}), settings, f"the series at {name}")
    title = f"{config.title}: {name}" if config.title else name
    alone = alone.model_copy(update={"name": f"{config.name}-{slug}", "title": title})
    return Member(slug, name, place, settings, alone)


def _slug(name: str) -> str:
    """A name as that of a folder.

    >>> _slug("weight decay 1e-05, widths (64, 64)")
    'weight-decay-1e-05-widths-64-64'
    """
    return re.sub(r"[^A-Za-z0-9.+-]+", "-", name).strip("-.")[:_LONGEST_SLUG] or "member"


def _require_different(made: Sequence[Member]) -> None:
    known: dict[str, str] = {}
    for member in made:
        text = to_toml(member.config.model_copy(update={"name": "same", "title": ""}))
        if text in known:
            raise RecollectError(
                f"the series has the same run twice, '{known[text]}' and '{member.name}'; leave one of them out."
            )
        known[text] = member.name
