"""Every pair of a run as one table for other programs: ``matches.csv``, and with polars ``matches.parquet``."""

from __future__ import annotations

import csv
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

from recollect.core import RecollectError
from recollect.report.folder import Run, read_run
from recollect.report.pairs import THIS_RUN
from recollect.report.saving import save

COLUMNS: dict[str, type] = {
    "attack": str,
    "index": int,
    "label": int,
    "output": float,
    "ncc": float,
    "ssim": float,
    "psnr": float,
    "distance": float,
    "votes": int,
    "trial": int,
    "candidate": int,
    "recovered": bool,
}


def write_listing(run: Run) -> Path | None:
    """Write ``matches.csv``: a row for each training sample and attack, best first; None before matching."""
    if run.matches is None:
        return None
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([_cell(row[name]) for name in COLUMNS] for row in listing(run))
    return save(run.path / "matches.csv", text.getvalue().encode())


def write_matches_parquet(folder: Path) -> Path:
    """Write ``matches.parquet`` into a run folder, the same table with types; needs polars."""
    try:
        import polars
    except ImportError as error:
        raise RecollectError(
            "matches.parquet needs polars, which is not installed; run pip install 'recollect[parquet]', or read "
            "matches.csv."
        ) from error
    run = read_run(folder)
    if run.matches is None:
        raise RecollectError(f"{run.path} has no matches.json yet; run 'recollect match' with --data first.")
    types = {str: polars.String, int: polars.Int64, float: polars.Float64, bool: polars.Boolean}
    schema = {name: types[kind] for name, kind in COLUMNS.items()}
    buffer = BytesIO()
    polars.DataFrame(listing(run), schema=schema).write_parquet(buffer)
    return save(run.path / "matches.parquet", buffer.getvalue())


def listing(run: Run) -> list[dict[str, Any]]:
    """The rows; None for what was not measured."""
    rows = []
    for attack in (run, *run.baselines):
        if attack.matches is None:
            continue
        for place in attack.matches.best_first():
            sample = attack.matches.samples[place]
            trial, candidate = sample.candidate or (None, None)
            known = {name: getattr(sample, name) for name in COLUMNS if name not in ("attack", "trial", "candidate")}
            rows.append(known | {"attack": _name(run, attack), "trial": trial, "candidate": candidate})
    return rows


def _name(run: Run, attack: Run) -> str:
    return THIS_RUN if attack is run else attack.name


def _cell(value: object) -> object:
    """A cell that a spreadsheet does not take for a formula; what is not known is empty."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return f"'{value}"
    return "" if value is None else value
