"""Trials judged each by itself: the figures are those of a run that had no other trial."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

TRIALS = "attack.trials=[{init_scale = 0.01}, {init_scale = 0.1}, {lr_x = 0.02}]"


def figures(path: Path) -> dict[str, Any]:
    return json.loads((path / "summary.json").read_text())


def test_each_trial_is_judged_as_if_it_were_alone(command: Callable[..., Any], tiny: list[str], tmp_path: Path) -> None:
    words = ("demo", *tiny, "--set", TRIALS, "--set", "match.each_trial=true", "--json", "--out", "run")
    assert command(*words).code == 0
    run, together = tmp_path / "run", figures(tmp_path / "run")
    rows = json.loads((run / "trial_matches.json").read_text())["trials"]
    assert [row["number"] for row in rows] == [0, 1, 2]
    stored = load_file(run / "candidates.safetensors")
    for row in rows:
        own = {name: value if name == "labels" else value[row["number"]][None] for name, value in stored.items()}
        save_file({name: value.contiguous() for name, value in own.items()}, run / "candidates.safetensors")
        assert command("match", "run").code == 0
        alone = figures(run)
        for name in ("recovered", "null_recovered", "mean_dssim_stretch_3", "null_mean_dssim_clamp_11", "top10_ssim"):
            assert row[name] == pytest.approx(alone[name], rel=1e-6)
    values = [row["mean_dssim_clamp_3"] for row in rows]
    assert together["each_trial"]["trials"] == 3
    assert together["each_trial"]["mean"]["mean_dssim_clamp_3"] == pytest.approx(statistics.mean(values))
    assert together["each_trial"]["deviation"]["mean_dssim_clamp_3"] == pytest.approx(statistics.stdev(values))


def test_trials_that_diverged_do_not_count(command: Callable[..., Any], tiny: list[str], tmp_path: Path) -> None:
    assert command("demo", *tiny, "--set", TRIALS, "--json", "--out", "run").code == 0
    stored = load_file(tmp_path / "run/candidates.safetensors")
    stored["diverged"] = torch.tensor([0, 1, 1], dtype=torch.uint8)
    save_file(stored, tmp_path / "run/candidates.safetensors")
    assert command("match", "run", "--set", "match.each_trial=true").code == 0
    each = figures(tmp_path / "run")["each_trial"]
    assert each["trials"] == 1
    assert each["deviation"]["top10_ssim"] is None


def test_what_another_rule_said_of_the_trials_is_forgotten(command: Callable[..., Any], tiny: list[str]) -> None:
    assert command("demo", *tiny, "--set", TRIALS, "--set", "match.each_trial=true", "--out", "run").code == 0
    assert command("match", "run", "--set", "match.each_trial=false", "--set", "match.scaling=clamp").code == 0
    assert not Path("run/trial_matches.json").exists()
    assert figures(Path("run"))["each_trial"] is None
