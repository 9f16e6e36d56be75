"""The stage that searches: one attack on one network, into one run folder."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from recollect import __version__
from recollect.api import Reconstruction, as_reconstruction, weight_rows
from recollect.build import build_problems, why_no_rows
from recollect.callbacks import CHECKPOINT, Checkpoint, Trace, read_checkpoint
from recollect.candidates import RowSpace
from recollect.config import AttackConfig, to_toml
from recollect.datasets import mean_for
from recollect.given import Given
from recollect.problem import Precision, Problem
from recollect.progress import SearchBar
from recollect.runs import RunFolder
from recollect.sharing import shared
from recollect.solve import solve
from recollect.stages.following import search_task
from recollect.stages.run import Run
from recollect.team import searching_together


def attack_stage(run: Run) -> None:
    _attack(run, run.config.attack, run.folder, "candidates")


def baselines_stage(run: Run) -> None:
    """Every other attack that the configuration asks for, each in a run folder of its own inside this one."""
    for name, attack in run.config.baselines.items():
        folder = run.folder.subfolder(f"baselines/{name}")
        if not folder.has("status.json"):
            folder = RunFolder.create(folder.path, name, ("attack", "match"))
        if folder.stages["attack"] not in ("done", "skipped"):
            alone = run.config.model_copy(update={"attack": attack, "baselines": {}})
            folder.write_text("config.toml", to_toml(alone))
            folder.set_stage("attack", _baseline(run, attack, folder, name))


def _baseline(run: Run, attack: AttackConfig, folder: RunFolder, name: str) -> str:
    """How it ended: a baseline that does not suit the network is skipped, and says why."""
    reason = None if attack.method != "weights" else why_no_rows(*run.network())
    if reason is None:
        _attack(run, attack, folder, f"baseline {name}")
        return "done"
    run.narrator.say(f"Baseline {name} skipped: {reason}")
    folder.write_json("summary.json", {"method": attack.method, "verdict": f"Skipped: {reason}"})
    return "skipped"


def _attack(run: Run, attack: AttackConfig, folder: RunFolder, what: str) -> None:
    net, sample_shape = run.network()
    started = time.monotonic()
    for device in _gpus(run):
        torch.cuda.reset_peak_memory_stats(device)
    if attack.method == "weights":
        found = weight_rows(net, sample_shape)
        save_found(run, attack, folder, found, {}, time.monotonic() - started)
        return
    given = Given(mean=mean_for(run.config, attack))
    parts = build_problems(net, sample_shape, attack, run.config.seed, run.devices, given=given)
    # A process of a team holds a part of the candidates only: its state would be no checkpoint of the search.
    state = None if shared() else read_checkpoint(folder, parts)
    done = 0 if state is None else int(state.step)
    kept = folder.keep_lines("trace.jsonl", "step", done)
    started -= kept[-1].get("seconds", 0.0) if kept else 0.0  # time spent before the interruption counts too
    trials = len(attack.trials)
    where = run.config.device if len(run.devices) > 1 else run.device
    settings = "1 trial" if trials == 1 else f"{trials} trials"
    run.narrator.say(
        f"Searching for {what} by {attack.method}: {settings} of {attack.candidates} candidates, "
        f"{attack.steps} steps ({where}, {_effective(attack.precision, run.device)})"
    )
    with run.narrator.bar("searching", attack.steps, done) as advance:
        often, seldom = max(1, attack.steps // 500), max(1, attack.steps // 200)
        callbacks = [SearchBar(advance, seldom), Trace(folder, seldom, started)]
        if not shared():
            callbacks.append(Checkpoint(folder, often, run.config.checkpoint_seconds))
        with searching_together(search_task(run.config, attack, run.folder.path, seldom)):
            found = as_reconstruction(parts, solve(parts, callbacks, state))
    save_found(run, attack, folder, found, _start_of_points(parts), time.monotonic() - started)
    if isinstance(parts[0].candidates, RowSpace):
        folder.update_summary({"row_space_rank": parts[0].candidates.basis.shape[1]})
    folder.remove(CHECKPOINT)


def save_found(
    run: Run,
    attack: AttackConfig,
    folder: RunFolder,
    found: Reconstruction,
    beside: Mapping[str, Tensor],
    seconds: float,
) -> None:
    """``candidates.safetensors``, with what else there is to say of them, and the first figures of the summary."""
    tensors = {
        "candidates": found.candidates.float(),
        "labels": found.labels,
        "diverged": found.diverged.byte(),
    }
    if found.duals is not None:
        tensors["duals"] = found.duals.float()
    folder.write_tensors("candidates.safetensors", tensors | dict(beside))
    trials, m = found.candidates.shape[:2]
    steps = 0 if attack.method == "weights" else attack.steps
    folder.write_json(
        "summary.json",
        {
            "command": run.command,
            "version": __version__,
            "torch": torch.__version__,
            "device": _device_name(run.device),
            "dtype": _effective(attack.precision, run.device),
            "method": attack.method,
            "seed": run.config.seed,
            "trials": trials,
            "diverged_trials": int(found.diverged.sum()),
            "stalled_trials": int(found.stalled.sum()),
            "candidates": m,
            "steps": steps,
            "seconds": seconds,
            "ms_per_step_per_trial": 1000 * seconds / (steps * trials) if steps else None,
            "peak_memory_bytes": max(map(torch.cuda.max_memory_allocated, _gpus(run)), default=None),
        },
    )


def _start_of_points(parts: Sequence[Problem]) -> dict[str, Tensor]:
    """Where points in the plane started, for the figure of the 2-D experiment; images are too many numbers to keep."""
    candidates = [part.candidates for part in parts]
    if shared() or math.prod(parts[0].target.sample_shape) != 2:
        return {}
    starts = [own.decode(own.init(part.rng)).cpu() for own, part in zip(candidates, parts, strict=True)]
    return {"start": torch.cat(starts).float()}


def _gpus(run: Run) -> list[torch.device]:
    return [device for device in run.devices if device.type == "cuda"]


def _effective(precision: Precision, device: torch.device) -> Precision:
    # Only GPUs have fast products of lower precision; elsewhere they are taken in float32.
    return "fp32" if precision in ("fp16", "tf32") and device.type == "cpu" else precision


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)
