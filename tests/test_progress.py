"""What the bar of a search says."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import cast

import pytest
import torch

from recollect.progress import SearchBar
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
