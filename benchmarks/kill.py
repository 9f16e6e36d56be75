"""``python -m benchmarks.kill --times 50``: a small demo killed (SIGKILL) at random moments and gone on with.

Every run must end with the bytes that a run never killed ends with: candidates, those of the baseline, and weights. A
kill before anything was computed may ask to start anew; nothing is lost by that. Processes are forked from one that has
imported everything, so that the moments fall on work and not on imports.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random

import torch

from recollect.cli import main as recollect

SETTINGS = {
    "data.n": "4",
    "data.holdout_count": "20",
    "model.hidden": "[16, 16]",
    "training.batch_size": "3",
    "attack.candidates": "8",
    "attack.trials": "[{lr_x = 0.6, lr_duals = 0.01, init_scale = 0.01}]",
    "baselines": '{other = {method = "activation", candidates = 6, steps = 600}}',
    "checkpoint_seconds": "0",
}
RESULTS = ("candidates.safetensors", "baselines/other/candidates.safetensors", "model/weights.safetensors")
NOTHING_YET = ("is no run folder", "nothing was begun there")


def start(errors: Path, *words: str | Path) -> int:
    """``recollect`` in a process of its own; what it says on stderr goes to a file."""
    process = os.fork()
    if process:
        return process
    with errors.open("w") as told, open(os.devnull, "w") as nowhere:
        os.dup2(told.fileno(), 2)
        os.dup2(nowhere.fileno(), 1)
        sys.argv = ["recollect", *(str(word) for word in words)]
        code = 1
        try:
            recollect()
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 0
        finally:
            os._exit(code)


def finish(errors: Path, *words: str | Path) -> tuple[int, str]:
    code = os.waitstatus_to_exitcode(os.waitpid(start(errors, *words), 0)[1])
    return code, errors.read_text()


def options(steps: int) -> list[str]:
    settings = SETTINGS | {"attack.steps": str(steps), "training.epochs": str(steps)}
    return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]


def kill_after(seconds: float, out: Path, errors: Path, chosen: list[str]) -> str:
    """Start the demo, kill it after so long, and tell where it stood."""
    process = start(errors, "demo", *chosen, "--out", out, "--json")
    time.sleep(seconds)
    os.kill(process, signal.SIGKILL)
    if os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) != -signal.SIGKILL:
        return "finished"
    if not (out / "status.json").exists():
        return "before the start"
    stages = json.loads((out / "status.json").read_text())["stages"]
    return next((stage for stage, state in stages.items() if state != "done"), "after the end")


def go_on(out: Path, errors: Path, chosen: list[str]) -> tuple[bool, str]:
    """Whether the run was resumed rather than started anew, and what went wrong, if anything did."""
    code, said = finish(errors, "demo", "--resume", out, "--json")
    again = code != 2 or not any(words in said for words in NOTHING_YET)
    if not again:
        code, said = finish(errors, "demo", *chosen, "--out", out, "--overwrite", "--json")
    return again, "" if code == 0 else said or f"exit code {code}"


def differing(out: Path, reference: Path) -> list[str]:
    """Results whose bytes are not those of the reference, and files that a kill left behind."""
    changed = [name for name in RESULTS if (out / name).read_bytes() != (reference / name).read_bytes()]
    names = [{str(path.relative_to(folder)) for path in folder.rglob("*")} for folder in (out, reference)]
    return changed + sorted(names[0] ^ names[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=800, help="of the attack, and epochs of training")
    given = parser.parse_args()
    chosen = options(given.steps)
    torch.set_num_threads(1)
    rng, stages, bad, resumed = Random(given.seed), Counter[str](), 0, 0
    with tempfile.TemporaryDirectory() as place:
        reference, errors = Path(place) / "reference", Path(place) / "errors"
        begun = time.monotonic()
        code, said = finish(errors, "demo", *chosen, "--out", reference, "--json")
        whole = time.monotonic() - begun
        assert code == 0, said
        print(f"a run that is left alone takes {whole:.1f} s", flush=True)
        for number in range(given.times):
            out = Path(place) / f"run{number}"
            seconds = rng.uniform(0, 1) * whole
            stage = kill_after(seconds, out, errors, chosen)
            stages[stage] += 1
            again, trouble = go_on(out, errors, chosen)
            resumed += again
            wrong = [trouble] if trouble else differing(out, reference)
            bad += bool(wrong)
            print(f"{number:3} killed after {seconds:5.2f} s ({stage}): {wrong or 'same results'}", flush=True)
    print(f"{given.times} kills, {resumed} resumed, {bad} with other results; killed in {dict(stages)}")
    raise SystemExit(bool(bad))


if __name__ == "__main__":
    main()
