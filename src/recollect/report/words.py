"""Values from a file as words, whatever the file holds in their place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recollect.report.parsing import number

NOTHING = "—"
METHODS = {
    "kkt": "KKT reconstruction",
    "activation": "activation maximisation",
    "weights": "first-layer weights",
    "generator": "conditioned generator",
}


def method(summary: Mapping[str, Any]) -> str:
    name = text(summary.get("method"))
    return METHODS.get(name, name)


def whole(value: object) -> str:
    """An integer without decimals, any other number in short.

    >>> whole(14), whole(2.5), whole(None)
    ('14', '2.5', '—')
    """
    found = number(value)
    if found is None:
        return NOTHING
    return f"{int(found)}" if found == int(found) else f"{found:.4g}"


def decimal(value: object) -> str:
    found = number(value)
    return NOTHING if found is None else f"{found:.3f}"


def text(value: object) -> str:
    """Anything JSON holds, in one line."""
    if value is None:
        return NOTHING
    if isinstance(value, list):
        return ", ".join(text(part) for part in value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)
