"""Published experiments as configurations, one TOML file each."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from importlib import resources

from recollect.config import Config, parse_config
from recollect.core import RecollectError


def preset_names() -> list[str]:
    files = resources.files(__name__).iterdir()
    return sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml"))


def load_preset(name: str, overrides: Sequence[str] = ()) -> Config:
    """The configuration of that name; its run is called after it.

    >>> load_preset("demo", ["attack.steps=10"]).attack.steps
    10
    """
    names = preset_names()
    if name not in names:
        near = get_close_matches(name, names, n=1)
        hint = f"did you mean '{near[0]}'?" if near else "see 'recollect presets'."
        raise RecollectError(f"there is no preset '{name}'; {hint}")
    text = (resources.files(__name__) / f"{name}.toml").read_text(encoding="utf-8")
    return parse_config(text, f"preset {name}", [f"name={name}", *overrides])
