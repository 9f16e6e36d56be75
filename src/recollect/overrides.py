"""What --set says: a path into the configuration, and a value."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from typing import Any

from recollect.core import RecollectError


def apply_override(raw: dict[str, Any], override: str) -> None:
    """Change one value of a nested configuration in place; positions in lists are numbers from 0.

    Another ``kind`` takes the section's other values away: they described the old one.

    >>> raw = {"attack": {"trials": [{"lr_x": 0.3}]}}
    >>> apply_override(raw, "attack.trials.0.lr_x=0.1")
    >>> raw["attack"]["trials"]
    [{'lr_x': 0.1}]
    """
    path, equals, text = override.partition("=")
    if not equals or not all(path.strip().split(".")):
        raise RecollectError(f"--set needs path.to.key=value, got '{override}'; for example --set attack.steps=5000.")
    put(raw, path.strip(), _value(text), f"--set {override}")


def put(raw: dict[str, Any], path: str, value: Any, said: str) -> None:
    """Change one value in place; ``said`` is what an error quotes."""
    keys = path.split(".")
    node: Any = raw
    for key in keys[:-1]:
        place = _place(node, key, said)
        if isinstance(node, dict) and node.get(place) is None:
            node[place] = {}  # a section that was left out, such as data
        node = node[place]
    place = _place(node, keys[-1], said)
    if place == "kind" and node.get(place, value) != value:
        node.clear()  # the other values describe another kind of thing
    node[place] = value


def kinds_first(overrides: Iterable[str]) -> list[str]:
    """The same overrides or paths in an order that lets a kind come with values of its own, wherever they stand.

    >>> kinds_first(["model.kernel=5", "model.kind=conv"])
    ['model.kind=conv', 'model.kernel=5']
    """
    return sorted(overrides, key=lambda override: not override.partition("=")[0].strip().endswith(".kind"))


def _value(text: str) -> Any:
    """A TOML value; what is none is taken for text, so that --set device=cpu needs no quotes."""
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text.strip()
    return parsed["value"] if len(parsed) == 1 else text.strip()


def _place(node: Any, key: str, said: str) -> str | int:
    if isinstance(node, list):
        return _position(node, key, said)
    if not isinstance(node, dict):
        raise RecollectError(f"{said}: '{key}' is inside a value, not a section; leave it out.")
    return key


def _position(values: list[Any], key: str, said: str) -> int:
    if not key.isdecimal() or int(key) >= len(values):
        raise RecollectError(f"{said}: '{key}' must be a position from 0 to {len(values) - 1}.")
    return int(key)
