"""``python -m benchmarks.table1 runs/elbaz-table1 ...``: Table 1 of Elbaz et al. 2024 from series that have been run.

Two Markdown tables, one for each scaling: mean DSSIM over targets with its deviation, what held-out samples score in
brackets, and the published figure beside it. Cells that have not been run yet are left empty.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

METHODS = {
    "activation": "activation",
    "kkt": "KKT",
    "same_gd": "SAME-GD",
    "dip": "deep image prior",
    "": "KKT, candidates that are images",
}
"""The attack of every member has no name; the others are its baselines."""

PUBLISHED = {
    ("mnist", "flip", 50): (0.482, 0.464, 0.429, 0.285),
    ("mnist", "flip", 100): (0.484, 0.467, 0.450, 0.271),
    ("cifar10", "flip", 50): (0.446, 0.346, 0.369, None),
    ("cifar10", "flip", 100): (0.463, 0.371, 0.370, None),
    ("mnist", "d4", 50): (0.490, 0.471, 0.465, 0.314),
    ("mnist", "d4", 100): (0.494, 0.471, 0.469, 0.323),
}
"""By data, group and n: the columns of Table 1, with the minimum-to-maximum stretch and window 3."""

Members = Sequence[Mapping[str, Any]]


def cells(members: Members) -> dict[tuple[str, str, int], list[Mapping[str, Any]]]:
    """Members of one cell, which differ in their seed."""
    grouped: dict[tuple[str, str, int], list[Mapping[str, Any]]] = {}
    for member in members:
        chosen = member["settings"]
        where = (chosen.get("data.name", "mnist"), chosen["model.group"], chosen["data.n"])
        grouped.setdefault(where, []).append(member)
    return grouped


def figure(members: Members, method: str, key: str) -> str:
    """Mean and deviation over the members that have it, and the mean of their null."""
    found = [member["baselines"].get(method, {}) if method else member for member in members]
    values = [own[key] for own in found if own.get(key) is not None]
    luck = [own[f"null_{key}"] for own in found if own.get(f"null_{key}") is not None]
    if not values:
        return ""
    deviation = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
    null = f" ({statistics.mean(luck):.3f})" if luck else ""
    return f"{statistics.mean(values):.3f}{deviation}{null}"


def table(members: Members, scaling: str, window: int) -> str:
    lines = [f"| data, group, n | {' | '.join(METHODS.values())} |", "|---|" + "---|" * len(METHODS)]
    for where, own in cells(members).items():
        published = (*PUBLISHED.get(where, (None,) * 4), None)
        row = [
            figure(own, method, f"mean_dssim_{scaling}_{window}")
            + (f", published {known:.3f}" if known is not None and (scaling, window) == ("stretch", 3) else "")
            for method, known in zip(METHODS, published, strict=True)
        ]
        lines.append(f"| {', '.join(map(str, where))} | {' | '.join(row)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("series", type=Path, nargs="+")
    records = [json.loads((path / "series.json").read_text(encoding="utf-8")) for path in parser.parse_args().series]
    members = [member for record in records for member in record["members"]]
    for scaling in ("stretch", "clamp"):
        for window in (3, 11):
            print(f"\n{scaling}, window {window}:\n\n{table(members, scaling, window)}")


if __name__ == "__main__":
    main()
