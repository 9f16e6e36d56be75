"""The estimate of a step's memory against what a step really holds, tensor by tensor."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from recollect.build import build_problem
from recollect.config import AttackConfig, TrialSettings
from recollect.core import RecollectError
from recollect.memory import chunk_within, step_bytes
from recollect.objectives import KKT
from recollect.problem import initial_state
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


def measured(attack: AttackConfig, hidden: tuple[int, ...], shape: tuple[int, ...]) -> int:
    net = build_network(MLPArchitecture(hidden=hidden, bias="none"), shape, seed=0)
    with LiveBytes() as memory:
        problem = build_problem(net, shape, attack, seed=0, device=CPU)
        state = initial_state(problem)
        memory.peak = memory.now
        for _ in range(2):
            state = step(problem, state)
    return memory.peak


@pytest.mark.parametrize(
    ("hidden", "shape", "m", "trials", "chunk"),
    [
        ((300, 300), (3, 16, 16), 300, 2, None),
        ((300, 300), (3, 16, 16), 300, 4, 64),
        ((40, 40), (1, 28, 28), 800, 2, None),
        ((500, 500), (1, 14, 14), 100, 1, None),
        ((200, 100, 50), (1, 28, 28), 400, 3, 50),
        ((200,), (1, 20, 20), 600, 1, None),
    ],
)
def test_the_estimate_is_within_a_quarter_of_the_peak(
    hidden: tuple[int, ...], shape: tuple[int, ...], m: int, trials: int, chunk: int | None
) -> None:
    attack = AttackConfig(candidates=m, steps=5, precision="fp32", chunk=chunk, trials=(TrialSettings(),) * trials)
    widths = (torch.Size(shape).numel(), *hidden, 1)
    assert step_bytes(widths, trials, m, chunk) == pytest.approx(measured(attack, hidden, shape), rel=0.25)


def test_the_chunk_is_the_largest_half_that_fits() -> None:
    widths, trials, m = (784, 300, 300, 1), 2, 1000
    whole, half, quarter = (step_bytes(widths, trials, m, chunk) for chunk in (None, 500, 250))
    assert chunk_within(whole, widths, trials, m) is None
    assert chunk_within(max(half, quarter), widths, trials, m) in (None, 500)
    found = chunk_within(quarter, widths, trials, m)
    assert step_bytes(widths, trials, m, found) <= quarter
    with pytest.raises(RecollectError, match="use fewer trials or candidates"):
        chunk_within(10_000, widths, trials, m)


def test_a_memory_limit_in_words_chooses_the_chunk() -> None:
    net = build_network(MLPArchitecture(hidden=(300, 300)), (1, 28, 28), seed=0)
    for limit, chunked in (("10GiB", False), ("9 MB", True)):
        attack = AttackConfig.model_validate({"candidates": 400, "steps": 5, "memory_limit": limit})
        objective = build_problem(net, (1, 28, 28), attack, seed=0, device=CPU).objective
        assert isinstance(objective, KKT)
        assert (objective.chunk is not None) == chunked
