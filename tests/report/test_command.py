"""``recollect report``: a page for one run, a comparison for two."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars


def test_one_run_has_a_page_and_a_table(command, finished: Path) -> None:
    for name in ("report.html", "matches.csv"):
        (finished / name).unlink()
    ended = command("report", finished, "--parquet")
    assert ended.out.split() == [str(finished / "report.html"), str(finished / "matches.parquet")]
    assert "this run" in (finished / "matches.csv").read_text()
    assert len(polars.read_parquet(finished / "matches.parquet")) == 4


def test_two_runs_are_compared(command, finished: Path, tmp_path: Path) -> None:
    other = shutil.copytree(finished, tmp_path / "other")
    assert command("report", finished, other).out.strip() == str(other / "comparison.html")
    assert "before and after" in (other / "comparison.html").read_text()
    assert command("report", finished, other, "--out", "both.html").out.strip() == "both.html"
    assert (tmp_path / "both.html").exists()


def test_mistakes_are_one_sentence(command, finished: Path) -> None:
    assert "leave out the second folder" in command("report", finished, finished, "--parquet").error
    assert "--out is for the comparison" in command("report", finished, "--out", "x.html").error
    assert "is not a run folder" in command("report", finished, "nowhere").error
