"""Every preset parses, says what it shows, and names things that exist."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recollect.core import RecollectError
from recollect.data.sources import STANDARD_NAMES
from recollect.data.tasks import TASKS
from recollect.presets import load_preset, preset_names
from recollect.series.members import members

TOYS = {"circle", "clouds"}
DATA = {*STANDARD_NAMES, *TOYS}


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_is_complete(name: str) -> None:
    config = load_preset(name)
    assert config.name == name
    assert config.title
    assert config.paper
    assert config.source is None
    assert config.data is not None
    assert config.data.name in DATA
    assert config.data.name in TOYS or config.data.task in TASKS


@pytest.mark.parametrize(
    ("name", "count"), [("buzaglo-weight-decay", 13), ("buzaglo-classes", 10), ("buzaglo-conv-grid", 24)]
)
def test_every_member_of_a_series_is_valid(name: str, count: int) -> None:
    config = load_preset(name)
    made = members(config)
    assert len(made) == count
    assert len({member.slug for member in made}) == count
    assert load_preset("demo").series == ()


TINY = {
    "data.holdout_count": "20",
    "training.epochs": "3",
    "attack.candidates": "20",
    "attack.steps": "3",
    "training.dtype": "float32",
}
SMALL_MLP, SMALL_CONV = {"model.hidden": "[8, 8]", "data.n": "20"}, {"model.hidden": "[4]", "data.n": "20"}
SMALL = {
    "buzaglo-multiclass": SMALL_MLP,
    "buzaglo-multiclass-pooled": SMALL_MLP | {"attack.search.trials": "2"},
    "buzaglo-regression-l2": SMALL_MLP,
    "buzaglo-regression-l2.5": SMALL_MLP,
    "buzaglo-regression-huber": SMALL_MLP,
    "buzaglo-weight-decay": SMALL_MLP | {"series.0.values": "[1e-3]"},
    "buzaglo-classes": {
        "model.hidden": "[8, 8]",
        "data.holdout_count": "12",
        "series.0.lines": '{all = [{ "data.classes" = 3, "data.n" = 6 }, { "data.classes" = 2, "data.n" = 4 }]}',
    },
    "buzaglo-conv": SMALL_CONV | {"model.channels": "2", "attack.search.trials": "2"},
    "buzaglo-conv-grid": SMALL_CONV | {"series.0.values": "[32]", "series.1.values": "[2, 3]"},
    "buzaglo-5000": {"data.n": "100", "data.holdout_count": "100", "model.hidden": "[6, 6, 6]", "attack.steps": "2"},
}


@pytest.fixture
def pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise in the files that hold CIFAR-10 and CIFAR-100."""
    folder, generator = tmp_path / "data", np.random.default_rng(0)
    folder.mkdir()
    monkeypatch.setenv("RECOLLECT_DATA", str(folder))
    for name, classes in (("cifar10", 10), ("cifar100", 100)):
        for split in ("train", "test"):
            images = generator.integers(0, 256, (max(60, classes), 32, 32, 3), dtype=np.uint8)
            np.savez(folder / f"{name}_{split}.npz", images=images, labels=np.arange(len(images)) % classes)


def test_every_series_and_its_kin_has_a_small_version() -> None:
    assert set(SMALL) == {name for name in preset_names() if name.startswith("buzaglo")}


@pytest.mark.usefixtures("pictures")
@pytest.mark.parametrize("name", SMALL)
def test_a_small_version_runs_to_its_report(command: Callable[..., Any], tmp_path: Path, name: str) -> None:
    options = [word for key, value in (TINY | SMALL[name]).items() for word in ("--set", f"{key}={value}")]
    ended = command("reproduce", name, *options, "--json")
    assert ended.code == 0, ended.err
    run = tmp_path / "runs" / name
    assert (run / "report.html").is_file()
    rows = json.loads(ended.out).get("members", [json.loads(ended.out)])
    assert len(rows) == (2 if load_preset(name).series else 1)
    assert all(row["reference_count"] in (4, 6, 20, 100) for row in rows)


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
