"""``python -m benchmarks.results haim-cifar10 haim-mnist --set training.epochs=100000``: rows of docs/results/haim.md.

Runs each preset from training to report and prints one Markdown row for it, as soon as it is done.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any


def run(preset: str, settings: list[str], device: str, folder: Path) -> tuple[dict[str, Any], dict[str, Any], float]:
    """Summary of the run, how training ended, and seconds from start to end."""
    options = [part for setting in settings for part in ("--set", setting)]
    command = [sys.executable, "-m", "recollect", "reproduce", preset, "--device", device, "--json", "--overwrite"]
    started = time.monotonic()
    ended = subprocess.run([*command, "--out", str(folder), *options], stdout=subprocess.PIPE, text=True, check=True)
    seconds = time.monotonic() - started
    training = json.loads((folder / "model" / "model.json").read_text(encoding="utf-8"))["training"]
    return json.loads(ended.stdout), training, seconds


def row(preset: str, settings: list[str], found: dict[str, Any], training: dict[str, Any], seconds: float) -> str:
    n = found["reference_count"]
    cells = [
        " ".join([f"`{preset}", *(f"--set {setting}" for setting in settings)]) + "`",
        f"{training['loss']:.1e}",
        "" if training["test_error"] is None else f"{training['test_error']:.1%}",
        f"{found['good_ssim04']} of {n} ({found['null_good_ssim04']} of {found['null_count']})",
        "" if found["top10_ssim"] is None else f"{found['top10_ssim']:.3f}",
        f"{found['ncc80']} ({found['null_ncc80']})",
        f"{found['ncc90']} ({found['null_ncc90']})",
        f"{found['recovered']}",
        f"{seconds:.0f} s",
    ]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("presets", nargs="+")
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="KEY=VALUE")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, default=Path("runs"))
    chosen = parser.parse_args()
    for preset in chosen.presets:
        found = run(preset, chosen.settings, chosen.device, chosen.out / preset)
        print(row(preset, chosen.settings, *found), flush=True)


if __name__ == "__main__":
    main()
