"""Trials that are over leave: nobody else notices, in no bit, and nobody computes for them any more."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch
from tests.cases import SAMPLE_SHAPE, chain
from torch import Tensor

from recollect.build import build_problem
from recollect.config import AttackConfig, TrialSettings
from recollect.objectives import KKT
from recollect.problem import Problem, State
from recollect.slots import Slots, at_rest
from recollect.solve import Snapshot, solve

CPU = torch.device("cpu")
GOOD = TrialSettings(lr_x=0.05, lr_duals=0.02, init_scale=0.5, dual_min=0.3, smoothing=20)
OTHER = TrialSettings(lr_x=0.01, lr_duals=0.05, init_scale=0.2, dual_min=0.1, smoothing=80)
HOPELESS = TrialSettings(lr_x=1e12, lr_duals=1e12, init_scale=1.0, dual_min=0.3, smoothing=20)
ASLEEP = TrialSettings(lr_x=1e-14, lr_duals=1e-14, init_scale=0.5, dual_min=0.3, smoothing=20)


def problem(*trials: TrialSettings, steps: int = 30, **changes) -> Problem:
    chosen = {"optimiser": "momentum", "schedule": "constant"} | changes
    attack = AttackConfig(candidates=6, steps=steps, precision="fp64", trials=trials, **chosen)
    return build_problem(chain((12, 7, 5, 1), (True, False, False)), SAMPLE_SHAPE, attack, seed=0, device=CPU)


@dataclass(frozen=True)
class Counting(KKT):
    """Notes how many trials every gradient is computed for."""

    seen: tuple[list[int]] = ([],)

    def gradient(self, target, x, labels, variables) -> tuple[Tensor, dict[str, Tensor]]:
        self.seen[0].append(len(x))
        return super().gradient(target, x, labels, variables)


def counting(ours: Problem) -> tuple[Problem, list[int]]:
    seen: list[int] = []
    own = ours.objective
    assert isinstance(own, KKT)
    return replace(ours, objective=Counting(own.candidates, own.smoothing, own.dual_min, seen=(seen,))), seen


@pytest.mark.parametrize("over", [HOPELESS, ASLEEP])
def test_what_is_over_is_no_longer_computed(over: TrialSettings) -> None:
    ours, seen = counting(problem(GOOD, over, OTHER))
    state = solve(ours)
    assert seen[0] == 3
    assert seen[-1] == 2
    assert state.moving.tolist() == [True, False, True]
    assert state.stalled.tolist() == [False, over is ASLEEP, False]
    without = solve(problem(GOOD, OTHER))
    # The third trial draws other numbers where it is the second.
    assert torch.allclose(state.variables["x"][0], without.variables["x"][0], rtol=1e-9)


def test_when_all_are_over_nothing_is_computed() -> None:
    ours, seen = counting(problem(ASLEEP, HOPELESS, steps=1000))
    state = solve(ours)
    assert int(state.step) == 1000
    assert len(seen) < 10


def test_no_tolerance_no_rest() -> None:
    state = solve(problem(ASLEEP, stall=0.0))
    assert not state.stalled.any()


def test_candidates_that_grow_from_nothing_are_not_at_rest() -> None:
    """The loss hardly changes while candidates grow from 1e-9; they themselves do."""
    tiny = problem(TrialSettings(lr_x=1e-3, lr_duals=1e-3, init_scale=1e-9), steps=100)
    slots = Slots(tiny, solve(replace(tiny, steps=1)))
    assert not at_rest(tiny, slots.state).any()


def test_a_run_interrupted_at_any_look_ends_with_the_same_bits() -> None:
    late = TrialSettings(lr_x=1e3, lr_duals=30.0, init_scale=1e-3, dual_min=0.3, smoothing=20)  # diverges on its way
    ours = problem(GOOD, late, OTHER, ASLEEP, steps=40)
    saved: list[State] = []

    class Save:
        every = 1

        def __call__(self, snapshot: Snapshot) -> None:
            state = snapshot.state
            saved.append(state.for_trials(torch.arange(4)))

    whole = solve(ours, [Save()])
    assert not whole.moving.all()
    for state in saved[:-1:5]:
        rest = solve(ours, state=state)
        for name, value in whole.variables.items():
            assert torch.equal(value, rest.variables[name])
        assert torch.equal(whole.alive, rest.alive)
        assert torch.equal(whole.stalled, rest.stalled)
