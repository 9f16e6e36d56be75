"""``python -m tests.fuzz.many --examples 12000``: damaged files by the thousand, and what they cost.

Prints for each loader how many were taken, refused with a sentence, or ended in anything else (which is a bug: the seed
is printed), the slowest, and how much the process grew. Then, in processes of their own, the memory that whole and
hostile weights files of 64 MiB take, as a multiple of the file.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from random import Random

import torch
from safetensors.torch import save_file
from tests.fuzz import seeds
from tests.fuzz.damage import damaged
from tests.fuzz.loaders import LOADERS, Loader, attempt

_LARGE = 64 * 2**20
_MEASURE = """
import sys
from pathlib import Path
from recollect.core import RecollectError
from recollect.networks import read_weights
def top():
    line = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024
for path in sys.argv[1:]:
    before = top()
    try:
        held = read_weights(Path(path))
        total = sum(float(value.float().sum()) for value in held.values())
    except RecollectError as error:
        held = str(error)
    print(top() - before)
"""


def _many(name: str, loader: Loader, examples: int, first: int) -> Counter[str]:
    counted: Counter[str] = Counter()
    slowest, whole = 0.0, loader.seeds()
    before = _peak()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        loader.prepare(folder)
        for seed in range(first, first + examples):
            rng = Random(seed)
            content = damaged(rng.choice(whole), rng)
            started = time.perf_counter()
            try:
                counted["refused" if attempt(loader, folder, content) else "taken"] += 1
            except BaseException:
                counted["traceback"] += 1
                print(f"{name}, seed {seed}:\n{traceback.format_exc(limit=-3)}")
            slowest = max(slowest, time.perf_counter() - started)
    counted["executed"] = int(seeds.CANARY.exists())
    print(
        f"{name:32} {counted['taken']:6} taken {counted['refused']:6} refused {counted['traceback']:4} tracebacks  "
        f"slowest {1000 * slowest:5.0f} ms  grew by {(_peak() - before) / 2**20:4.0f} MiB",
        flush=True,
    )
    return counted


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _memory() -> None:
    """Of a small file first, so that what is loaded once and for all is not counted."""
    with tempfile.TemporaryDirectory() as place:
        for kind in ("pt", "safetensors"):
            small, large = Path(place) / f"small.{kind}", Path(place) / f"large.{kind}"
            for path, count in ((small, 4), (large, _LARGE // 4 // 8)):
                state = {f"layer{index}.weight": torch.rand(count) for index in range(8)}
                torch.save(state, path) if kind == "pt" else save_file(state, path)
            spent = subprocess.run(
                [sys.executable, "-c", _MEASURE, str(small), str(large)], capture_output=True, text=True, check=True
            )
            print(f"{kind:12} 64 MiB of weights take {int(spent.stdout.split()[1]) / _LARGE:.2f} x the file")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--examples", type=int, default=12_000, help="files in all")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    given = parser.parse_args()
    torch.set_num_threads(1)
    share = -(-given.examples // len(LOADERS))
    total: Counter[str] = Counter()
    for name, loader in LOADERS.items():
        total += _many(name, loader, share, given.first)
    print(f"all: {total['taken']} taken, {total['refused']} refused, {total['traceback']} tracebacks, "
          f"{total['executed']} executed")  # fmt: skip
    _memory()
    raise SystemExit(bool(total["traceback"] or total["executed"]))


if __name__ == "__main__":
    main()
