"""Counter-based draws against Python's integers, against scipy's tests of distribution, and against each other."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from recollect.core import TrialRng
from recollect.counter_random import TrialStreams, _words

STEP = torch.tensor(5)


def streams(trials: int = 4, seed: int = 0) -> TrialStreams:
    return TrialStreams(seed, torch.arange(trials, dtype=torch.int32))


def scrambled(x: int, key: int) -> int:
    """The hash in Python's own integers, reduced after every operation."""
    x ^= x >> 17
    x = (x * 0xED5AD4BB + key) % 2**32
    x ^= x >> 11
    x = x * 0xAC4C1B51 % 2**32
    x ^= x >> 15
    x = x * 0x31848BAB % 2**32
    return x ^ (x >> 14)


def slow_bits(seed: int, trial: int, purpose: str, step: int, position: int) -> int:
    one, other = (word % 2**32 for word in _words(seed, purpose))
    left, right = scrambled((trial + one) % 2**32, other), scrambled(trial ^ other, one)
    first = scrambled((left + step) % 2**32, right)
    second = scrambled(right ^ step, first)
    return scrambled((position + first) % 2**32, second)


@given(st.integers(0, 2**32 - 1), st.text(max_size=8), st.integers(0, 2**31 - 1), st.integers(1, 40))
def test_tensors_hash_as_plain_integers_do(seed: int, purpose: str, step: int, count: int) -> None:
    """Odd counts reach the tails of vectorised loops."""
    got = streams(3, seed).bits(purpose, torch.tensor(step), (count,))
    for trial in range(3):
        wanted = [slow_bits(seed, trial, purpose, step, position) for position in range(count)]
        assert [value % 2**32 for value in got[trial].tolist()] == wanted


def test_uniforms_pass_the_tests_of_kolmogorov_and_pearson() -> None:
    """P-values of many streams are themselves uniform."""
    draws = torch.cat([streams(20).uniform("u", torch.tensor(step), (4096,), torch.float64) for step in range(3)])
    smirnov = [stats.kstest(row, "uniform").pvalue for row in draws.numpy()]
    cells = (draws[:, ::2] * 16).long() * 16 + (draws[:, 1::2] * 16).long()
    pearson = [stats.chisquare(np.bincount(row, minlength=256)).pvalue for row in cells.numpy()]
    assert stats.kstest(smirnov, "uniform").pvalue > 0.01
    assert stats.kstest(pearson, "uniform").pvalue > 0.01
    assert draws.min() > 0
    assert draws.max() < 1


def test_normals_have_the_moments_and_the_distribution_of_normals() -> None:
    draws = streams(8).normal("z", STEP, (20_000,), torch.float64).flatten().numpy()
    assert abs(draws.mean()) < 4 / len(draws) ** 0.5
    assert abs(draws.var() - 1) < 4 * (2 / len(draws)) ** 0.5
    assert abs(stats.kurtosis(draws)) < 4 * (24 / len(draws)) ** 0.5
    assert stats.kstest(draws, "norm").pvalue > 0.01


def test_streams_of_other_trials_steps_and_purposes_are_uncorrelated() -> None:
    """Correlations of all pairs, and of each stream with itself moved on, are those of independent numbers."""
    n = 5000
    rows = torch.cat(
        [
            streams(12).uniform(purpose, torch.tensor(step), (n,), torch.float64)
            for purpose in ("a", "b")
            for step in (0, 1, 2)
        ]
    )
    upper = torch.triu_indices(len(rows), len(rows), 1)
    between = torch.corrcoef(rows)[upper[0], upper[1]] * n**0.5
    within = [torch.corrcoef(torch.stack([row[lag:], row[:-lag]]))[0, 1] * n**0.5 for row in rows for lag in (1, 2, 7)]
    assert stats.kstest(between.numpy(), "norm").pvalue > 0.01
    assert stats.kstest(torch.stack(within).numpy(), "norm").pvalue > 0.01
    assert len(rows.flatten().unique()) > 0.97 * rows.numel()


@pytest.mark.parametrize("dropped", [0.0, 0.1, 0.5, 0.9])
def test_masks_drop_the_share_asked_for(dropped: float) -> None:
    kept = streams(4).keep("mask", STEP, (25_000,), dropped).double().mean()
    assert abs(float(kept) - (1 - dropped)) <= 4 * (dropped * (1 - dropped) / 100_000) ** 0.5


@pytest.mark.parametrize("classes", [2, 10, 1000])
def test_labels_are_equally_likely(classes: int) -> None:
    labels = streams(4).labels("label", STEP, (25_000,), classes).flatten().numpy()
    assert labels.min() >= 0
    assert labels.max() < classes
    assert stats.chisquare(np.bincount(labels, minlength=classes)).pvalue > 0.01


def test_a_trial_alone_draws_what_it_draws_in_a_batch() -> None:
    together, alone = streams(5), streams(5).for_trials(torch.tensor([3]))
    assert torch.equal(together.normal("z", STEP, (3, 4))[3], alone.normal("z", STEP, (3, 4))[0])
    assert torch.equal(together.keep("m", STEP, (7,), 0.5)[3], alone.keep("m", STEP, (7,), 0.5)[0])
    assert torch.equal(together.labels("l", STEP, (7,), 10)[3], alone.labels("l", STEP, (7,), 10)[0])


def test_trials_are_those_of_the_run() -> None:
    rng = TrialRng(7, (4, 2), torch.float64, torch.device("cpu"))
    both, whole = TrialStreams.of(rng), streams(5, seed=7)
    assert torch.equal(both.bits("x", STEP, (6,)), whole.bits("x", STEP, (6,))[[4, 2]])


def test_both_float_types_see_the_same_uniforms() -> None:
    single, double = (streams().uniform("u", STEP, (10_000,), dtype) for dtype in (torch.float32, torch.float64))
    assert torch.equal(single.double(), double)


def test_a_draw_can_be_recorded_as_one_graph() -> None:
    """No operation of a draw reads a tensor back: the step is an input of the recorded program."""

    def draw(step: torch.Tensor) -> tuple[torch.Tensor, ...]:
        own = streams()
        return own.normal("z", step, (5,)), own.keep("m", step, (6,), 0.3), own.labels("l", step, (4,), 10)

    recorded = torch.compile(draw, backend="aot_eager", fullgraph=True)
    for step in (torch.tensor(0), torch.tensor(123_456)):
        for got, wanted in zip(recorded(step), draw(step), strict=True):
            assert torch.equal(got, wanted)
