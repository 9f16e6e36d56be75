"""matches.csv and matches.parquet: every pair once, with the numbers of matches.json."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from pathlib import Path

import polars
import pytest

from recollect.core import RecollectError
from recollect.report import write_matches_parquet, write_report
from recollect.report.folder import read_run
from recollect.report.listing import COLUMNS, listing


def test_the_table_has_the_numbers_of_the_run(make_run: Callable[..., Path]) -> None:
    folder = make_run(n=9)
    write_report(folder)
    with (folder / "matches.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    samples = sorted(json.loads((folder / "matches.json").read_text())["samples"], key=lambda sample: -sample["ncc"])
    assert list(rows[0]) == list(COLUMNS)
    assert [int(row["index"]) for row in rows] == [sample["index"] for sample in samples]
    assert [float(row["ncc"]) for row in rows] == [sample["ncc"] for sample in samples]
    assert [row["recovered"] == "true" for row in rows] == [sample["recovered"] for sample in samples]
    assert [[int(row["trial"]), int(row["candidate"])] for row in rows] == [sample["candidate"] for sample in samples]


def test_parquet_is_the_same_table_with_types(make_run: Callable[..., Path]) -> None:
    folder = make_run(n=9)
    table = polars.read_parquet(write_matches_parquet(folder))
    assert table.to_dicts() == [{name: row[name] for name in COLUMNS} for row in listing(read_run(folder))]
    assert table.schema["recovered"] == polars.Boolean
    assert table.schema["ncc"] == polars.Float64


def test_a_spreadsheet_sees_no_formula_and_unknown_is_empty(make_run: Callable[..., Path]) -> None:
    folder = make_run(n=2)
    baseline = folder / "baselines" / "odd"
    baseline.mkdir(parents=True)
    for file in ("config.toml", "summary.json"):
        (baseline / file).write_bytes((folder / file).read_bytes())
    (baseline / "status.json").write_text(json.dumps({"format": 1, "name": "=1+1", "stages": {}}))
    (baseline / "matches.json").write_text(json.dumps({"score": "ncc", "samples": [{"index": 4, "ncc": -0.5}]}))
    write_report(folder)
    last = (folder / "matches.csv").read_text().splitlines()[-1]
    assert last == "'=1+1,4,,,-0.5,,,,,,,"


def test_what_is_missing_is_one_sentence(make_run: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_run()
    (folder / "matches.json").unlink()
    (folder / "pairs.safetensors").unlink()
    with pytest.raises(RecollectError, match=r"has no matches\.json yet; run 'recollect match'"):
        write_matches_parquet(folder)
    write_report(folder)
    assert not (folder / "matches.csv").exists()
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(RecollectError, match=r"needs polars, which is not installed; run pip install 'recollect\["):
        write_matches_parquet(folder)
