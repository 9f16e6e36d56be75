"""Batches: what one attack with all trials gives, whatever was interrupted; every trial once."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest
import torch
from tests.cases import SAMPLE_SHAPE, chain

from recollect import Reconstruction, attack
from recollect.config import AttackConfig, SearchConfig, TrialSettings
from recollect.core import RecollectError
from recollect.runs import RunFolder
from recollect.sweep.collect import chosen_trials, pooled
from recollect.sweep.execute import run_trials
from recollect.sweep.propose import RandomProposer
from recollect.sweep.record import LINES, Trial, finished_trials
from recollect.sweep.trials import Sweep
from recollect.sweep.work import Ledger, best_score

SEARCH = SearchConfig(trials=7, lr_x=(0.01, 0.1), lr_duals=(0.01, 0.1), init_scale=(0.1, 0.5))
NET = chain((12, 7, 5, 1), (True, False, False))
ATTACK = AttackConfig(candidates=6, steps=30, optimiser="momentum", precision="fp64", search=SEARCH)


class KilledError(Exception):
    pass


@dataclass(frozen=True)
class Ours:
    """A sweep and its folder."""

    folder: RunFolder
    attack: AttackConfig
    devices: int
    seed: int = 5


def sweep(path: Path, settings: AttackConfig = ATTACK, devices: int = 1) -> Ours:
    path.mkdir(exist_ok=True)
    return Ours(RunFolder(path), settings, devices)


def run(ours: Ours, wanted: int = 7, batch: int = 3, looks: int | None = None) -> list[Trial]:
    """To the end, or until somebody has looked so many times."""
    seen = count(1)

    def watch(done: float, best: float) -> None:
        assert 0 <= done <= max(wanted, 9)
        assert math.isnan(best) or best > 0
        if next(seen) == looks:
            raise KilledError

    search = ours.attack.search
    assert search is not None
    ledger = Ledger(ours.folder, RandomProposer(search, ours.seed), wanted, watch)
    run_trials(Sweep(NET, SAMPLE_SHAPE, ours.attack, ours.seed, [torch.device("cpu")] * ours.devices, batch), ledger)
    return ledger.history


def same(found: Reconstruction, expected: Reconstruction, exactly: bool = True) -> None:
    tolerance = 0.0 if exactly else 1e-6
    for name in ("candidates", "duals", "labels"):
        torch.testing.assert_close(
            getattr(found, name).double(), getattr(expected, name).double(), rtol=tolerance, atol=tolerance
        )


def numbers(trials: Sequence[Trial]) -> list[int]:
    return [trial.number for trial in trials]


@pytest.mark.parametrize(("batch", "devices"), [(1, 1), (3, 1), (3, 2), (20, 4)])
def test_a_sweep_finds_what_one_attack_with_all_trials_finds(batch: int, devices: int, tmp_path: Path) -> None:
    ours = sweep(tmp_path, devices=devices)
    trials = run(ours, batch=batch)
    whole = ATTACK.model_copy(update={"trials": SEARCH.draw(5), "search": None})
    same(pooled(ours.folder, chosen_trials(trials)), attack(NET, SAMPLE_SHAPE, whole, 5, "cpu"), exactly=False)
    assert tuple(trial.settings for trial in trials) == SEARCH.draw(5)


@pytest.mark.parametrize("looks", [1, 2, 20, 33, 40, 66, 70])
def test_killed_and_gone_on_with(looks: int, tmp_path: Path) -> None:
    expected, ours = sweep(tmp_path / "whole"), sweep(tmp_path / "killed")
    all_trials = run(expected)
    with pytest.raises(KilledError):
        run(ours, looks=looks)
    before = {path: path.stat().st_mtime_ns for path in ours.folder.path.glob("trials/*")}
    trials = run(ours)
    assert numbers(trials) == numbers(all_trials) == list(range(7))
    assert [trial.score for trial in trials] == [trial.score for trial in all_trials]
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert {path.name for path in ours.folder.path.glob("trials/*")} == {
        f"{name}.safetensors" for name in ("0-2", "3-5", "6-6")
    }
    same(pooled(ours.folder, trials), pooled(expected.folder, all_trials))
    assert [line["number"] for line in ours.folder.read_lines(LINES)] == list(range(7))


def test_lines_that_a_kill_cut_short_are_written_again(tmp_path: Path) -> None:
    ours = sweep(tmp_path)
    trials = run(ours)
    whole = (tmp_path / LINES).read_text()
    for cut in (0, 10, len(whole) // 2, len(whole) - 5):
        (tmp_path / LINES).write_text(whole[:cut])
        assert finished_trials(ours.folder) == trials
        assert run(ours) == trials
        assert (tmp_path / LINES).read_text() == whole
    lines = [json.loads(line) for line in whole.splitlines()]
    expected = {"number", "settings", "score", "diverged", "stalled", "pruned", "steps", "seconds", "rungs", "piece"}
    assert [set(line) for line in lines] == [expected] * 7


def test_trials_are_added_later(tmp_path: Path) -> None:
    ours, expected = sweep(tmp_path / "grown"), sweep(tmp_path / "whole")
    first = run(ours, wanted=4)
    grown = run(ours, wanted=9)
    assert grown[:4] == first
    assert numbers(grown) == list(range(9))
    same(pooled(ours.folder, grown), pooled(expected.folder, run(expected, wanted=9)), exactly=False)
    assert run(ours, wanted=5) == grown


def test_a_piece_that_is_gone_is_run_again(tmp_path: Path) -> None:
    ours = sweep(tmp_path)
    trials = run(ours)
    (tmp_path / "trials" / "3-5.safetensors").unlink()
    assert numbers(finished_trials(ours.folder)) == [0, 1, 2, 6]
    assert [(trial.number, trial.score) for trial in run(ours)] == [(trial.number, trial.score) for trial in trials]


def test_a_damaged_piece_is_one_sentence(tmp_path: Path) -> None:
    ours = sweep(tmp_path)
    run(ours)
    (tmp_path / LINES).unlink()
    (tmp_path / "trials" / "3-5.safetensors").write_bytes(b"nonsense")
    with pytest.raises(RecollectError, match=r"3-5\.safetensors' cannot be read"):
        run(ours)


def test_diverged_trials_are_marked_and_left_out(tmp_path: Path) -> None:
    wild = SEARCH.model_copy(update={"lr_x": (1e-3, 1e3), "lr_duals": (1e-3, 10.0)})
    ours = sweep(tmp_path, ATTACK.model_copy(update={"search": wild}))
    trials = run(ours, wanted=12)
    lost = [trial for trial in trials if trial.diverged]
    assert 0 < len(lost) < 12
    assert all(math.isnan(trial.score) for trial in lost)
    assert all(math.isfinite(trial.score) for trial in trials if not trial.diverged)
    chosen = chosen_trials(trials)
    assert numbers(chosen) == [trial.number for trial in trials if not trial.diverged]
    assert pooled(ours.folder, chosen).candidates.isfinite().all()
    lines = [line["score"] for line in ours.folder.read_lines(LINES)]
    assert [score is None for score in lines] == [trial.diverged for trial in trials]
    with pytest.raises(RecollectError, match="every trial of the sweep diverged"):
        pooled(ours.folder, chosen_trials(lost))


def test_the_best_trials_are_kept_in_their_order(tmp_path: Path) -> None:
    ours = sweep(tmp_path)
    trials = run(ours)
    best = chosen_trials(trials, keep=3)
    assert numbers(best) == sorted(sorted(range(7), key=lambda number: trials[number].score)[:3])
    whole, few = pooled(ours.folder, trials), pooled(ours.folder, best)
    assert torch.equal(few.candidates, whole.candidates[numbers(best)])
    assert best_score(trials) == min(trial.score for trial in best)
    assert math.isnan(best_score([]))


def test_settings_survive_the_piece_in_every_digit(tmp_path: Path) -> None:
    ours = sweep(tmp_path)
    run(ours)
    (tmp_path / LINES).unlink()
    again = finished_trials(ours.folder)
    assert tuple(trial.settings for trial in again) == SEARCH.draw(5)
    assert all(isinstance(trial.settings, TrialSettings) for trial in again)
