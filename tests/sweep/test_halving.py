"""Halving: who stops, who begins in whose slot, and that a trial that survives is the trial that runs alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.cases import NEEDS_CUDA, SAMPLE_SHAPE, chain
from torch import Tensor

from recollect.config import AttackConfig, SearchConfig, TrialSettings
from recollect.core import RecollectError
from recollect.problem import initial_state
from recollect.runs import RunFolder
from recollect.slots import look_every
from recollect.solve import solve
from recollect.stepping import step
from recollect.sweep.collect import chosen_trials, pooled
from recollect.sweep.execute import run_trials
from recollect.sweep.ladder import Ladder, rungs_of
from recollect.sweep.propose import Proposal, RandomProposer
from recollect.sweep.record import Trial, finished_trials
from recollect.sweep.refilled import RefilledSlots
from recollect.sweep.score import first_layer_residual
from recollect.sweep.trials import Sweep, problems_of
from recollect.sweep.work import Ledger, Portion

CPU = torch.device("cpu")
SEARCH = SearchConfig(trials=40, lr_x=(1e-3, 0.2), lr_duals=(1e-3, 0.2), init_scale=(0.05, 0.5), smoothing=(5, 90))
NET = chain((12, 7, 5, 1), (True, False, False))
ATTACK = AttackConfig(candidates=5, steps=48, optimiser="momentum", precision="fp64", search=SEARCH)


def sweep(attack: AttackConfig = ATTACK, devices: int = 1, batch: int = 6) -> Sweep:
    return Sweep(NET, SAMPLE_SHAPE, attack, 3, [CPU] * devices, batch, pruning="halving")


def halved(path: Path, ours: Sweep, wanted: int = 24, watch: Any = lambda done, best: None) -> list[Trial]:
    path.mkdir(exist_ok=True)
    search = ours.attack.search
    assert search is not None
    ledger = Ledger(RunFolder(path), RandomProposer(search, ours.seed), wanted, watch)
    run_trials(ours, ledger)
    return ledger.history


def trial_of(number: int, settings: TrialSettings) -> Trial:
    return Trial(number, settings, 0.0, False, False, 0.0, "")


def alone(ours: Sweep, trial: Trial, steps: int) -> tuple[Tensor, Tensor, float]:
    """The trial by itself for so many of its steps: candidates, multipliers, score."""
    problem = problems_of(ours, [Proposal(trial.number, trial.settings)], [CPU])[0]
    if steps == ours.attack.steps:
        state = solve(problem)
    else:
        state = initial_state(problem)
        for _ in range(steps):
            state = step(problem, state)
    return state.variables["x"][0], state.variables["duals"][0], float(first_layer_residual(problem, state))


@pytest.mark.parametrize("optimiser", ["momentum", "adam", "same_gd"])
@pytest.mark.parametrize("devices", [1, 2])
def test_a_trial_in_a_refilled_slot_is_the_trial_alone(optimiser: str, devices: int, tmp_path: Path) -> None:
    ours = sweep(ATTACK.model_copy(update={"optimiser": optimiser, "group": "flip"}), devices)
    trials = halved(tmp_path, ours)
    assert [trial.number for trial in trials] == list(range(24))
    complete = [trial for trial in trials if trial.complete]
    assert any(trial.number >= ours.batch for trial in complete), "no newcomer survived: nothing is tested"
    found = pooled(RunFolder(tmp_path), complete)
    assert found.duals is not None
    for row, trial in enumerate(complete):
        x, duals, score = alone(ours, trial, 48)
        assert trial.steps == 48
        assert trial.score == pytest.approx(score, rel=1e-11)
        torch.testing.assert_close(found.candidates[row], x.float(), rtol=2e-7, atol=1e-9)
        torch.testing.assert_close(found.duals[row], duals.float(), rtol=2e-7, atol=1e-9)


def test_scores_at_rungs_are_those_of_trials_alone(tmp_path: Path) -> None:
    ours = sweep()
    rungs = rungs_of(48)
    assert rungs == (6, 12, 24)
    for trial in halved(tmp_path, ours):
        assert len(trial.rungs) == 3 or trial.pruned
        for steps, score in zip(rungs, trial.rungs, strict=False):
            assert score == pytest.approx(alone(ours, trial, steps)[2], rel=1e-11)


def test_state_by_state_against_trials_alone() -> None:
    """In float64, to the last digits: slots rewritten at odd moments."""
    ours = sweep()
    settings = SEARCH.draw(3)
    first = [Proposal(number, settings[number]) for number in (0, 1, 2)]
    slots = RefilledSlots.opened(problems_of(ours, first, [CPU])[0])
    slots.advance(7)
    late = [Proposal(number, settings[number]) for number in (5, 9)]
    slots.empty(torch.tensor([0, 2]))
    slots.advance(2)
    slots.refill(torch.tensor([2, 0]), problems_of(ours, late, [CPU])[0])
    slots.advance(20)
    assert slots.state.step.tolist() == [20, 29, 20]
    assert slots.problem.rng.trials == (9, 1, 5)
    for row, (number, steps) in enumerate([(9, 20), (1, 29), (5, 20)]):
        problem = problems_of(ours, [Proposal(number, settings[number])], [CPU])[0]
        state = initial_state(problem)
        for _ in range(steps):
            state = step(problem, state)
        for name, value in state.variables.items():
            torch.testing.assert_close(slots.state.variables[name][row], value[0], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("device", "compiled"),
    [
        pytest.param("cpu", "on", id="compiled"),
        pytest.param("cuda", "off", id="cuda graph", marks=NEEDS_CUDA),
        pytest.param("cuda", "on", id="compiled cuda graph", marks=NEEDS_CUDA),
    ],
)
@pytest.mark.filterwarnings("ignore:.*torch.jit.script_method.*:DeprecationWarning")  # torch's own, on import
def test_a_prepared_step_sees_who_is_in_its_slots(device: str, compiled: str) -> None:
    """The step is compiled or recorded before the newcomers are there, and not again."""
    ours = sweep(ATTACK.model_copy(update={"compile": compiled}))
    where, settings = torch.device(device), SEARCH.draw(3)
    first = [Proposal(number, settings[number]) for number in (0, 1, 2)]
    slots = RefilledSlots.opened(problems_of(ours, first, [where])[0])
    slots.advance(7)
    prepared = slots._advance
    newcomers = [Proposal(number, settings[number]) for number in (9, 5)]
    slots.refill(torch.tensor([0, 2], device=where), problems_of(ours, newcomers, [where])[0])
    slots.advance(20)
    assert slots._advance is prepared
    for row, (number, steps) in enumerate([(9, 20), (1, 27), (5, 20)]):
        x, duals, _ = alone(sweep(), trial_of(number, settings[number]), steps)
        # The schedule's cosine is taken in float32, which a compiler rounds in its own way.
        torch.testing.assert_close(slots.state.variables["x"][row].cpu(), x, rtol=1e-6, atol=1e-8)
        torch.testing.assert_close(slots.state.variables["duals"][row].cpu(), duals, rtol=1e-6, atol=1e-8)


def test_the_worse_half_stops_by_an_obvious_twin(tmp_path: Path) -> None:
    """Slots one by one in the host's own order of time, every trial stepped alone."""
    ours = sweep(batch=4)
    trials = {trial.number: trial for trial in halved(tmp_path, ours, wanted=14)}
    rungs, known = [6, 12, 24], {6: [], 12: [], 24: []}
    slots: dict[int, tuple[int, int]] = {row: (row, 0) for row in range(4)}
    scores = {number: [alone(ours, trial, at)[2] for at in rungs] for number, trial in trials.items()}
    next_number, outcome = 4, {}
    while slots:
        slots = {row: (number, done + 1) for row, (number, done) in slots.items()}
        for place, rung in enumerate(rungs):
            here = [(row, number) for row, (number, done) in slots.items() if done == rung]
            known[rung] += [scores[number][place] for _, number in here]
            for row, number in here:
                better = sum(other < scores[number][place] for other in known[rung])
                if better >= len(known[rung]) / 2:
                    outcome[number] = rung
                    del slots[row]
        for row, (number, done) in list(slots.items()):
            if done == 48:
                outcome[number] = 48
                del slots[row]
        for row in sorted(set(range(4)) - slots.keys()):
            if next_number < 14:
                slots[row], next_number = (next_number, 0), next_number + 1
    assert {number: trial.steps for number, trial in trials.items()} == outcome
    assert {number for number, trial in trials.items() if trial.pruned} == {n for n, at in outcome.items() if at < 48}


