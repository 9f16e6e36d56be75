"""``python -m benchmarks.table1 runs/elbaz-table1 ...``: Table 1 of Elbaz et al. 2024 from series that have been run.

Four Markdown tables, one for each scaling and window: mean DSSIM over five reconstructions of one target with their
deviation, what held-out samples score in brackets, and the published figure beside it. What has not been run yet is
left empty.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

METHODS = {
    "activation": "activation",
    "kkt": "KKT",
    "kkt_adam": "KKT by Adam",
    "smooth": "the same, smooth",
    "unfolded": "KKT by Adam inside the average",
    "same_gd": "SAME-GD",
    "dip": "deep image prior",
    "": "KKT, candidates that are images",
}
"""The attack of every member has no name; the others are its baselines."""

PUBLISHED_METHODS = ("activation", "kkt", "same_gd", "dip")
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


def figure(member: Mapping[str, Any], method: str, key: str) -> str:
    """Mean and deviation over the seeds of a cell, each trial judged by itself, and the mean of their null."""
    found = member["baselines"].get(method, {}) if method else member
    each = found.get("each_trial") or {"mean": {}, "deviation": {}}
    if key not in each["mean"]:
        return ""
    spread, luck = each["deviation"].get(key), each["mean"].get(f"null_{key}")
    deviation = "" if spread is None else f" ± {spread:.3f}"
    return f"{each['mean'][key]:.3f}{deviation}" + ("" if luck is None else f" ({luck:.3f})")


def table(members: Members, scaling: str, window: int) -> str:
    lines = [f"| data, group, n | {' | '.join(METHODS.values())} |", "|---|" + "---|" * len(METHODS)]
    for member in members:
        chosen = member["settings"]
        where = (chosen.get("data.name", "mnist"), chosen["model.group"], chosen["data.n"])
        published = dict(zip(PUBLISHED_METHODS, PUBLISHED.get(where, ()), strict=False))
        row = []
        for method in METHODS:
            known = published.get(method) if (scaling, window) == ("stretch", 3) else None
            beside = "" if known is None else f", published {known:.3f}"
            row.append(figure(member, method, f"mean_dssim_{scaling}_{window}") + beside)
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
