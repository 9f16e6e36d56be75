"""Every preset parses, says what it shows, and names things that exist."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from recollect.core import RecollectError
from recollect.data.sources import STANDARD_NAMES
from recollect.data.tasks import TASKS
from recollect.presets import load_preset, preset_names

DATA = {*STANDARD_NAMES, "circle"}


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_is_complete(name: str) -> None:
    config = load_preset(name)
    assert config.name == name
    assert config.title
    assert config.paper
    assert config.source is None
    assert config.data is not None
    assert config.data.name in DATA
    assert config.data.name == "circle" or config.data.task in TASKS


def test_set_overrides_a_preset_even_in_its_name() -> None:
    config = load_preset("demo", ["name=mine", "attack.trials.0.lr_x=0.5"])
    assert config.name == "mine"
    assert config.attack.trials[0].lr_x == 0.5
    assert config.attack.trials[1:] == load_preset("demo").attack.trials[1:]


@pytest.mark.parametrize(
    ("name", "expected"),
    [("demoo", "did you mean 'demo'?"), ("zzzz", "see 'recollect presets'"), ("../demo", "there is no preset")],
)
def test_an_unknown_preset_is_explained(name: str, expected: str) -> None:
    with pytest.raises(RecollectError) as caught:
        load_preset(name)
    assert expected in str(caught.value)


def test_the_list_of_presets(command: Callable[..., Any]) -> None:
    listed = json.loads(command("presets", "--json").out)
    assert sorted(listed) == preset_names()
    assert listed["demo"] == {"title": load_preset("demo").title, "paper": load_preset("demo").paper}
    text = command("presets").out
    assert all(name in text for name in preset_names())
