"""``recollect report``: the page of a run, or of two runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recollect import experiments
from recollect.cli_runs import command_line
from recollect.core import RecollectError
from recollect.progress import Narrator
from recollect.report import write_comparison, write_matches_parquet
from recollect.series.running import is_series


def report(
    run_folder: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    other: Annotated[
        Path | None, typer.Argument(metavar="[AFTER]", help="A second run on the same data: compare the two.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Where the comparison goes; by default AFTER/comparison.html.")
    ] = None,
    parquet: Annotated[bool, typer.Option("--parquet", help="Write RUN/matches.parquet too; needs polars.")] = False,
) -> None:
    """Write RUN/report.html and RUN/matches.csv anew; with a second run, a page that compares both."""
    if other is not None:
        if parquet:
            raise RecollectError("--parquet is for the page of one run; leave out the second folder.")
        return print(write_comparison(run_folder, other, out))
    if out is not None:
        raise RecollectError("--out is for the comparison of two runs; the page of one run is RUN/report.html.")
    run = experiments.resume(run_folder, Narrator(), command_line())
    if parquet and is_series(run_folder):
        raise RecollectError(f"'{run_folder}' holds a series, --parquet is for a single run; name one of its members.")
    experiments.report_again(run)
    print(run.folder.path / "report.html")
    return print(write_matches_parquet(run_folder)) if parquet else None
