"""The presets on invariant networks: every member is valid, and small versions run to their reports."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recollect.presets import load_preset
from recollect.series.members import members

METHODS = {"activation", "kkt", "kkt_adam", "smooth", "unfolded", "same_gd", "dip"}


@pytest.mark.parametrize(("name", "count"), [("elbaz-table1", 6), ("elbaz-sizes", 20), ("elbaz-orbitope", 3)])
def test_every_member_of_a_series_is_valid(name: str, count: int) -> None:
    made = members(load_preset(name))
    assert len(made) == count
    assert len({member.slug for member in made}) == count


def test_the_table_has_every_published_cell_and_every_method() -> None:
    made = members(load_preset("elbaz-table1"))
    cells = {(m.config.data.name, m.config.model.group, m.config.data.n) for m in made}  # pyright: ignore
    assert cells == {
        ("mnist", "flip", 50),
        ("mnist", "flip", 100),
        ("cifar10", "flip", 50),
        ("cifar10", "flip", 100),
        ("mnist", "d4", 50),
        ("mnist", "d4", 100),
    }
    for member in made:
        assert set(member.config.baselines) == METHODS
        assert member.config.attack.space == "box"
        assert member.config.data is not None
        assert member.config.data.mean_group == "model"
        assert member.config.baselines["dip"].dip.offset == "mean"
    alone = load_preset("elbaz-mnist-flip-n50")
    assert alone.baselines == made[0].config.baselines
    assert (alone.attack, alone.training, alone.model) == (
        made[0].config.attack,
        made[0].config.training,
        made[0].config.model,
    )


@pytest.fixture
def digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise in the files that hold MNIST."""
    folder, generator = tmp_path / "data", np.random.default_rng(0)
    folder.mkdir()
    monkeypatch.setenv("RECOLLECT_DATA", str(folder))
    for split in ("train", "test"):
        images = generator.integers(0, 256, (60, 28, 28), dtype=np.uint8)
        np.savez(folder / f"mnist_{split}.npz", images=images, labels=np.arange(60) % 10)


def small(*baselines: str) -> dict[str, str]:
    changes = {"data.n": "6", "data.holdout_count": "12", "model.hidden": "[8, 8]", "training.epochs": "3"}
    for attack in ("attack", *(f"baselines.{name}" for name in baselines)):
        changes |= {f"{attack}.candidates": "6", f"{attack}.steps": "3"}
        changes[f"{attack}.search.trials"] = "2"
    return changes


SMALL = {
    "elbaz-mnist-flip-n50": small(*METHODS),
    "elbaz-table1": small(*METHODS) | {"series.0.lines": '{D4 = [{"model.group" = "d4"}]}'},
    "elbaz-sizes": {key: value for key, value in small("activation").items() if key != "data.n"}
    | {"series.0.values": '["klein4"]', "series.1.values": "[4]"},
    "elbaz-orbitope": small("unfolded") | {"series.0.values": '["rotations"]'},
    "point-set": {
        "data.n": "6",
        "data.holdout_count": "12",
        "model.elements": "[8]",
        "model.hidden": "[8]",
        "training.epochs": "3",
        "attack.candidates": "6",
        "attack.steps": "3",
    },
}


@pytest.mark.usefixtures("digits")
@pytest.mark.parametrize("name", SMALL)
def test_a_small_version_runs_to_its_report(command: Callable[..., Any], tmp_path: Path, name: str) -> None:
    options = [word for key, value in SMALL[name].items() for word in ("--set", f"{key}={value}")]
    ended = command("reproduce", name, *options, "--json")
    assert ended.code == 0, ended.err
    runs = tmp_path / "runs" / name
    assert (runs / "report.html").is_file()
    (orbitope,) = [path for path in runs.rglob("orbitope.json") if "baselines" not in path.parts]
    assert json.loads(orbitope.read_text())["group_size"] > 1
    each = load_preset(name).match.each_trial
    for baseline in load_preset(name).baselines:
        summary = json.loads((orbitope.parent / "baselines" / baseline / "summary.json").read_text())
        assert summary["reference_count"] in (4, 6)
        assert ("each_trial" in summary) == each


@pytest.mark.usefixtures("digits")
def test_a_network_with_a_group_is_checked_and_audited_with_the_data_of_its_run(command: Callable[..., Any]) -> None:
    """The mean that it saw is averaged over its group, which its run folder knows."""
    options = [word for key, value in small().items() for word in ("--set", f"{key}={value}")]
    assert command("train", "--preset", "elbaz-mnist-flip-n50", *options, "--out", "run").code == 0
    assert command("check", "run", "--json").code == 0
    shown = command("audit", "run", "--budget", "30s", "--dry-run", "--json")
    assert shown.code == 0, shown.err
    assert json.loads(shown.out)["config"]["data"]["mean_group"] == "flip"
