"""Read the files of a run folder; a file that is not what it should be is a sentence, never a traceback."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

from recollect.core import RecollectError


def read_object(path: Path) -> dict[str, Any] | None:
    """The JSON object in a file; None when there is no such file."""
    text = read_text(path)
    return None if text is None else _object(text, f"{path}")


def read_lines(path: Path) -> list[dict[str, Any]] | None:
    """One JSON object for each line that is not blank; None when there is no such file."""
    text = read_text(path)
    if text is None:
        return None
    lines = enumerate(text.split("\n"), start=1)
    return [_object(line, f"line {place} of {path}") for place, line in lines if line.strip()]


def read_toml(text: str, path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RecollectError(f"{path} is not valid TOML ({error}); run the experiment again.") from error


def read_tensors(path: Path, names: Collection[str], *beginnings: str) -> dict[str, Tensor] | None:
    """Those of the named tensors, and of those that begin so, that a safetensors file holds; None without a file.

    The length of the whole file is checked, but only what is named is read: candidates can be large.
    """
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            held = file.keys()
            return {name: file.get_tensor(name) for name in held if name in names or name.startswith(beginnings)}
    except (SafetensorError, OSError) as error:
        raise RecollectError(
            f"{path} is truncated or not a safetensors file; run the stage that writes it again."
        ) from error


def read_text(path: Path) -> str | None:
    if not path.exists():
        return None
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RecollectError(f"{path} cannot be read as text; check its permissions or run the stage again.") from error


def check_format(record: dict[str, Any], path: Path) -> None:
    """Refuse a folder written by another generation of the program."""
    if record.get("format") != 1:
        raise RecollectError(
            f"{path} has format {record.get('format')!r}, this version reads format 1; "
            "use the version of recollect that wrote it."
        )


def number(value: object) -> float | None:
    """A finite number, or None for everything else a file may hold in its place.

    >>> number(0.5), number(None), number("half"), number(float("nan"))
    (0.5, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def numbers(values: object) -> list[float]:
    """A list of numbers with nan for what is missing; an empty list for anything that is not a list."""
    if not isinstance(values, list):
        return []
    found = [number(value) for value in values]
    return [math.nan if value is None else value for value in found]


def _object(text: str, place: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RecollectError(f"{place} is truncated or not valid JSON; run the stage that writes it again.") from error
    if not isinstance(value, dict):
        raise RecollectError(
            f"{place} holds a JSON {type(value).__name__} where an object is expected; "
            "run the stage that writes it again."
        )
    return value
