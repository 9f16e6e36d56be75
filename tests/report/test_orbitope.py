"""The figure of where candidates lie on orbitopes, from its file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from recollect.core import RecollectError
from recollect.report.orbitope import orbitope_figure, read_orbitope


def record(**changes) -> dict:
    found = {"group": "d4", "edges": [0, 0.5, 1], "counts": [3, 1], "near_counts": [1, 0], "near_ncc": 0.8}
    return found | changes


def test_shares_are_drawn_as_they_are_counted(tmp_path: Path) -> None:
    assert read_orbitope(tmp_path) is None
    (tmp_path / "orbitope.json").write_text(json.dumps(record()))
    found = read_orbitope(tmp_path)
    assert found is not None
    axes = orbitope_figure(found).axes[0]
    every, near = (patch.get_data().values.tolist() for patch in axes.patches)  # pyright: ignore
    assert every == [0.75, 0.25]
    assert near == [0.25, 0.0]
    assert axes.get_title(loc="right") == "group d4"


def test_counts_that_do_not_fit_are_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "orbitope.json").write_text(json.dumps(record(counts=[3, 1, 2])))
    with pytest.raises(RecollectError, match="do not fit its edges"):
        read_orbitope(tmp_path)
