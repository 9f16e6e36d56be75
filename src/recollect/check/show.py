"""Findings on stdout: rich text for people, JSON for machines."""

from __future__ import annotations

import json

from rich.console import Console
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from recollect.check.findings import LEVELS, Finding, Findings
from recollect.check.residual import Residual

_STYLES = {"ok": "green", "caution": "yellow", "obstacle": "red"}


def show_findings(found: Findings, as_json: bool) -> None:
    if as_json:
        return print(json.dumps(found.as_json(), allow_nan=False))
    console = Console(highlight=False)
    shape = "x".join(str(size) for size in found.sample_shape)
    count = len(found.layers)
    layers = "1 layer" if count == 1 else f"{count} layers"
    console.print(f"{found.parameters:,} parameters in {layers}, inputs {shape}\n", markup=False)
    console.print(_table(found.findings))
    if found.residual is not None:
        console.print(Padding(_residuals(found.residual), (1, 0, 0, 0)))
    meanings = "; ".join(f"{level}: {meaning}" for level, meaning in LEVELS.items())
    console.print(f"\n{meanings}.\n", markup=False, soft_wrap=True)
    return console.print(found.closing, markup=False, soft_wrap=True)


def _table(findings: tuple[Finding, ...]) -> Table:
    table = Table(Column(no_wrap=True), Column(no_wrap=True), "", box=None, pad_edge=False, show_header=False)
    for finding in findings:
        style = _STYLES[finding.level]
        table.add_row(Text(finding.level, style), Text(finding.topic), Text(finding.sentence))
    return table


def _residuals(residual: Residual) -> Table:
    """Of each layer at the multipliers that are best for all, and of the first at those best for it alone."""
    table = Table(
        Column("KKT residual, relative", no_wrap=True),
        Column("fitted together", justify="right"),
        Column("first layer alone", justify="right"),
        box=None,
        pad_edge=False,
    )
    together, alone = residual.all_layers, residual.first_layer
    for layer, value in together.per_layer.items():
        table.add_row(Text(layer or "network"), _number(value), _number(alone.per_layer.get(layer)))
    table.add_row("all layers", _number(together.relative), "")
    table.add_row(
        "multipliers", f"{together.positive} of {residual.samples}", f"{alone.positive} of {residual.samples}"
    )
    return table


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
