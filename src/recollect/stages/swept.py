"""What a sweep leaves: the candidates of its trials together, merged, and the trial to believe."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from recollect.analysis.merging import merge
from recollect.api import Reconstruction
from recollect.groups import Group
from recollect.stages.run import Run
from recollect.stages.searching import save_found
from recollect.sweep.collect import chosen_trials, pooled
from recollect.sweep.record import Trial
from recollect.sweep.settings import SweepConfig
from recollect.symmetries import chosen_group

MERGED = "merged.safetensors"


def save_swept(run: Run, sweep: SweepConfig, trials: Sequence[Trial]) -> None:
    chosen = chosen_trials(trials, sweep.keep)
    found = pooled(run.folder, chosen)
    numbers = torch.tensor([trial.number for trial in chosen])
    seconds = sum(trial.seconds for trial in trials)
    save_found(run, run.config.attack, run.folder, found, {"trial": numbers}, seconds)
    group = chosen_group(run.config.match.group, *run.network()).to(found.candidates[:1].to(run.device))
    best = min(chosen, key=lambda trial: (trial.score, trial.number))
    run.folder.update_summary(
        {
            "trials": len(trials),
            "diverged_trials": sum(trial.diverged for trial in trials),
            "pruned_trials": sum(trial.pruned for trial in trials),
            "stalled_trials": sum(trial.stalled for trial in trials),
            "ms_per_step_per_trial": 1000 * seconds / max(1, sum(trial.steps for trial in trials)),
            "sampler": sweep.sampler,
            "pooled_trials": len(chosen),
            "trial_score": sweep.score,
            "best_trial": best.number,
            "best_trial_score": best.score,
            "merged": _write_merged(run, found, numbers, None if group.trivial else group),
        }
    )


def _write_merged(run: Run, found: Reconstruction, numbers: Tensor, group: Group | None) -> int:
    """``merged.safetensors``: one of all near-duplicates, with its trial and place, and who is a member of it."""
    T, m = found.candidates.shape[:2]
    duals = torch.ones(T, m) if found.duals is None else found.duals
    rule, pool = run.config.match, found.pool.to(run.device)
    sizes = run.config.attack.sizes(duals.flatten().to(run.device))
    merged = merge(pool, sizes, rule.distil_radius, rule.distance, group)
    kept = merged.kept.cpu()
    run.folder.write_tensors(
        MERGED,
        {
            "candidates": found.pool[kept],
            "duals": duals.flatten()[kept],
            "trial": numbers[kept // m],
            "position": kept % m,
            "member_of": merged.member_of.cpu().reshape(T, m),
        },
    )
    return len(kept)
