"""What a command prints on stdout when it has ended: a few words, or JSON."""

from __future__ import annotations

import json

from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from recollect.config import Config
from recollect.dry_run import describe
from recollect.report.series_tables import listing, series_verdict
from recollect.series.cost import describe_series
from recollect.series.running import Series
from recollect.stages.run import Run

_NAME = 26
"""Characters for the name of a member of a series."""


def show_experiment(experiment: Run | Series, as_json: bool) -> None:
    if isinstance(experiment, Series):
        return _show_series(experiment, as_json)
    return _show_run(experiment, as_json)


def _show_series(series: Series, as_json: bool) -> None:
    record = series.folder.read_json("series.json")
    if as_json:
        return print(json.dumps(record))
    console = Console(highlight=False)
    headings, *rows = _that_fit(listing(record, brief=True), console.width)
    table = Table(*(Column(heading, no_wrap=place > 0) for place, heading in enumerate(headings)), box=None)
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    console.print(f"\n{series_verdict(record)}", markup=False, soft_wrap=True)
    console.print(table)
    return console.print(f"Look at {series.folder.path / 'report.html'}", markup=False, soft_wrap=True)


def _that_fit(lines: list[list[str]], width: int) -> list[list[str]]:
    """As many columns as leave the first one, the only one that is wrapped, room to be read.

    >>> _that_fit([["member", "recovered", "time"], ["group flip, n 50", "27/50 (15/1600)", "282 s"]], 40)
    [['member', 'recovered'], ['group flip, n 50', '27/50 (15/1600)']]
    """
    widths = [max(map(len, column)) + 2 for column in zip(*lines, strict=True)]
    widths[0] = min(widths[0], _NAME)
    kept = len(widths)
    while kept > 2 and sum(widths[:kept]) > width:
        kept -= 1
    return [line[:kept] for line in lines]


def _show_run(run: Run, as_json: bool) -> None:
    if "attack" not in run.folder.stages:
        return _show_training(run, as_json)
    summary = run.folder.read_json("summary.json")
    if as_json:
        return print(json.dumps(summary))
    console = Console(highlight=False)
    console.print(f"\n{summary['verdict']}", markup=False, soft_wrap=True)
    for name in run.config.baselines:
        baseline = run.folder.subfolder(f"baselines/{name}").read_json("summary.json")
        console.print(f"Baseline {name}: {baseline['verdict']}", markup=False, soft_wrap=True)
    picture = "grid.png" if run.folder.has("grid.png") else "figures/circle.png"
    shown = [name for name in ("report.html", picture) if run.folder.has(name)]
    return console.print(f"Look at {' and '.join(str(run.folder.path / name) for name in shown)}", markup=False)


def _show_training(run: Run, as_json: bool) -> None:
    facts = run.folder.subfolder("model").read_json("model.json")["training"]
    if as_json:
        return print(json.dumps(facts))
    return print(f"Network saved in {run.folder.path / 'model'}: training loss {facts['loss']:.2e}.")


def show_dry_run(config: Config, as_json: bool) -> None:
    described = describe_series(config) if config.series else describe(config)
    print(json.dumps(described.as_json()) if as_json else described.as_text())


def show_presets(known: dict[str, Config], as_json: bool) -> None:
    if as_json:
        return print(
            json.dumps({name: {"title": config.title, "paper": config.paper} for name, config in known.items()})
        )
    console = Console()
    wide = console.width >= 120
    table = Table(Column("preset", no_wrap=True), "what it shows", *(["paper"] * wide), box=None, pad_edge=False)
    for name, config in known.items():
        table.add_row(name, config.title, *([config.paper] * wide))
    return console.print(table)
