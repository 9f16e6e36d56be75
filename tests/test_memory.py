"""The estimate of a step's memory against what a step really holds, tensor by tensor."""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from recollect.build import build_problem
from recollect.config import AttackConfig, TrialSettings
from recollect.core import RecollectError
from recollect.estimate import attack_bytes
from recollect.memory import AtOnce, step_bytes, within
from recollect.objectives import KKT
from recollect.problem import Problem, initial_state
from recollect.stepping import step
from recollect.zoo import MLPArchitecture, build_network

CPU = torch.device("cpu")


class LiveBytes(TorchDispatchMode):
    """Counts the storages that operations make, until they are freed."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self.sizes: dict[int, int] = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None) -> Any:
        result = func(*args, **(kwargs or {}))
        for value in tree_leaves(result):
            if isinstance(value, torch.Tensor) and value.untyped_storage()._cdata not in self.sizes:
                storage = value.untyped_storage()
                self.sizes[storage._cdata] = storage.nbytes()
                self.now += storage.nbytes()
                self.peak = max(self.peak, self.now)
                weakref.finalize(storage, self._freed, storage._cdata)
        return result

    def _freed(self, key: int) -> None:
        self.now -= self.sizes.pop(key, 0)


def measured(
    attack: AttackConfig, hidden: tuple[int, ...], shape: tuple[int, ...], at_once: AtOnce, group: str = "trivial"
) -> tuple[Problem, int]:
    net = build_network(MLPArchitecture(hidden=hidden, bias="none", group=group), shape, seed=0)
    with LiveBytes() as memory:
        problem = build_problem(net, shape, attack, seed=0, device=CPU)
        assert isinstance(problem.objective, KKT)
        problem = replace(problem, objective=replace(problem.objective, at_once=at_once))
        state = initial_state(problem)
        memory.peak = memory.now
        for _ in range(2):
            state = step(problem, state)
    return problem, memory.peak


@pytest.mark.parametrize(
    ("hidden", "shape", "m", "trials", "at_once"),
    [
        ((300, 300), (3, 16, 16), 300, 2, AtOnce()),
        ((300, 300), (3, 16, 16), 300, 4, AtOnce(trials=1)),
        ((300, 300), (3, 16, 16), 300, 4, AtOnce(candidates=64)),
        ((300, 300), (3, 16, 16), 300, 1, AtOnce(candidates=64, keep_products=False)),
        ((40, 40), (1, 28, 28), 800, 2, AtOnce()),
        ((500, 500), (1, 14, 14), 100, 1, AtOnce()),
        ((200, 100, 50), (1, 28, 28), 400, 3, AtOnce(candidates=50)),
        ((200, 100, 50), (1, 28, 28), 400, 3, AtOnce(1, 50)),
        ((200,), (1, 20, 20), 600, 1, AtOnce()),
        ((800, 800), (1, 14, 14), 800, 1, AtOnce(candidates=100)),
        ((800, 800), (1, 14, 14), 800, 1, AtOnce(candidates=100, keep_products=False)),
    ],
)
@pytest.mark.parametrize("optimiser", ["momentum", "adam", "same_gd"])
def test_the_estimate_is_within_a_quarter_of_the_peak(
    hidden: tuple[int, ...], shape: tuple[int, ...], m: int, trials: int, at_once: AtOnce, optimiser: str
) -> None:
    settings = {"candidates": m, "steps": 5, "precision": "fp32", "trials": [TrialSettings()] * trials}
    attack = AttackConfig.model_validate(settings | {"optimiser": optimiser})
    problem, peak = measured(attack, hidden, shape, at_once)
    assert attack_bytes(problem) == pytest.approx(peak, rel=0.25)


@pytest.mark.parametrize("at_once", [AtOnce(), AtOnce(candidates=50)])
@pytest.mark.parametrize("group", ["flip", "d4"])
def test_so_it_is_for_the_average_over_a_group(group: str, at_once: AtOnce) -> None:
    attack = AttackConfig.model_validate({"candidates": 200, "steps": 5, "precision": "fp32"})
    problem, peak = measured(attack, (300, 300), (1, 28, 28), at_once, group)
    assert attack_bytes(problem) == pytest.approx(peak, rel=0.25)


def test_the_choices_go_from_cheap_to_small() -> None:
    found, choice = [], AtOnce()
    while choice is not None:
        found.append((choice.trials, choice.candidates, choice.keep_products))
        choice = choice.smaller(trials=2, candidates=16)
    assert found == [
        (None, None, True), (1, None, True), (1, 8, True), (1, 4, True), (1, 2, True), (1, 2, False), (1, 1, False),
    ]  # fmt: skip


def test_the_first_choice_that_fits_is_taken() -> None:
    widths, trials, m = (784, 300, 300, 1), 4, 1000
    whole = step_bytes(widths, trials, m)
    assert within(whole, widths, trials, m) == AtOnce()
    fewer = within(whole - 1, widths, trials, m)
    assert fewer.trials == 2
    assert step_bytes(widths, trials, m, fewer) < whole
    with pytest.raises(RecollectError, match="use fewer trials or candidates"):
        within(10_000, widths, trials, m)


def test_a_memory_limit_in_words_chooses_what_is_done_at_once() -> None:
    net = build_network(MLPArchitecture(hidden=(300, 300)), (1, 28, 28), seed=0)
    for limit, chunked in (("10GiB", False), ("9 MB", True)):
        attack = AttackConfig.model_validate(
            {"candidates": 400, "steps": 5, "memory_limit": limit, "optimiser": "momentum"}
        )
        objective = build_problem(net, (1, 28, 28), attack, seed=0, device=CPU).objective
        assert isinstance(objective, KKT)
        assert (objective.at_once.candidates is not None) == chunked
