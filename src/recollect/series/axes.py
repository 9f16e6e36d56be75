"""What a series varies: ``[[series]]`` in a configuration. Several axes make a grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from recollect.core import RecollectError

Settings = dict[str, Any]
"""Values by path, as --set takes them: ``{"training.weight_decay": 0.001}``."""

_RESERVED = ("name", "series")


@dataclass(frozen=True)
class Point:
    """One place on an axis; points of the same ``line`` are joined in the curve."""

    name: str
    settings: Mapping[str, Any]
    line: str


class SeriesAxis(BaseModel):
    """One thing that a series varies: ``key`` with its ``values``, or ``settings`` that change several keys at once.

    ``lines`` are further settings under names of their own, each drawn as a line of its own; one with a single
    point is drawn across the curve, for comparison.

    >>> axis = SeriesAxis(key="training.weight_decay", values=(0.1, 1e-5))
    >>> [point.name for point in axis.points()]
    ['weight decay 0.1', 'weight decay 1e-05']
    >>> axis = SeriesAxis(settings=({"data.classes": 2, "data.n": 100},), lines={"no decay": ({"data.classes": 2},)})
    >>> [(point.name, point.line) for point in axis.points()]
    [('classes 2, n 100', ''), ('no decay', 'no decay')]
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    label: str = ""
    """What the axis is called; by default the last part of its first key."""
    key: str = ""
    values: tuple[Any, ...] = ()
    settings: tuple[Settings, ...] = ()
    lines: dict[str, tuple[Settings, ...]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _says_one_thing(self) -> SeriesAxis:
        if bool(self.key) != bool(self.values):
            raise ValueError("key and values belong together; give both, or settings")
        if self.key and self.settings:
            raise ValueError("key with values and settings are two ways to say the same; give one of them")
        found = self._listed()
        if not (self.values or found) or not all(found) or not all(self.lines.values()):
            raise ValueError("an axis needs at least one member, and a member at least one setting")
        for key in (self.key, *(key for settings in found for key in settings)):
            if key.split(".")[0] in _RESERVED:
                raise ValueError(f"a series cannot vary '{key}', its members are told apart by it; leave it out")
        return self

    @property
    def first_key(self) -> str:
        """What the axis is drawn along."""
        return self.key or next(iter(self._listed()[0]))

    @property
    def title(self) -> str:
        return self.label or _words(self.first_key)

    def points(self) -> list[Point]:
        if self.key:
            own = [Point(f"{self.title} {_value(value)}", {self.key: value}, "") for value in self.values]
        else:
            own = [Point(_name(settings), settings, "") for settings in self.settings]
        for line, listed in self.lines.items():
            alone = len(listed) == 1
            own += [Point(line if alone else f"{line}, {_name(settings)}", settings, line) for settings in listed]
        return own

    def varied(self) -> set[str]:
        """Keys that every point sets."""
        return set.intersection(*(set(point.settings) for point in self.points()))

    def _listed(self) -> list[Settings]:
        return [*self.settings, *(settings for line in self.lines.values() for settings in line)]


def require_free(axes: Sequence[SeriesAxis], overrides: Sequence[str]) -> None:
    """What a series varies cannot be set for all of its members."""
    for override in overrides:
        path = override.partition("=")[0].strip()
        for place, axis in enumerate(axes):
            if any(path == key or path.startswith(f"{key}.") for key in axis.varied()):
                where = "values" if axis.key else "settings" if axis.settings else "lines"
                raise RecollectError(
                    f"--set {override}: the series varies '{path}', so it has no one value; leave it out, or choose "
                    f"others with --set series.{place}.{where}=..."
                )


def _name(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{_words(key)} {_value(value)}" for key, value in settings.items())


def _words(key: str) -> str:
    return key.rpartition(".")[2].replace("_", " ")


def _value(value: Any) -> str:
    return " ".join(_value(part) for part in value) if isinstance(value, list | tuple) else str(value)
