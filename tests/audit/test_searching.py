"""Rounds of a search: as many batches as fit, at least one, smaller steps where all diverged."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from recollect.audit import searching
from recollect.audit.budget import Ledger
from recollect.config import parse_config, read_run_config
from recollect.core import RecollectError
from recollect.progress import Narrator
from recollect.runs import RunFolder
from recollect.stages.run import Run

BATCH = 4


class Clock(Ledger):
    """Moves only when a trial has run."""

    def __init__(self, budget: float) -> None:
        super().__init__(budget)
        self.now = 0.0

    @property
    def spent(self) -> float:
        return self.now


def run_in(folder: Path) -> Run:
    text = f"[attack]\nsteps = 10\n[attack.search]\ntrials = {BATCH}\n[sweep]\nbatch = {BATCH}\n"
    return Run(RunFolder(folder), parse_config(text, "test"), Narrator(quiet=True), "test")


def sweeping(clock: Clock, seconds: float, survives: Callable[[float], bool]) -> Callable[[Run], None]:
    """A sweep whose trials take so long each, and diverge unless the largest rate is small enough."""

    def sweep(run: Run) -> None:
        path = run.folder.path / "trials.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        assert run.config.attack.search is not None
        for number in range(len(lines), run.config.attack.search.trials):
            diverged = not survives(run.config.attack.search.lr_x[1])
            lines.append(json.dumps({"number": number, "seconds": seconds, "diverged": diverged}))
            clock.now += seconds
        path.write_text("".join(line + "\n" for line in lines))
        if all(json.loads(line)["diverged"] for line in lines):
            raise RecollectError("every trial of the sweep diverged.")

    return sweep


def trials(folder: Path) -> int:
    return len((folder / "trials.jsonl").read_text().splitlines())


@pytest.mark.parametrize(("seconds", "expected"), [(1.0, 24), (5.0, 4), (60.0, 4)])
def test_batches_until_no_further_one_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, expected: int
) -> None:
    clock = Clock(33.0)
    monkeypatch.setattr(searching, "sweep_stage", sweeping(clock, seconds, lambda _: True))
    ended = searching.search(run_in(tmp_path), clock)
    assert trials(tmp_path) == expected
    assert ended.config.attack.search is not None
    assert ended.config.attack.search.trials == expected
    if expected > BATCH:
        assert read_run_config(tmp_path / "config.toml") == ended.config
        assert clock.spent <= 33.0 - 6.0


def test_where_all_trials_diverge_the_next_take_smaller_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(60.0)
    monkeypatch.setattr(searching, "sweep_stage", sweeping(clock, 0.5, lambda rate: rate < 0.1))
    ended = searching.search(run_in(tmp_path), clock)
    assert ended.config.attack.search is not None
    assert ended.config.attack.search.lr_x[1] == pytest.approx(0.03)
    assert trials(tmp_path) > 2 * BATCH


def test_where_nothing_helps_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(60.0)
    monkeypatch.setattr(searching, "sweep_stage", sweeping(clock, 0.5, lambda _: False))
    with pytest.raises(RecollectError, match="every trial of the sweep diverged"):
        searching.search(run_in(tmp_path), clock)


def test_another_mistake_is_not_taken_for_divergence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(run: Run) -> None:
        (run.folder.path / "trials.jsonl").write_text('{"number": 0, "diverged": false}\n')
        raise RecollectError("no space left on the device.")

    monkeypatch.setattr(searching, "sweep_stage", full_disk)
    with pytest.raises(RecollectError, match="no space left"):
        searching.search(run_in(tmp_path), Clock(60.0))
