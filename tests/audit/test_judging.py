"""The judgement of an audit: thresholds by brute force, and its rate where nothing leaks, by simulation."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from recollect.analysis import MatchRule, match
from recollect.audit.evidence import Evidence
from recollect.audit.judging import judge_attack, judge_audit, shared_ranks
from recollect.audit.words import interpretation, measured, verdict


def evidence(members: Tensor, null: Tensor, name: str = "kkt") -> Evidence:
    return Evidence(name, name, ".", 1.0, 10, members.double(), null.double(), (None,) * len(members))


def exchangeable(
    n: int, k: int, attacks: int, generator: torch.Generator, shared: float = 0.5
) -> list[tuple[Tensor, Tensor]]:
    """Scores of attacks that partly agree, members and held-out samples drawn alike."""
    common = shared * torch.randn(n + k, generator=generator)
    tables = [common + torch.randn(n + k, generator=generator).exp() for _ in range(attacks)]
    return [(table[:n], table[n:]) for table in tables]


@pytest.mark.parametrize(("n", "k", "attacks", "rate"), [(20, 99, 1, 0.05), (50, 400, 3, 0.01), (30, 120, 4, 0.1)])
def test_the_rate_is_kept_where_nothing_leaks(n: int, k: int, attacks: int, rate: float) -> None:
    generator = torch.Generator().manual_seed(0)
    names = ("kkt", "activation", "weights", "generator")
    runs = 200
    passed, false_leaks = 0, 0
    for _ in range(runs):
        scores = exchangeable(n, k, attacks, generator)
        found = judge_audit([evidence(*pair, name) for pair, name in zip(scores, names, strict=False)], rate)
        passed += found.count
        false_leaks += found.beyond_luck
        assert found.rate == rate
        assert found.null_recovered <= rate * (k + 1)
        assert bool(((found.p_values <= rate + 1e-12) == found.recovered).all())
    share, deviation = passed / (runs * n), (rate / runs) ** 0.5
    assert share <= rate + 3 * deviation
    assert share >= rate / (2 * attacks)
    assert false_leaks / runs <= 0.01 + 3 * (0.01 / runs) ** 0.5


def test_scores_do_not_depend_on_how_many_samples_there_are() -> None:
    """Real matching: a sample scores the same alone as among others, so that sets of any size compare."""
    generator = torch.Generator().manual_seed(1)
    candidates, x = (torch.randn(count, 1, 6, 6, generator=generator) for count in (40, 25))
    rule = MatchRule(each_candidate_once=False)
    together = match(candidates, x, torch.zeros(1, 6, 6), rule).ncc
    alone = torch.cat([match(candidates, x[i : i + 1], torch.zeros(1, 6, 6), rule).ncc for i in range(25)])
    assert torch.allclose(together, alone, atol=1e-6)


@pytest.mark.parametrize("n", [10, 40])
def test_matching_keeps_the_rate_with_few_samples_and_their_mean_removed(n: int) -> None:
    """NCC sees ``x_i - mean`` as ``x_i`` less the mean of the others, so a member gains nothing by its part in it."""
    generator = torch.Generator().manual_seed(2)
    rule = MatchRule(each_candidate_once=False)
    passed, runs, rate = 0, 60, 0.05
    for _ in range(runs):
        shape = torch.rand(1, 5, 5, generator=generator)
        pool = shape + 0.5 * torch.randn(n + 99, 1, 5, 5, generator=generator)
        candidates = 0.3 * torch.randn(20, 1, 5, 5, generator=generator) - shape
        mean = pool[:n].mean(dim=0)
        scores = [match(candidates, part - mean, mean, rule).ncc for part in (pool[:n], pool[n:])]
        passed += judge_audit([evidence(*scores)], rate).count
    assert passed / (runs * n) <= rate + 3.5 * (rate / runs) ** 0.5


@given(st.floats(0.001, 0.5), st.integers(1, 3000), st.integers(1, 5))
@settings(max_examples=200)
def test_ranks_are_shared_within_the_rate(rate: float, k: int, attacks: int) -> None:
    ranks = shared_ranks(rate, k, attacks)
    assert len(ranks) == attacks
    assert min(ranks) >= 1
    if rate * (k + 1) >= attacks:
        assert sum(ranks) <= rate * (k + 1) + 1e-6
        assert ranks[0] == max(ranks)


@given(st.lists(st.integers(0, 12), min_size=1, max_size=12), st.lists(st.integers(0, 12), min_size=2, max_size=25))
def test_thresholds_against_brute_force(members: list[int], null: list[int]) -> None:
    for ranks in range(1, len(null) + 1):
        found = judge_attack(evidence(torch.tensor(members), torch.tensor(null)), ranks)
        expected = [sum(other >= score for other in null) < ranks for score in members]
        assert found.recovered.tolist() == expected
        assert found.threshold.false_positive_rate == pytest.approx(ranks / (len(null) + 1))


def test_more_is_recovered_where_something_leaks() -> None:
    generator = torch.Generator().manual_seed(3)
    members, null = torch.randn(100, generator=generator), torch.randn(400, generator=generator)
    members[:30] += 5
    quiet = (torch.randn(100, generator=generator), torch.randn(400, generator=generator))
    found = judge_audit([evidence(members, null), evidence(*quiet, "weights")], 0.01)
    assert found.recovered[:30].sum() >= 28
    assert found.beyond_luck
    assert 22 < found.at_least <= 30
    assert verdict(found, 61.0, "cpu").startswith(f"{found.count} of 100 training samples were recovered")
    assert "in 1 min 1 s on cpu" in verdict(found, 61.0, "cpu")
    assert verdict(found, 61.0, "cpu").endswith(
        "provided that training and held-out samples are what they were declared to be."
    )
    assert not any("generator" in sentence for sentence in interpretation(found, fail_above=50))
    assert any("AUC" in sentence for sentence in measured(found))
    assert any("no more than the 50" in sentence for sentence in interpretation(found, fail_above=50))


def test_generated_images_are_not_called_copies() -> None:
    found = judge_audit([evidence(torch.arange(5.0), torch.arange(9.0), "generator")], 0.1)
    assert any("typical of the training data, not copies" in sentence for sentence in interpretation(found, 0))


def test_few_held_out_samples_promise_less_and_say_so() -> None:
    found = judge_audit([evidence(torch.arange(5.0), torch.arange(9.0))] * 2, 0.01)
    assert found.rate == pytest.approx(0.2)
    assert found.count == 0
    told = " ".join(interpretation(found, 0))
    assert "9 held-out samples are too few for the rate 0.01 with 2 attacks" in told
    assert "199 would do" in told


def test_without_a_leak_nothing_is_promised_of_single_samples() -> None:
    """One score in three beats both held-out ones: luck does that often, and a rate above 1 would mean nothing."""
    scores = torch.tensor([0.0, 1.0, 9.0]), torch.tensor([2.0, 3.0])
    found = judge_audit([evidence(*scores, name) for name in "abcd"], 0.01)
    assert found.count == 1
    assert found.rate == 1.0
    assert not found.beyond_luck
    assert found.at_least == 0
    assert not any("At least" in sentence for sentence in measured(found))