def test_pruned_trials_are_not_pooled_and_their_last_score_is_kept(tmp_path: Path) -> None:
    trials = halved(tmp_path, sweep())
    pruned = [trial for trial in trials if trial.pruned]
    assert 8 <= len(pruned) < 24
    assert all(trial.score == trial.rungs[-1] and trial.steps in (6, 12, 24) for trial in pruned)
    chosen = chosen_trials(trials)
    assert not {trial.number for trial in pruned} & {trial.number for trial in chosen}
    assert len(pooled(RunFolder(tmp_path), chosen).candidates) == 24 - len(pruned)
    (tmp_path / "trials.jsonl").unlink()
    assert finished_trials(RunFolder(tmp_path)) == trials


def test_all_pruned_or_lost_is_one_sentence(tmp_path: Path) -> None:
    trials = [trial for trial in halved(tmp_path, sweep()) if trial.pruned]
    with pytest.raises(RecollectError, match="diverged or was pruned"):
        pooled(RunFolder(tmp_path), chosen_trials(trials))


def test_diverged_trials_make_room_and_trials_at_rest_are_done(tmp_path: Path) -> None:
    settings = [
        TrialSettings(lr_x=1e12, lr_duals=1e12, init_scale=1.0),
        TrialSettings(lr_x=1e-14, lr_duals=1e-14, init_scale=0.5),
        TrialSettings(lr_x=0.05, lr_duals=0.02, init_scale=0.5, smoothing=20),
    ]
    work = Portion([Proposal(number, settings[number % 3]) for number in range(9)])
    run_trials(sweep(batch=3), work)
    rows = {
        int(number): (bool(piece["diverged"][row]), bool(piece["stalled"][row]), int(piece["steps"][row]))
        for piece in work.pieces
        for row, number in enumerate(piece["number"])
    }
    assert sorted(rows) == list(range(9))
    for number, (diverged, stalled, steps) in rows.items():
        assert diverged == (number % 3 == 0)
        assert stalled == (number % 3 == 1)
        assert steps < 10 or number % 3 == 2


