"""Proposals: inside the ranges, the same however often a sweep is interrupted, and no study taken for another."""

from __future__ import annotations

import math
import sqlite3
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.config import SearchConfig, TrialSettings
from recollect.core import RecollectError
from recollect.sweep.propose import Proposal, Proposer, RandomProposer
from recollect.sweep.record import Trial
from recollect.sweep.settings import SweepConfig
from recollect.sweep.storage import JOURNAL, open_storage, require_storage
from recollect.sweep.study import OptunaProposer, open_study

SEARCH = SearchConfig(trials=1, lr_x=(0.1, 10.0), dual_min=(0.5, 0.5))
SAMPLERS = ["random", "tpe", "qmc"]


def by_optuna(folder: Path, sampler: str, url: str | None = None, worker: str | None = None) -> OptunaProposer:
    place = str(folder / JOURNAL) if url is None else url
    study = open_study(open_storage(folder, url), place, "a study", "content")
    return OptunaProposer(study, SEARCH, sampler, seed=3, place=place, worker=worker)


def finished(proposal: Proposal) -> Trial:
    """A score that prefers lr_x near 1; small values diverge."""
    lr_x = proposal.settings.lr_x
    score = math.nan if lr_x < 0.15 else abs(math.log(lr_x))
    return Trial(proposal.number, proposal.settings, score, math.isnan(score), False, 1.0, "")


def swept(proposer: Proposer, batches: int, size: int = 4) -> list[Proposal]:
    made: list[Proposal] = []
    for _ in range(batches):
        new = proposer.propose(size, {proposal.number for proposal in made})
        for proposal in new:
            proposer.tell(finished(proposal))
        made += new
    return made


@given(st.integers(0, 2**31), st.integers(1, 40))
def test_random_trials_are_those_of_the_search_however_many_there_are(seed: int, trials: int) -> None:
    whole = SEARCH.model_copy(update={"trials": trials}).draw(seed)
    one_by_one = [RandomProposer(SEARCH, seed).propose(1, range(number))[0] for number in range(trials)]
    assert [proposal.number for proposal in one_by_one] == list(range(trials))
    assert tuple(proposal.settings for proposal in one_by_one) == whole


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_proposals_lie_in_their_ranges(sampler: str, tmp_path: Path) -> None:
    made = swept(by_optuna(tmp_path, sampler), batches=5)
    assert [proposal.number for proposal in made] == list(range(20))
    for name in TrialSettings.model_fields:
        low, high = getattr(SEARCH, name)
        values = [getattr(proposal.settings, name) for proposal in made]
        assert all(low * (1 - 1e-12) <= value <= high * (1 + 1e-12) for value in values)
        assert len(set(values)) == (1 if low == high else 20)
    # A logarithmic scale: half of the values of [0.1, 10] lie below 1, where a uniform one has a tenth.
    assert sum(proposal.settings.lr_x < 1 for proposal in made) >= 5


def test_tpe_learns_from_what_it_is_told(tmp_path: Path) -> None:
    made = swept(by_optuna(tmp_path, "tpe"), batches=15)
    first, last = ([abs(math.log(one.settings.lr_x)) for one in part] for part in (made[:20], made[-20:]))
    assert sum(last) < 0.6 * sum(first)
    states = [trial.state.name for trial in by_optuna(tmp_path, "tpe").study.trials]
    assert states == ["PRUNED" if finished(one).diverged else "COMPLETE" for one in made]


