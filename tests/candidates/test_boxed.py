"""Candidates that stay images: against a loop that projects, and from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from recollect.api import attack
from recollect.build import build_problem
from recollect.candidates import Boxed
from recollect.config import AttackConfig, TrialSettings
from recollect.core import RecollectError
from recollect.given import Given
from recollect.problem import Problem, gradient, initial_state, losses
from recollect.solve import solve

Command = Callable[..., Any]
CPU = torch.device("cpu")
SHAPE = (1, 3, 4)
SETTINGS = (TrialSettings(lr_x=0.5, init_scale=0.3), TrialSettings(lr_x=0.2, init_scale=0.6))


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 1, bias=False)).double()


def mean() -> Tensor:
    return torch.rand(SHAPE, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def config(**changes: Any) -> AttackConfig:
    given = {"space": "box", "candidates": 5, "steps": 30, "precision": "fp64", "trials": SETTINGS}
    given |= {"optimiser": "momentum", "momentum": 0.0, "schedule": "constant"}
    return AttackConfig.model_validate(given | changes)


def problem(**changes: Any) -> Problem:
    return build_problem(network(), SHAPE, config(**changes), 0, CPU, given=Given(mean=mean()))


def test_steps_are_those_of_a_loop_that_projects() -> None:
    """Every step's gradient is taken by autograd at the projected point, and added up beside it."""
    ours, pixels = problem(), problem(space="full", box_weight=0)
    low, high = -mean(), 1 - mean()
    start = initial_state(ours).variables
    free, duals = start["x"].clone(), start["duals"].clone()
    rates = torch.tensor([[s.lr_x, s.lr_duals] for s in SETTINGS], dtype=torch.float64)
    for _ in range(30):
        inside = free.clamp(low, high).requires_grad_()
        own = duals.clone().requires_grad_()
        total = torch.stack(list(losses(pixels, {"x": inside, "duals": own}).values())).sum()
        by_x, by_duals = torch.autograd.grad(total, [inside, own])
        free = free - rates[:, 0].reshape(2, 1, 1, 1, 1) * by_x
        duals = duals - rates[:, 1].reshape(2, 1) * by_duals
    found = solve(ours).variables
    assert torch.allclose(found["x"], free, rtol=1e-8, atol=1e-10)
    assert torch.allclose(found["duals"], duals, rtol=1e-8, atol=1e-10)
    assert bool(((free < low) | (free > high)).any()), "nothing was projected"


def test_candidates_are_images_and_no_prior_is_needed() -> None:
    ours = problem()
    assert isinstance(ours.candidates, Boxed)
    assert losses(ours, initial_state(ours).variables).keys() == {"stationarity", "dual_floor"}
    images = ours.candidates.decode(solve(ours).variables) + mean()
    assert float(images.min()) >= -1e-12
    assert float(images.max()) <= 1 + 1e-12
    assert bool((images.abs() < 1e-12).any())


def test_the_gradient_is_that_of_the_samples() -> None:
    asked = {"asymmetry": {"weight": 0.3, "share": 0.9}, "group": "flip"}
    ours, pixels = problem(**asked), problem(space="full", box_weight=0, **asked)
    variables = initial_state(ours).variables
    samples = ours.candidates.decode(variables).requires_grad_()
    total = torch.stack(list(losses(pixels, {**variables, "x": samples}).values())).sum()
    assert torch.allclose(gradient(ours, variables)["x"], torch.autograd.grad(total, samples)[0], rtol=1e-9, atol=1e-12)


def test_a_trial_alone_equals_the_trial_in_a_batch() -> None:
    ours = problem()
    together = solve(ours).variables["x"]
    for trial in range(2):
        alone = solve(ours.for_trials(torch.tensor([trial]))).variables["x"]
        assert torch.allclose(alone[0], together[trial], rtol=1e-9, atol=1e-12)


def test_the_mean_must_be_there_and_fit() -> None:
    with pytest.raises(RecollectError, match=r"needs the mean image .* and none was given; name the data with --data"):
        attack(network(), SHAPE, config(), device="cpu")
    with pytest.raises(RecollectError, match=r"of shape \[1, 3, 4\], and got one of shape \[1, 4, 3\]"):
        attack(network(), SHAPE, config(), device="cpu", mean=torch.zeros(1, 4, 3))
    found = attack(network(), SHAPE, config(), device="cpu", mean=mean())
    assert float((found.candidates + mean()).max()) <= 1 + 1e-12


@pytest.mark.parametrize("options", [["--set", "attack.space=box"], ["--set", 'attack.dip.offset="mean"']])
def test_from_the_command_line(command: Command, tiny: list[str], tmp_path: Path, options: list[str]) -> None:
    run = tmp_path / "run"
    space = ["--set", "attack.space=dip", "--set", "attack.optimiser=adam"] if "dip" in options[1] else []
    assert command("demo", *tiny, *space, *options, "--out", run, "--json").code == 0
    assert command("attack", run, *space, *options, "--out", tmp_path / "blind", "--json").code == 2
    candidates = load_file(run / "candidates.safetensors")["candidates"]
    assert float(candidates.min()) >= -1
    assert float(candidates.max()) <= 1
    assert json.loads((run / "summary.json").read_text())["reference_count"] > 0


def test_a_sweep_reads_the_mean_too(command: Command, tiny: list[str], tmp_path: Path) -> None:
    options = ("--preset", "demo", *tiny, "--set", "attack.space=box", "--trials", "3", "--batch", "2")
    ended = command("sweep", *options, "--out", tmp_path / "run", "--json")
    assert ended.code == 0, ended.err