class KilledError(Exception):
    pass


@pytest.mark.parametrize("looks", [3, 30, 60, 90])
def test_killed_and_gone_on_with_none_twice(looks: int, tmp_path: Path) -> None:
    seen = 0

    def watch(done: float, best: float) -> None:
        nonlocal seen
        assert 0 <= done <= 24
        seen += 1
        if seen == looks:
            raise KilledError

    with pytest.raises(KilledError):
        halved(tmp_path, sweep(), watch=watch)
    before = finished_trials(RunFolder(tmp_path))
    after = halved(tmp_path, sweep())
    assert [trial for trial in after if trial.number in {one.number for one in before}] == before
    assert [trial.number for trial in after] == list(range(24))
    assert halved(tmp_path, sweep(), wanted=30)[:24] == after


def test_the_same_sweep_twice_has_the_same_bits(tmp_path: Path) -> None:
    one, other = (
        [replace(trial, seconds=0.0) for trial in halved(tmp_path / name, sweep())] for name in ("one", "other")
    )
    assert one == other


@pytest.mark.parametrize(("batch", "devices"), [(4, 1), (16, 1), (16, 2)])
def test_slots_are_full_until_proposals_run_out(
    batch: int, devices: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At least seven of eight slots move at every step, until the last trial has been taken."""
    taken, used, advance, take = [], [], RefilledSlots.advance, Ledger.take
    monkeypatch.setattr(Ledger, "take", lambda self, most: taken.extend(got := take(self, most)) or got)

    def counted(slots: RefilledSlots, count: int) -> None:
        if len(taken) < 64:
            used.append(float(slots.state.moving.float().mean()))
            assert len(slots.state.alive) == batch // devices
        advance(slots, count)

    monkeypatch.setattr(RefilledSlots, "advance", counted)
    trials = halved(tmp_path, sweep(batch=batch, devices=devices), wanted=64)
    assert len(trials) == len(taken) == 64
    assert len(used) > 10
    assert min(used) >= 7 / 8
    assert sum(used) / len(used) > 0.95


@given(st.integers(1, 10**6))
def test_rungs_lie_where_trials_are_looked_at_and_before_the_end(steps: int) -> None:
    rungs = rungs_of(steps)
    assert list(rungs) == sorted(set(rungs))
    assert all(0 < rung < steps and rung % look_every(steps) == 0 for rung in rungs)


@given(st.lists(st.floats(0, 10), min_size=1, max_size=30))
def test_of_a_cohort_the_worse_half_stops(scores: Sequence[float]) -> None:
    ladder = Ladder((1,), ([],))
    ladder.note(0, scores)
    stopped = [score for score in scores if ladder.stops(0, score)]
    going = [score for score in scores if not ladder.stops(0, score)]
    assert going
    assert max(going) <= min(stopped, default=math.inf)
    if len(set(scores)) == len(scores):
        assert len(stopped) == len(scores) // 2