def test_pruned_trials_are_told_with_their_scores_on_the_way(tmp_path: Path) -> None:
    proposer = by_optuna(tmp_path, "tpe")
    first, second, third = proposer.propose(3, ())
    pruned = replace(finished(first), score=0.4, diverged=False, pruned=True, rungs=(0.5, 0.4))
    for trial in (pruned, finished(replace(second, settings=TrialSettings(lr_x=1.0))), pruned):
        proposer.tell(trial)
    told = by_optuna(tmp_path, "tpe").study.trials
    assert [trial.state.name for trial in told] == ["PRUNED", "COMPLETE", "RUNNING"]
    assert told[0].intermediate_values == {1: 0.5, 2: 0.4}
    assert told[0].value == 0.4
    assert third.number == 2


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_an_interrupted_study_makes_the_same_proposals(sampler: str, tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    expected = swept(by_optuna(tmp_path / "whole", sampler), batches=5)
    made: list[Proposal] = []
    for batch in range(5):
        known = {proposal.number for proposal in made}
        lost = by_optuna(tmp_path, sampler).propose(1 + batch % 4, known)  # killed after asking for some
        again = by_optuna(tmp_path, sampler)
        new = again.propose(4, known)
        assert new[: len(lost)] == lost
        for proposal in new[:2]:
            again.tell(finished(proposal))
        after = by_optuna(tmp_path, sampler)  # killed after telling some
        for proposal in new:
            after.tell(finished(proposal))
        made += new
    assert made == expected


@pytest.mark.parametrize("sampler", ["random", "tpe"])
def test_a_trial_that_was_half_asked_for_is_asked_for_again(sampler: str, tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    expected = swept(by_optuna(tmp_path / "whole", sampler), batches=4)
    made = swept(by_optuna(tmp_path, sampler), batches=3)
    by_optuna(tmp_path, sampler).study.ask().suggest_float("lr_x", 0.1, 10.0, log=True)
    made += by_optuna(tmp_path, sampler).propose(4, {proposal.number for proposal in made})
    assert made == expected


def test_two_workers_on_one_storage_run_no_trial_twice(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'study.db'}"
    one, other = by_optuna(tmp_path, "tpe", url, "one"), by_optuna(tmp_path, "tpe", url, "other")
    made: list[list[Proposal]] = [[], []]
    for _ in range(3):
        for worker, own in zip((one, other), made, strict=True):
            own += worker.propose(2, {proposal.number for proposal in own})
            worker.tell(finished(own[-1]))
            worker.tell(finished(own[-2]))
    numbers = [proposal.number for own in made for proposal in own]
    assert sorted(numbers) == list(range(12))
    assert len({proposal.settings for own in made for proposal in own}) == 12
    assert one.propose(1, {proposal.number for proposal in made[0]})[0].number == 12
    one.study._storage.remove_session()


def test_another_study_is_refused(tmp_path: Path) -> None:
    swept(by_optuna(tmp_path, "tpe"), batches=1)
    with pytest.raises(RecollectError, match=r"holds another study named 'a study'.*--set name=NAME"):
        open_study(open_storage(tmp_path, None), "journal", "a study", "other content")
    optuna.create_study(storage=open_storage(tmp_path, None), study_name="theirs").enqueue_trial({"z": 1.0})
    with pytest.raises(RecollectError, match="holds another study named 'theirs'"):
        open_study(open_storage(tmp_path, None), "journal", "theirs", "content")


def test_a_storage_that_lost_trials_is_refused(tmp_path: Path) -> None:
    trial = finished(Proposal(7, TrialSettings()))
    with pytest.raises(RecollectError, match="does not know trial 7"):
        by_optuna(tmp_path, "tpe").tell(trial)


@pytest.mark.parametrize(
    "url",
    ["sqlite:////nowhere/at/all/study.db", "nonsense", "postgresql://me:secret@127.0.0.1:1/db", "oracle9://x/y"],
)
def test_an_unreachable_storage_is_one_sentence(url: str) -> None:
    with pytest.raises(RecollectError, match="cannot be used") as caught:
        require_storage(SweepConfig(storage=url))
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_storage_that_breaks_under_way_is_one_sentence_with_the_cause(tmp_path: Path) -> None:
    proposer = by_optuna(tmp_path, "tpe", f"sqlite:///{tmp_path / 'study.db'}", worker="one")
    (made,) = proposer.propose(1, set())
    with closing(sqlite3.connect(tmp_path / "study.db")) as database:
        database.executescript("pragma writable_schema = on; drop table trial_user_attributes; drop table trials;")
    for act in (lambda: proposer.tell(finished(made)), lambda: proposer.propose(2, set())):
        with pytest.raises(RecollectError, match=r"no such table.*goes on with --resume\.$") as caught:
            act()
        assert "\n" not in str(caught.value)
    proposer.study._storage.remove_session()
    proposer.study._storage._backend.engine.dispose()


def test_a_damaged_journal_is_one_sentence(tmp_path: Path) -> None:
    swept(by_optuna(tmp_path, "random"), batches=1)
    journal = tmp_path / JOURNAL
    journal.write_bytes(b"nonsense\n" + journal.read_bytes())
    with pytest.raises(RecollectError, match="cannot be used"):
        by_optuna(tmp_path, "random")


def test_a_lock_left_by_a_killed_process_does_not_stop_anybody(tmp_path: Path) -> None:
    swept(by_optuna(tmp_path, "random"), batches=1)
    (tmp_path / f"{JOURNAL}.lock").symlink_to(tmp_path / JOURNAL)
    assert by_optuna(tmp_path, "random").propose(1, range(4))[0].number == 4


def test_without_optuna_random_works_and_the_others_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    require_storage(SweepConfig())
    assert RandomProposer(SEARCH, 0).propose(2, ())[1].number == 1
    wanting: list[dict[str, Any]] = [{"sampler": "tpe"}, {"sampler": "qmc"}, {"storage": "sqlite:///study.db"}]
    for settings in wanting:
        with pytest.raises(RecollectError, match=r"pip install 'recollect\[sweep\]'"):
            require_storage(SweepConfig(**settings))


def test_half_a_line_at_the_end_of_a_journal_is_cut(tmp_path: Path) -> None:
    """As a full disk leaves it: whoever wrote it was told that it failed."""
    study = open_study(open_storage(tmp_path, None), "journal", "mine", "content")
    study.add_trial(optuna.trial.create_trial(value=1.0))
    journal = tmp_path / JOURNAL
    whole = journal.read_bytes()
    journal.write_bytes(whole + b'{"op_code": 4, "worker')
    again = open_study(open_storage(tmp_path, None), "journal", "mine", "content")
    assert [trial.value for trial in again.trials] == [1.0]
    assert journal.read_bytes().startswith(whole)
