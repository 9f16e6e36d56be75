"""``python -m benchmarks.kkt --device cuda``: the engine against the published loop, ratios measured in one run.

Three tables: published cases; growth with trials, candidates and width; memory with and without chunks. ``--json FILE``
writes the rows as well, ``--only "row space"`` leaves out cases that are not called so. Rates are achieved
matrix-product operations over the rate that a large product reaches on this machine, measured just before: in TF32 for
the engine's ``fp16`` too, so that its fraction can exceed 100%.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.cases import CASES, LARGE, PUBLISHED, ROW_FIRST, Case, more, wider
from benchmarks.measuring import Measured, measure_engine, measure_published, product_rate
from recollect.allocator import let_segments_grow
from recollect.problem import Precision


@dataclass(frozen=True)
class Row:
    table: str
    case: str
    who: str
    precision: str
    trials: int
    ms_per_step_per_trial: float
    ratio: float | None
    fraction_of_product_rate: float
    peak_bytes: int | None
    reserved_bytes: int | None
    estimated_bytes: int | None


@dataclass(frozen=True)
class Bench:
    device: torch.device
    rates: dict[str, float]
    only: Sequence[str] = ("",)
    """Parts of names: cases that have none of them are left out."""

    def row(
        self, table: str, case: Case, who: str, precision: str, trials: int, found: Measured, against: float | None
    ) -> Row:
        rate = self.rates["tf32" if precision == "fp16" else precision]
        return Row(
            table=table,
            case=case.name,
            who=who,
            precision=precision,
            trials=trials,
            ms_per_step_per_trial=1000 * found.seconds,
            ratio=None if against is None else against / found.seconds,
            fraction_of_product_rate=case.operations() / found.seconds / rate,
            peak_bytes=found.peak_bytes,
            reserved_bytes=found.reserved_bytes,
            estimated_bytes=found.estimated_bytes,
        )

    def engine(self, table: str, case: Case, precision: Precision, trials: int, against: float | None = None) -> Row:
        torch._dynamo.reset()
        found = measure_engine(case, precision, trials, self.device)
        return self.row(table, case, "engine", precision, trials, found, against)

    def cases(self, precisions: list[Precision], trials: list[int]) -> Iterator[Row]:
        """Every ratio is against the published loop in float64, measured in this run."""
        chosen = (case for case in CASES[self.device.type] if any(part in case.name for part in self.only))
        for case in chosen:
            double = measure_published(case, torch.float64, self.device)
            single = measure_published(case, torch.float32, self.device)
            yield self.row("cases", case, "published loop", "fp64", 1, double, double.seconds)
            yield self.row("cases", case, "published loop", "fp32", 1, single, double.seconds)
            for precision in precisions:
                for count in trials:
                    yield self.engine("cases", case, precision, count, double.seconds)

    def growth(self) -> Iterator[Row]:
        for count in (1, 2, 4, 8, 16, 32, 64):
            yield self.engine("growth", ROW_FIRST, "fp16", count)
        for case in (*map(more, (250, 1000, 4000)), *map(wider, (250, 1000, 4000))):
            yield self.engine("growth", case, "fp16", 8)

    def memory(self) -> Iterator[Row]:
        precisions: tuple[Precision, ...] = ("fp16", "tf32")
        for precision in precisions:
            yield self.engine("memory", PUBLISHED, precision, 8)
            for limit in (None, "4GiB", "3GiB"):
                torch._dynamo.reset()
                found = measure_engine(LARGE, precision, 1, self.device, limit)
                who = "engine, all at once" if limit is None else f"engine within {limit}"
                yield self.row("memory", LARGE, who, precision, 1, found, None)


def show(rows: list[Row], device: torch.device) -> None:
    name = torch.cuda.get_device_name() if device.type == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    columns = ("case", "who", "precision", "T", "ms per step and trial", "ratio", "of product rate", "peak", "estimate")
    table = Table(*columns, title=f"{name}, torch {torch.__version__}")
    for row in rows:
        ratio = "" if row.ratio is None else f"{row.ratio:.1f}x"
        speed = (f"{row.ms_per_step_per_trial:.4g}", ratio, f"{row.fraction_of_product_rate:.0%}")
        memory = [_gib(row.peak_bytes), _gib(row.estimated_bytes)]
        table.add_row(row.case, row.who, row.precision, str(row.trials), *speed, *memory)
    Console(width=150).print(table)


def _gib(count: int | None) -> str:
    return "" if count is None else f"{count / 2**30:.2f} GiB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--tables", nargs="+", choices=("cases", "growth", "memory"), help="all, where left out")
    parser.add_argument("--only", nargs="+", default=("",), help="published cases with one of these in their name")
    parser.add_argument("--json", type=Path, help="write the rows to this file as well, as they come")
    chosen = parser.parse_args()
    let_segments_grow()
    device, gpu = torch.device(chosen.device), chosen.device == "cuda"
    rates = {name: product_rate(name, device) for name in ("fp64", "fp32", *(["tf32"] if gpu else []))}
    bench = Bench(device, rates, chosen.only)
    tables = {
        "cases": lambda: bench.cases(["tf32", "fp16"], [1, 32]) if gpu else bench.cases(["fp32"], [1, 2]),
        "growth": lambda: bench.growth() if gpu else iter(()),
        "memory": lambda: bench.memory() if gpu else iter(()),
    }
    rows: list[Row] = []
    for name in chosen.tables or tables:
        for row in tables[name]():
            rows.append(row)
            if chosen.json is not None:
                chosen.json.write_text(json.dumps([asdict(row) for row in rows], indent=2), encoding="utf-8")
    show(rows, device)


if __name__ == "__main__":
    main()
