"""What is written of a judgement names the right candidates, whatever was left out before matching."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

Command = Callable[..., Any]
CIRCLE = ["--preset", "circle-2d", "--set", "training.epochs=20", "--set", "attack.steps=20", "--device", "cpu"]
SMALL = ["--set", "model.hidden=[20]", "--set", "attack.layer_weights=[1,0]", "--set", "attack.candidates=12"]


def train_and_attack(command: Command, *words: str) -> dict[str, Any]:
    assert command("reproduce", "circle-2d", *CIRCLE[2:], *SMALL, *words, "--out", "run").code == 0
    return json.loads(Path("run/summary.json").read_text())


def test_matches_name_the_candidates_that_are_nearest(command: Command) -> None:
    summary = train_and_attack(command, "--set", "match.distil_min_dual=0.1", "--set", "match.distil_radius=0.2")
    candidates = load_file("run/candidates.safetensors")["candidates"]
    assert 0 < summary["distilled"] < candidates.shape[0] * candidates.shape[1]
    rows = json.loads(Path("run/matches.json").read_text())["samples"]
    points = load_file("run/pairs.safetensors")["reference"]
    named = [(row, point) for row, point in zip(rows, points, strict=True) if row["candidate"] is not None]
    assert named
    for row, point in named:
        trial, number = row["candidate"]
        assert float((candidates[trial, number] - point).norm()) == pytest.approx(row["distance"], rel=1e-4)


def test_multipliers_that_are_all_too_small_recover_nothing(command: Command) -> None:
    summary = train_and_attack(command, "--set", "match.distil_min_dual=1e9")
    assert (summary["distilled"], summary["recovered"]) == (0, 0)
    assert "no multiplier reaches match.distil_min_dual" in summary["verdict"]


def test_regression_ranks_multipliers_of_either_sign(command: Command, tiny: list[str]) -> None:
    assert command("train", "--preset", "demo", *tiny, "--set", "training.loss=l2", "--out", "net").code == 0
    words = ["attack.task=regression", "attack.candidates=12", "attack.steps=5"]
    assert command("attack", "net", *(part for word in words for part in ("--set", word)), "--out", "run").code == 0
    kept = load_file("run/distilled.safetensors")["duals"]
    assert bool((kept < 0).any())
    assert torch.equal(kept.abs(), kept.abs().sort(descending=True).values)


def test_pooled_trials_of_a_sweep_are_named_by_their_numbers(command: Command, tiny: list[str]) -> None:
    options = ["--preset", "demo", *tiny, "--trials", "6", "--batch", "3", "--set", "sweep.keep=2"]
    assert command("sweep", *options, "--out", "run").code == 0
    kept = load_file("run/candidates.safetensors")["trial"].tolist()
    assert kept != [0, 1]
    rows = json.loads(Path("run/matches.json").read_text())["samples"]
    assert {row["candidate"][0] for row in rows if row["candidate"] is not None} <= set(kept)
