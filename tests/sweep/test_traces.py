"""Curves of trials: the losses that each has when it runs alone, in its own piece, whatever was interrupted."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from tests.cases import SAMPLE_SHAPE, chain
from torch import Tensor

from recollect.config import AttackConfig, SearchConfig, TrialSettings
from recollect.problem import initial_state, losses
from recollect.runs import RunFolder
from recollect.slots import look_every
from recollect.stepping import step
from recollect.sweep.execute import run_trials
from recollect.sweep.propose import Proposal, RandomProposer
from recollect.sweep.settings import Pruning
from recollect.sweep.traces import is_traced, traced_steps
from recollect.sweep.trials import Sweep, problems_of
from recollect.sweep.work import Ledger, Portion

CPU = torch.device("cpu")
# Small rates: with larger ones a last bit, which may differ with a trial's place in its batch, grows to many.
SEARCH = SearchConfig(trials=40, lr_x=(1e-3, 0.02), lr_duals=(1e-3, 0.02), init_scale=(0.05, 0.5), smoothing=(5, 90))
ATTACK = AttackConfig(candidates=5, steps=190, schedule="cosine", precision="fp64", search=SEARCH)
NET = chain((12, 7, 5, 1), (True, False, False))
MOMENTS = [*range(20, 190, 20), 190]
TERMS = ("stationarity", "dual_floor", "box")
SETTINGS = SEARCH.draw(3)


def sweep(pruning: Pruning, devices: int = 1, batch: int = 4) -> Sweep:
    return Sweep(NET, SAMPLE_SHAPE, ATTACK, 3, [CPU] * devices, batch, pruning=pruning)


def alone(ours: Sweep, number: int) -> dict[str, list[float]]:
    """A slow twin: step after step, the loss of one trial at every moment."""
    problem = problems_of(ours, [Proposal(number, SETTINGS[number])], [CPU])[0]
    state, found = initial_state(problem), {name: [] for name in TERMS}
    for done in range(1, ATTACK.steps + 1):
        state = step(problem, state)
        if done in MOMENTS:
            for name, value in losses(problem, state.variables).items():
                found[name].append(float(value))
    return found


def rows(pieces: list[dict[str, Tensor]]) -> dict[int, tuple[int, dict[str, list[float]]]]:
    """By number of the trial: its steps, and its trace."""
    found = {}
    for piece in pieces:
        assert piece["trace.step"].tolist() == MOMENTS
        for row, number in enumerate(piece["number"].tolist()):
            trace = {name: piece[f"trace.{name}"][row].tolist() for name in TERMS}
            found[number] = int(piece["steps"][row]), trace
    return found


@pytest.mark.parametrize("pruning", ["none", "halving"])
@pytest.mark.parametrize("devices", [1, 2])
def test_a_trace_is_that_of_the_trial_alone_as_far_as_it_came(pruning: Pruning, devices: int) -> None:
    ours = sweep(pruning, devices)
    work = Portion([Proposal(number, SETTINGS[number]) for number in range(12)])
    run_trials(ours, work)
    found = rows(work.pieces)
    assert sorted(found) == list(range(12))
    assert len({steps for steps, _ in found.values()}) == (1 if pruning == "none" else 4)
    for number, (steps, trace) in found.items():
        came = sum(moment <= steps for moment in MOMENTS)
        for name, expected in alone(ours, number).items():
            assert trace[name][:came] == pytest.approx(expected[:came], rel=1e-5)
            assert all(math.isnan(value) for value in trace[name][came:])


@pytest.mark.parametrize("pruning", ["none", "halving"])
def test_a_trial_that_diverged_has_no_losses_afterwards(pruning: Pruning) -> None:
    wild = TrialSettings(lr_x=1e12, lr_duals=1e12, init_scale=1.0)
    work = Portion([Proposal(0, wild), Proposal(1, SETTINGS[1])])
    run_trials(sweep(pruning), work)
    known = {
        number: int(piece["trace.stationarity"][row].isfinite().sum()) if "trace.stationarity" in piece else 0
        for piece in work.pieces
        for row, number in enumerate(piece["number"].tolist())
    }
    assert known == {0: 0, 1: len(MOMENTS)}


class KilledError(Exception):
    pass


def in_folder(path: Path, pruning: Pruning, watch: Callable[[float, float], None]) -> dict[str, Tensor]:
    """Every trace of every piece, by file and name."""
    path.mkdir(exist_ok=True)
    run_trials(sweep(pruning), Ledger(RunFolder(path), RandomProposer(SEARCH, 3), 10, watch))
    return {
        f"{piece.name} {name}": values
        for piece in path.glob("trials/*.safetensors")
        for name, values in load_file(piece).items()
        if name.startswith("trace.")
    }


@pytest.mark.parametrize("looks", [2, 40, 70, 150])
def test_killed_and_gone_on_with_the_traces_have_the_same_bits(looks: int, tmp_path: Path) -> None:
    seen = 0

    def watch(done: float, best: float) -> None:
        nonlocal seen
        seen += 1
        if seen == looks:
            raise KilledError

    expected = in_folder(tmp_path / "whole", "none", lambda done, best: None)
    with pytest.raises(KilledError):
        in_folder(tmp_path / "killed", "none", watch)
    found = in_folder(tmp_path / "killed", "none", watch)
    assert found.keys() == expected.keys()
    assert len(found) == 3 * 4
    assert all(torch.equal(found[name], expected[name]) for name in expected)


@given(st.integers(1, 10**6))
def test_moments_lie_where_trials_are_looked_at_and_are_few(steps: int) -> None:
    moments = traced_steps(steps)
    assert moments[-1] == steps
    assert all(moment % look_every(steps) == 0 for moment in moments[:-1])
    assert all(later - earlier >= 20 for earlier, later in pairwise(moments[:-1]))
    assert min(50, steps // 20) <= len(moments) <= 56


@given(st.integers(1, 3000))
def test_a_moment_is_known_by_its_step(steps: int) -> None:
    assert traced_steps(steps) == [done for done in range(1, steps + 1) if is_traced(done, steps)]
