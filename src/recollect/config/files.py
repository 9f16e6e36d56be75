"""Configurations as TOML text: read with overrides, checked, written out complete."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import ValidationError

from recollect.config.errors import explain
from recollect.config.run import Config
from recollect.core import RecollectError
from recollect.overrides import apply_override, kinds_first, put
from recollect.series.axes import require_free


def read_config(path: Path, overrides: Sequence[str] = ()) -> Config:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RecollectError(f"cannot read the configuration '{path}': {_reason(error)}.") from error
    return parse_config(text, str(path), overrides)


def parse_config(text: str, origin: str, overrides: Sequence[str] = ()) -> Config:
    """A complete configuration from TOML text and ``path.to.key=value`` overrides."""
    try:
        raw = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise RecollectError(f"'{origin}' is not valid TOML: {error}.") from error
    config = _validated(raw, origin)
    if not overrides:
        return config
    # Overrides change the complete configuration, so that they reach defaults too: attack.trials.0.lr_x.
    resolved = config.model_dump(mode="json")
    for override in kinds_first(overrides):
        apply_override(resolved, override)
    changed = _validated(resolved, "--set")
    require_free(changed.series, overrides)
    return changed


def updated(config: Config, sections: Mapping[str, Mapping[str, Any] | None], origin: str) -> Config:
    """The same run with whole sections replaced, checked as if they had stood in the file."""
    return _validated(config.model_dump(mode="json") | dict(sections), origin)


def with_settings(config: Config, settings: Mapping[str, Any], origin: str) -> Config:
    """The same run with other values at ``path.to.key``, checked as if they had stood in the file."""
    resolved = config.model_dump(mode="json")
    for path in kinds_first(settings):
        put(resolved, path, settings[path], origin)
    return _validated(resolved, origin)


def _validated(raw: Mapping[str, Any], origin: str) -> Config:
    try:
        return Config.model_validate(raw)
    except ValidationError as error:
        raise RecollectError(explain(error, Config, origin)) from error


def with_drawn_trials(config: Config) -> Config:
    """The same run with every random setting written out, so that the run folder says what was run.

    A sweep proposes its settings as it goes, and says in ``trials.jsonl`` what was run.
    """
    baselines = {name: attack.drawn(config.seed) for name, attack in config.baselines.items()}
    attack = config.attack.drawn(config.seed) if config.sweep is None else config.attack
    return config.model_copy(update={"attack": attack, "baselines": baselines})


COMPLETE = "# complete: every value of the run is above\n"
"""Last line of a run folder's configuration: a file cut short may still be valid TOML, and mean something else."""


def to_toml(config: Config) -> str:
    """Everything, in an order that survives: members of a series are numbered by it."""
    values = config.model_dump(mode="json", exclude_none=True)
    # tomli_w puts short values before long ones, also where names are data, as those of lines are.
    series = [
        f"\n[[series]]\n{_each_on_a_line(axis)}\n[series.lines]\n{_each_on_a_line(lines)}"
        for axis in values.pop("series")
        for lines in [axis.pop("lines")]
    ]
    return tomli_w.dumps(values) + "".join(series) + COMPLETE


def _each_on_a_line(table: Mapping[str, Any]) -> str:
    return "".join(f"{_key(name)} = {_inline(value)}\n" for name, value in table.items())


def _inline(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(name)} = {_inline(own)}" for name, own in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return tomli_w.dumps({"it": value}).removeprefix("it = ").rstrip("\n")


def _key(name: str) -> str:
    return tomli_w.dumps({name: 0}).removesuffix(" = 0\n")


def read_run_config(path: Path) -> Config:
    """The configuration that a run folder holds; nothing of it may be missing."""
    config = read_config(path)
    if not path.read_text(encoding="utf-8").endswith(COMPLETE):
        raise RecollectError(f"'{path}' is cut short, its last line is missing; start anew with --overwrite.")
    return config


def _reason(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else "it is not UTF-8 text"
