"""Baselines that do not suit a network are skipped with a sentence; as the attack itself they are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from recollect.build import first_layer_rows, why_no_rows
from recollect.core import RecollectError

Command = Callable[..., Any]
CONV = ["--set", "model.kind=conv", "--set", "model.channels=2", "--set", "model.hidden=[8]"]
WEIGHTS = ["--set", 'baselines={rows = {method = "weights"}}']


def tiny_conv(tiny: list[str]) -> list[str]:
    """The options of a tiny run, for a convolution with the baseline of weights."""
    kept = [setting for setting in tiny[1::2] if not setting.startswith(("model.", "baselines"))]
    return [word for setting in kept for word in ("--set", setting)] + CONV + WEIGHTS


def test_weights_of_a_convolution_are_skipped_and_said(command: Command, tiny: list[str], tmp_path: Path) -> None:
    ended = command("demo", *tiny_conv(tiny), "--out", "run")
    reason = "weight visualisation needs a first Linear layer that sees all 784 inputs; this network has none."
    assert ended.code == 0, ended.err
    assert f"Baseline rows skipped: {reason}" in ended.err
    assert f"Baseline rows: Skipped: {reason}" in ended.out
    baseline = tmp_path / "run" / "baselines" / "rows"
    assert json.loads((baseline / "status.json").read_text())["stages"]["attack"] == "skipped"
    page = (tmp_path / "run" / "report.html").read_text()
    assert f"Skipped: {reason}" in page
    assert "2 kernels of 3 x 3 as images" in page
    before = (baseline / "summary.json").read_bytes()
    assert command("match", "run", "--set", "match.scaling=clamp", "--json").code == 0
    assert command("demo", "--resume", "run", "--json").code == 0
    assert (baseline / "summary.json").read_bytes() == before


def test_a_network_is_trained_whatever_its_baselines_are(command: Command, tiny: list[str]) -> None:
    ended = command("train", "--preset", "demo", *tiny_conv(tiny), "--set", "training.epochs=5", "--json")
    assert ended.code == 0, ended.err


def test_as_the_attack_itself_it_is_refused(command: Command, tiny: list[str], tmp_path: Path) -> None:
    ended = command("demo", *tiny_conv(tiny), "--set", "attack.method=weights")
    assert "weight visualisation needs a first Linear layer" in ended.error
    assert not list(tmp_path.iterdir())


def test_rows_are_taken_from_the_first_layer_or_not_at_all() -> None:
    first, second = nn.Linear(4, 3), nn.Linear(3, 4)
    assert first_layer_rows(nn.Sequential(nn.Flatten(), first, nn.ReLU(), second), (1, 2, 2)).equal(
        first.weight.detach().reshape(1, 3, 1, 2, 2)
    )
    hidden = nn.Sequential(nn.Conv2d(1, 1, 1), nn.Flatten(), nn.Linear(4, 1))
    assert why_no_rows(hidden, (1, 2, 2)) is not None
    with pytest.raises(RecollectError, match="this network has none"):
        first_layer_rows(nn.Sequential(second), (1, 2, 2))
