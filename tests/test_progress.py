"""What the bar of a search says."""

from __future__ import annotations

import io
import math
import re
from types import SimpleNamespace
from typing import cast

import pytest
import torch
from rich.console import Console

from recollect.progress import Narrator, SearchBar
from recollect.solve import Snapshot


@pytest.mark.parametrize(
    ("losses", "said"),
    [
        ([3.0, 2.5], "loss 2.5"),
        ([math.nan, 3.0], "loss 3  1 diverged"),
        ([math.inf, math.nan], "loss inf  2 diverged"),
    ],
)
def test_the_loss_shown_is_the_least_of_the_trials_that_go_on(losses: list[float], said: str) -> None:
    heard: list[tuple[int, str]] = []
    total = torch.tensor(losses)
    terms = {"stationarity": total, "box": torch.zeros(2)}
    seen = SimpleNamespace(step=7, state=SimpleNamespace(alive=total.isfinite()), terms=terms)
    bar = SearchBar(lambda done, detail: heard.append((done, detail)), every=1)
    bar(cast(Snapshot, seen))
    assert heard == [(7, said)]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    now = SimpleNamespace(seconds=0.0)
    monkeypatch.setattr("recollect.progress.time", SimpleNamespace(monotonic=lambda: now.seconds))
    return now


def test_a_bar_fits_on_a_terminal_of_eighty_columns() -> None:
    narrator, shown = Narrator(), io.StringIO()
    narrator.console = Console(file=shown, force_terminal=True, width=80, highlight=False, _environ={"TERM": "xterm"})
    with narrator.bar("trials", total=500) as advance:
        advance(500, "best score 0.7215  13 of 20 recovered")
    drawn = re.sub(r"\x1b\[[^A-Za-z]*[A-Za-z]", "", shown.getvalue()).splitlines()[-1]
    assert re.search(r"trials ━+ 100% 500 of 500 \S+ best score 0.7215  13 of 20 recovered$", drawn), "cut off"


def test_where_no_bar_can_move_a_line_a_minute_says_how_long_it_will_take(
    clock: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    with Narrator().bar("searching", total=1000, done=400) as advance:
        for step in range(410, 1001, 10):
            clock.seconds += 3.0
            advance(step, f"loss {step}  1 diverged")
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "  searching 60%  600 of 1000  2 min 0 s left  loss 600  1 diverged",
        "  searching 80%  800 of 1000  1 min 0 s left  loss 800  1 diverged",
        "  searching 100%  1000 of 1000  after 3 min 0 s  loss 1000  1 diverged",
    ]


def test_an_interrupted_bar_says_where_it_stopped(clock: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted() -> None:
        with Narrator().bar("training", total=10) as advance:
            clock.seconds += 5.0
            advance(3, "loss 2")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert capsys.readouterr().err == "  training 30%  3 of 10  after 5 s  loss 2\n"


def test_a_line_before_anything_is_done_does_not_guess(
    clock: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    with Narrator().bar("trials", total=10) as advance:
        clock.seconds += 61.0
        advance(0, "")
    assert capsys.readouterr().err.splitlines()[0] == "  trials 0%  0 of 10"


def test_a_quiet_narrator_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with Narrator(quiet=True).bar("trials", total=10) as advance:
        advance(10, "done")
    assert capsys.readouterr().err == ""
