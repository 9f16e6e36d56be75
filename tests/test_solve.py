"""The loop: against torch.optim, alone and in a batch, with a diverging neighbour, stopped and resumed."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import cast

import pytest
import torch
from tests.cases import SAMPLE_SHAPE, chain
from torch import nn

from recollect import problem as problem_module
from recollect import stepping
from recollect.api import attack
from recollect.build import build_problem, build_problems
from recollect.config import AttackConfig, SearchConfig, TrialSettings
from recollect.core import TrialRng
from recollect.objectives import KKT
from recollect.problem import Precision, Problem, State, initial_state, losses
from recollect.solve import Snapshot, solve
from recollect.stepping import Advance, matmul_precision

CPU = torch.device("cpu")
GOOD = TrialSettings(lr_x=0.05, lr_duals=0.02, init_scale=0.5, dual_min=0.3, smoothing=20)
OTHER = TrialSettings(lr_x=0.01, lr_duals=0.05, init_scale=0.2, dual_min=0.1, smoothing=80)
HOPELESS = TrialSettings(lr_x=1e12, lr_duals=1e12, init_scale=1.0, dual_min=0.3, smoothing=20)


def problem(*trials: TrialSettings, steps: int = 30, net: nn.Module | None = None, **changes) -> Problem:
    """By momentum, as published: it diverges where Adam does not."""
    chosen = {"optimiser": "momentum", "schedule": "constant"} | changes
    attack = AttackConfig(candidates=6, steps=steps, precision="fp64", trials=trials, **chosen)
    network = chain((12, 7, 5, 1), (True, False, False)) if net is None else net
    return build_problem(network, SAMPLE_SHAPE, attack, seed=0, device=CPU)


def test_one_trial_takes_the_steps_of_torch_sgd() -> None:
    ours = problem(GOOD)
    start = initial_state(ours).variables
    leaves = {name: value.clone().requires_grad_() for name, value in start.items()}
    optimiser = torch.optim.SGD(
        [
            {"params": [leaves["x"]], "lr": GOOD.lr_x},
            {"params": [leaves["duals"]], "lr": GOOD.lr_duals},
        ],
        momentum=0.9,
    )
    for _ in range(30):
        optimiser.zero_grad()
        torch.stack(list(losses(ours, leaves).values())).sum().backward()
        optimiser.step()
    state = solve(ours)
    for name, leaf in leaves.items():
        assert torch.allclose(state.variables[name], leaf.detach(), rtol=1e-10, atol=1e-14)
    assert not torch.allclose(state.variables["x"], start["x"])


@pytest.mark.parametrize("changes", [{}, {"space": "row"}], ids=["pixels", "row space"])
def test_losses_looked_at_a_few_trials_at_a_time_are_those_of_all_at_once(monkeypatch, changes) -> None:
    ours = problem(GOOD, OTHER, GOOD, **changes)
    variables = {name: 1.5 * value for name, value in initial_state(ours).variables.items()}
    together = losses(ours, variables)
    monkeypatch.setattr(problem_module, "_VALUES_LOOKED_AT", 2 * 6 * 12)
    for name, values in losses(ours, variables).items():
        assert torch.allclose(values, together[name], rtol=1e-12)
        assert len(set(values.tolist())) > 1 or values[0] == 0


def test_cosine_schedule_ends_at_rest() -> None:
    found = []
    ours = problem(GOOD, steps=50, schedule="cosine")

    class Watch:
        every = 1

        def __call__(self, snapshot: Snapshot) -> None:
            found.append(snapshot.state.variables["x"].clone())

    solve(ours, [Watch()])
    moves = [float((after - before).norm()) for before, after in pairwise(found)]
    assert moves[-1] < 0.05 * max(moves)


def test_a_trial_alone_equals_the_trial_in_a_batch() -> None:
    together = solve(problem(GOOD, OTHER))
    second = problem(OTHER)
    alone = solve(replace(second, rng=TrialRng(0, (1,), torch.float64, CPU)))
    assert torch.allclose(alone.variables["x"][0], together.variables["x"][1], rtol=1e-9, atol=1e-13)
    assert torch.allclose(alone.variables["duals"][0], together.variables["duals"][1], rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("target", ["mlp", "module"])
def test_a_diverging_trial_is_frozen_and_its_neighbours_do_not_notice(target: str) -> None:
    state = solve(problem(GOOD, HOPELESS, OTHER, target=target))
    assert state.alive.tolist() == [True, False, True]
    assert all(bool(value.isfinite().all()) for value in state.variables.values())
    without = solve(problem(GOOD, OTHER, OTHER, target=target))
    for trial in (0, 2):
        # Not bit for bit: who moves up in a smaller batch may be rounded otherwise.
        assert torch.allclose(state.variables["x"][trial], without.variables["x"][trial], rtol=1e-9, atol=1e-13)


def test_same_seed_same_bits_other_seed_other_bits() -> None:
    ours = problem(GOOD, OTHER)
    first, second = solve(ours), solve(ours)
    assert torch.equal(first.variables["x"], second.variables["x"])
    other = replace(ours, rng=replace(ours.rng, seed=1))
    assert not torch.allclose(initial_state(other).variables["x"], initial_state(ours).variables["x"])


def test_going_on_from_a_saved_state_gives_the_same_bits() -> None:
    whole = solve(problem(GOOD, OTHER, steps=30))
    half = solve(problem(GOOD, OTHER, steps=13))
    rest = solve(problem(GOOD, OTHER, steps=30), state=half)
    assert int(rest.step) == 30
    for name, value in whole.variables.items():
        assert torch.equal(value, rest.variables[name])


def test_callbacks_come_at_their_cadence_and_at_the_end() -> None:
    class Record:
        def __init__(self, every: int) -> None:
            self.every, self.steps = every, []

        def __call__(self, snapshot: Snapshot) -> None:
            assert int(snapshot.state.step) == snapshot.step
            self.steps.append(snapshot.step)

    often, seldom = Record(4), Record(10)
    solve(problem(GOOD, steps=25), [often, seldom])
    assert often.steps == [4, 8, 12, 16, 20, 24, 25]
    assert seldom.steps == [10, 20, 25]


def test_the_attack_lowers_the_loss_and_the_precision_setting_is_put_back() -> None:
    before = torch.get_float32_matmul_precision()
    ours = problem(GOOD, steps=400)
    start, end = (
        sum(float(term.detach()) for term in losses(ours, state.variables).values())
        for state in (initial_state(ours), solve(ours))
    )
    assert end < 0.8 * start
    assert torch.get_float32_matmul_precision() == before


def test_one_training_sample_of_a_linear_network_is_recovered() -> None:
    """A case with a known answer: w = lambda y x has the direction of its only training sample."""
    torch.manual_seed(0)
    sample = torch.rand(*SAMPLE_SHAPE, dtype=torch.float64)
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 1, bias=False)).to(torch.float64)
    with torch.no_grad():
        net[1].weight.copy_(0.7 * sample.flatten()[None])
    one = TrialSettings(lr_x=0.05, lr_duals=0.05, init_scale=0.01, dual_min=0.5, smoothing=10)
    attack = AttackConfig(candidates=1, steps=3000, precision="fp64", trials=(one,))
    state = solve(build_problem(net, SAMPLE_SHAPE, attack, seed=0, device=CPU))
    found = state.variables["x"][0, 0].flatten()
    assert float(nn.functional.cosine_similarity(found, sample.flatten(), dim=0)) > 0.999


@pytest.mark.filterwarnings("ignore:.*torch.jit.script_method.*:DeprecationWarning")  # torch's own, on import
def test_compiled_steps_give_the_same_trials(caplog) -> None:
    eager, compiled = (solve(problem(GOOD, HOPELESS, OTHER, compile=choice)) for choice in ("off", "on"))
    assert "going on without" not in caplog.text
    assert compiled.alive.tolist() == eager.alive.tolist() == [True, False, True]
    for name, value in eager.variables.items():
        assert torch.allclose(value, compiled.variables[name], rtol=1e-9, atol=1e-12)


def test_without_a_compiler_the_run_goes_on(monkeypatch: pytest.MonkeyPatch, caplog) -> None:
    def broken(function, dynamic):
        def refuse(state):
            raise RuntimeError("no compiler here")

        return refuse

    expected = solve(problem(GOOD, compile="off"))
    monkeypatch.setattr(torch, "compile", broken)
    found = solve(problem(GOOD, compile="on"))
    assert torch.equal(found.variables["x"], expected.variables["x"])
    assert "going on without: no compiler here" in caplog.text


def test_out_of_memory_means_less_at_once_until_it_fits(monkeypatch: pytest.MonkeyPatch, caplog) -> None:
    expected = solve(problem(GOOD, OTHER))
    original, tried = stepping.stepper, []

    def small_device(attempt: Problem, state):
        assert isinstance(attempt.objective, KKT)
        choice = attempt.objective.at_once
        tried.append((choice.trials, choice.candidates, choice.keep_products))
        if choice.keep_products:
            raise torch.OutOfMemoryError("the device is full")
        return original(attempt, state)

    monkeypatch.setattr(stepping, "stepper", small_device)
    found = solve(problem(GOOD, OTHER))
    assert tried == [(None, None, True), (1, None, True), (1, 3, True), (1, 1, True), (1, 1, False)]
    assert caplog.text.count("out of memory on cpu, going on with less at once") == 4
    assert torch.allclose(found.variables["x"], expected.variables["x"], rtol=1e-9, atol=1e-12)


def test_out_of_memory_with_the_smallest_chunk_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def full_device(attempt: Problem, state):
        raise torch.OutOfMemoryError("the device is full")

    monkeypatch.setattr(stepping, "stepper", full_device)
    with pytest.raises(torch.OutOfMemoryError):
        solve(problem(GOOD))


@pytest.mark.parametrize("parts", [2, 3, 5])
def test_trials_spread_over_devices_are_the_trials_of_one(parts: int) -> None:
    net = chain((12, 7, 5, 1), (True, False, False))
    trials = (GOOD, HOPELESS, OTHER)
    attack = AttackConfig(candidates=6, steps=30, precision="fp64", trials=trials, optimiser="momentum")
    expected = solve(build_problem(net, SAMPLE_SHAPE, attack, seed=0, device=CPU))
    spread = build_problems(net, SAMPLE_SHAPE, attack, seed=0, devices=[CPU] * parts)
    assert len(spread) == min(parts, 3)
    seen: list[Snapshot] = []

    class Watch:
        every = 13

        def __call__(self, snapshot: Snapshot) -> None:
            seen.append(snapshot)

    found = solve(spread, [Watch()])
    assert found.alive.tolist() == [True, False, True]
    for name, value in expected.variables.items():
        assert torch.allclose(found.variables[name], value, rtol=1e-9, atol=1e-12)
    assert [snapshot.step for snapshot in seen] == [13, 26, 30]
    assert seen[-1].terms["stationarity"].shape == (3,)
    rest = solve(spread, state=seen[0].state)
    for name, value in found.variables.items():
        assert torch.equal(rest.variables[name], value)


def test_the_library_draws_the_trials_that_are_searched_for() -> None:
    net, search = nn.Linear(4, 1), SearchConfig(trials=3)
    drawn = attack(net, (4,), AttackConfig(candidates=2, steps=1, search=search), seed=5, device="cpu")
    stated = AttackConfig(candidates=2, steps=1, trials=tuple(AttackConfig(search=search).drawn(5).trials))
    assert drawn.candidates.shape == (3, 2, 4)
    assert torch.equal(drawn.candidates, attack(net, (4,), stated, seed=5, device="cpu").candidates)


def test_a_step_that_cannot_be_recorded_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch, caplog) -> None:
    """On a GPU; here without one, so that only the choice is looked at."""

    def refuses(problem: Problem, state: State) -> Advance:
        raise RuntimeError("operation not permitted when stream is capturing\nmore")

    def as_it_is(problem: Problem, state: State) -> Advance:
        return lambda state, count: state

    monkeypatch.setattr(stepping, "_graphed", refuses)
    monkeypatch.setattr(stepping, "_one_by_one", as_it_is)
    ours = SimpleNamespace(rng=SimpleNamespace(device=torch.device("cuda")))
    assert stepping.stepper(cast(Problem, ours), cast(State, None))(cast(State, 7), 3) == 7
    assert (
        "cannot be recorded on cuda, going on without: operation not permitted when stream is capturing" in caplog.text
    )


@pytest.mark.parametrize(("precision", "rounded"), [("fp32", False), ("fp64", False), ("tf32", True), ("fp16", True)])
def test_convolutions_round_as_products_do(precision: Precision, rounded: bool) -> None:
    before = torch.backends.cudnn.allow_tf32
    with matmul_precision(precision, torch.device("cuda")):
        assert torch.backends.cudnn.allow_tf32 == rounded
    assert torch.backends.cudnn.allow_tf32 == before
