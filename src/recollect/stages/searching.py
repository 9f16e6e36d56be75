"""The stage that searches: one attack on one network, into one run folder."""

from __future__ import annotations

import time

import torch
from torch import Tensor

from recollect import __version__
from recollect.api import Reconstruction, as_reconstruction, weight_rows
from recollect.build import build_problems
from recollect.callbacks import CHECKPOINT, Checkpoint, Trace, read_checkpoint
from recollect.candidates import RowSpace
from recollect.config import AttackConfig, to_toml
from recollect.problem import Precision
from recollect.progress import SearchBar
from recollect.runs import RunFolder
from recollect.solve import solve
from recollect.stages.run import Run


def attack_stage(run: Run) -> None:
    _attack(run, run.config.attack, run.folder, "candidates")


def baselines_stage(run: Run) -> None:
    """Every other attack that the configuration asks for, each in a run folder of its own inside this one."""
    for name, attack in run.config.baselines.items():
        folder = run.folder.subfolder(f"baselines/{name}")
        if not folder.has("status.json"):
            folder = RunFolder.create(folder.path, name, ("attack", "match"))
        if folder.stages["attack"] != "done":
            alone = run.config.model_copy(update={"attack": attack, "baselines": {}})
            folder.write_text("config.toml", to_toml(alone))
            _attack(run, attack, folder, f"baseline {name}")
            folder.set_stage("attack", "done")


def _attack(run: Run, attack: AttackConfig, folder: RunFolder, what: str) -> None:
    net, sample_shape = run.network()
    started = time.monotonic()
    if attack.method == "weights":
        found = weight_rows(net, sample_shape)
        _save(run, attack, folder, found, None, time.monotonic() - started)
        return
    parts = build_problems(net, sample_shape, attack, run.config.seed, run.devices)
    state = read_checkpoint(folder, parts)
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
        callbacks.append(Checkpoint(folder, often, run.config.checkpoint_seconds))
        before = torch.cat([part.candidates.decode(part.candidates.init(part.rng)).cpu() for part in parts])
        state = solve(parts, callbacks, state)
    _save(run, attack, folder, as_reconstruction(parts, state), before, time.monotonic() - started)
    if isinstance(parts[0].candidates, RowSpace):
        folder.update_summary({"row_space_rank": parts[0].candidates.basis.shape[1]})
    folder.remove(CHECKPOINT)


def _save(
    run: Run,
    attack: AttackConfig,
    folder: RunFolder,
    found: Reconstruction,
    before: Tensor | None,
    seconds: float,
) -> None:
    tensors = {
        "candidates": found.candidates.float(),
        "labels": found.labels,
        "diverged": found.diverged.byte(),
    }
    if found.duals is not None:
        tensors["duals"] = found.duals.float()
    if before is not None and before[0, 0].numel() == 2:
        tensors["start"] = before.float()  # so small that the figure of the 2-D experiment may have it
    folder.write_tensors("candidates.safetensors", tensors)
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
        },
    )


def _effective(precision: Precision, device: torch.device) -> Precision:
    # Only GPUs have fast products of lower precision; elsewhere they are taken in float32.
    return "fp32" if precision in ("fp16", "tf32") and device.type == "cpu" else precision


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)
