"""A series as data: which members it has, what they are called, and what is refused before anything runs."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.config import Config, parse_config, to_toml
from recollect.core import RecollectError
from recollect.presets import load_preset, preset_names
from recollect.series.axes import SeriesAxis
from recollect.series.members import members
from recollect.zoo import ConvArchitecture, MLPArchitecture

GRID = """
name = "grid"
title = "Two axes"
[data]
name = "sample"
[[series]]
key = "training.weight_decay"
values = [1e-5, 0.001]
[series.lines]
"no decay" = [{ "training.weight_decay" = 0.0, "model.first_layer_scale" = 1e-4 }]
[[series]]
label = "networks"
settings = [{ "model.kernel" = 5, "model.kind" = "conv" }, { "model.hidden" = [7, 8], "data.n" = 30 }]
"""


def test_a_grid_has_every_combination_in_order() -> None:
    made = members(parse_config(GRID, "test"))
    assert [member.place for member in made] == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]
    assert [member.slug for member in made[:3]] == [
        "weight-decay-1e-05-kernel-5-kind-conv",
        "weight-decay-1e-05-hidden-7-8-n-30",
        "weight-decay-0.001-kernel-5-kind-conv",
    ]
    assert made[4].name == "no decay, kernel 5, kind conv"
    assert [member.config.training.weight_decay for member in made] == [1e-5, 1e-5, 1e-3, 1e-3, 0.0, 0.0]
    assert made[0].config.model == ConvArchitecture(kernel=5)
    assert made[4].config.model == ConvArchitecture(kernel=5, first_layer_scale=1e-4)
    assert made[5].config.model == MLPArchitecture(hidden=(7, 8), first_layer_scale=1e-4)
    assert [None if member.config.data is None else member.config.data.n for member in made] == [None, 30] * 3


def test_members_are_ordinary_runs_that_differ_from_the_series_in_what_it_varies_alone() -> None:
    config = parse_config(GRID, "test", ["seed=7", "attack.steps=11"])
    for member in members(config):
        assert member.config.series == ()
        assert (member.config.seed, member.config.attack.steps) == (7, 11)
        assert member.config.name == f"grid-{member.slug}"
        assert member.config.title.startswith("Two axes: ")
        assert "series" not in to_toml(member.config)
        assert parse_config(to_toml(member.config), "test") == member.config


@pytest.mark.parametrize("name", [name for name in preset_names() if load_preset(name).series])
def test_members_have_the_same_order_after_toml(name: str) -> None:
    """A series that is gone on with is read from its folder, where it must have the members that it began with."""
    config = load_preset(name)
    again = parse_config(to_toml(config), "test")
    assert again == config
    assert [member.slug for member in members(again)] == [member.slug for member in members(config)]


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=9)
leaves = (
    st.booleans()
    | st.integers(-(2**62), 2**62)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=9)
)
settings = st.dictionaries(
    names.map("model.".__add__), st.recursive(leaves, lambda inner: st.lists(inner, max_size=3)), min_size=1, max_size=3
)


@given(st.dictionaries(names, st.lists(settings, min_size=1, max_size=3), min_size=1, max_size=4))
def test_whatever_a_series_says_survives_toml_in_its_order(lines: dict[str, list[dict[str, Any]]]) -> None:
    axis = SeriesAxis(lines={name: tuple(points) for name, points in lines.items()})
    again = parse_config(to_toml(Config(series=(axis,))), "test").series[0]
    assert (again, again.points()) == (axis, axis.points())
    assert list(again.lines) == list(axis.lines)


def test_a_series_survives_toml_and_set_changes_it() -> None:
    config = parse_config(GRID, "test")
    assert parse_config(to_toml(config), "test") == config
    changed = parse_config(GRID, "test", ["series.0.values=[0.5]"])
    assert [member.settings.get("training.weight_decay") for member in members(changed)] == [0.5, 0.5, 0.0, 0.0]
    assert parse_config(GRID, "test", ["series=[]"]).series == ()


@given(st.lists(st.lists(st.integers(2, 10**9), min_size=1, max_size=3, unique=True), min_size=1, max_size=3))
def test_any_grid_is_a_product(values: list[list[int]]) -> None:
    keys = ("seed", "attack.steps", "training.epochs")
    axes = tuple(SeriesAxis(key=key, values=tuple(numbers)) for key, numbers in zip(keys, values, strict=False))
    made = members(Config(series=axes))
    found = [(member.config.seed, member.config.attack.steps, member.config.training.epochs) for member in made]
    assert [row[: len(values)] for row in found] == list(itertools.product(*values))
    assert len({member.slug for member in made}) == len(made)


def test_names_that_would_be_the_same_folder_are_told_apart() -> None:
    axis = SeriesAxis(lines={"a b": ({"seed": 1},), "a/b": ({"seed": 2},), "../..": ({"seed": 3},)})
    assert [member.slug for member in members(Config(series=(axis,)))] == ["a-b", "a-b-1", "member"]


@pytest.mark.parametrize(
    ("axis", "expected"),
    [
        ('key = "training.weight_decy"\nvalues = [1]', "key 'training.weight_decy'; did you mean 'weight_decay'?"),
        ('key = "trainin.lr"\nvalues = [1]', "unknown key 'trainin'; did you mean 'training'?"),
        ('settings = [{ "data.clases" = 2 }]', "unknown key 'data.clases'; did you mean 'classes'?"),
        ('key = "training.lr"\nvaluez = [1]', "unknown key 'series.0.valuez'; did you mean 'values'?"),
        ('key = "training.lr"\nvalues = [0.1, -1]', "the series at lr -1: training.lr: input should be greater than 0"),
        ('key = "training.lr"\nvalues = [0.1, 0.1]', "the series has the same run twice, 'lr 0.1' and 'lr 0.1'"),
        ('key = "training.lr.x"\nvalues = [1]', "'x' is inside a value, not a section"),
        ('key = "attack.trials.5.lr_x"\nvalues = [1]', "'5' must be a position from 0 to 0"),
        ('key = "training.lr"', "series.0: key and values belong together"),
        ('key = "seed"\nvalues = [1]\nsettings = [{ seed = 2 }]', "are two ways to say the same"),
        ("label = 'nothing'", "an axis needs at least one member"),
        ("settings = [{}]", "an axis needs at least one member, and a member at least one setting"),
        ('key = "name"\nvalues = ["a"]', "a series cannot vary 'name'"),
        ('key = "series.0.values"\nvalues = [1]', "a series cannot vary 'series.0.values'"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_sentence(axis: str, expected: str) -> None:
    with pytest.raises(RecollectError) as caught:
        members(parse_config(f"[data]\nname = 'sample'\n[[series]]\n{axis}\n", "test"))
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_a_series_varies_cannot_be_set_for_all() -> None:
    with pytest.raises(RecollectError, match=r"the series varies .* choose others with --set series\.0\.values="):
        parse_config(GRID, "test", ["training.weight_decay=1"])
    trials = "[[series]]\nkey = 'attack.trials'\nvalues = [[{ lr_x = 0.1 }], [{ lr_x = 0.2 }]]\n"
    assert [member.config.attack.trials[0].lr_x for member in members(parse_config(trials, "test"))] == [0.1, 0.2]
    with pytest.raises(RecollectError, match=r"the series varies 'attack\.trials\.0\.lr_x'"):
        parse_config(trials, "test", ["attack.trials.0.lr_x=1"])


def test_what_only_some_members_set_can_be_set_for_the_others() -> None:
    made = members(parse_config(GRID, "test", ["model.first_layer_scale=0.5"]))
    assert [member.config.model.first_layer_scale for member in made] == ["standard", 0.5, "standard", 0.5, 1e-4, 1e-4]
