"""A sweep that is killed at random moments and gone on with: the same trials finish as without a kill, none twice.

python -m benchmarks.killed_sweeps --kills 10
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file

SMALL = (
    *("--preset", "demo", "--set", "data.n=4", "--set", "data.holdout_count=20", "--set", "model.hidden=[16, 16]"),
    *("--set", "training.epochs=60", "--set", "attack.candidates=8", "--set", "attack.steps=1000"),
    *("--set", "baselines={}", "--json"),
)
"""Seconds long on a laptop."""


def sweep(words: Sequence[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "recollect", "sweep", *words],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def whole(words: Sequence[str], run: Path) -> float:
    """Without a kill; how long it worked, from the lock on its folder to the end."""
    finish([*words, "--out", str(run)])
    return time.time() - begun(run)


def begun(run: Path) -> float:
    """When a process last began to work on the folder; 0 before the first."""
    lock = run / ".lock"
    return lock.stat().st_mtime if lock.exists() else 0.0


def finish(words: Sequence[str]) -> None:
    running = sweep(words)
    _, err = running.communicate()
    if running.returncode != 0:
        raise RuntimeError(err.decode())


def killed(words: Sequence[str], run: Path, kills: int, moments: random.Random, seconds: float) -> list[list[int]]:
    """Killed so many times, each time at a random moment of its work; what had finished at each kill."""
    seen, next_words = [], [*words, "--out", str(run)]
    for _ in range(kills):
        before, running = begun(run), sweep(next_words)
        while begun(run) == before and running.poll() is None:  # Python takes seconds to start, which is no moment
            time.sleep(0.01)
        time.sleep(moments.uniform(0, seconds))
        running.send_signal(signal.SIGKILL)
        running.communicate()
        if (run / "status.json").exists() and (run / "config.toml").exists():
            next_words = ["--resume", str(run), "--json"]
        seen.append(saved(run))
    finish(next_words)
    return seen


def saved(run: Path) -> list[int]:
    """Numbers of the trials in all pieces: one that ran twice would be listed twice."""
    pieces = (run / "trials").glob("[0-9]*.safetensors")
    return sorted(number for piece in pieces for number in load_file(piece)["number"].tolist())


def same_result(run: Path, other: Path) -> bool:
    """Whether both pooled the same candidates, bit for bit."""
    found, expected = (load_file(folder / "candidates.safetensors") for folder in (run, other))
    return found.keys() == expected.keys() and all(torch.equal(found[name], expected[name]) for name in expected)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--trials", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    for sampler, pruning in (("random", "none"), ("tpe", "none"), ("random", "halving"), ("tpe", "halving")):
        words = [*SMALL, "--trials", str(asked.trials), "--batch", "4", "--sampler", sampler, "--pruning", pruning]
        with tempfile.TemporaryDirectory() as folder:
            reference, run = Path(folder, "whole"), Path(folder, "killed")
            seconds = whole(words, reference)
            # Together about as long as it takes without a kill, so that all kills fall into the work.
            seen = killed(words, run, asked.kills, random.Random(asked.seed), 2 * seconds / asked.kills)
            result = {
                "sampler": sampler,
                "pruning": pruning,
                "kills": asked.kills,
                "finished_at_kills": [len(numbers) for numbers in seen],
                "every_trial_once": saved(run) == list(range(asked.trials)),
                "same_candidates": same_result(run, reference),
            }
            print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
