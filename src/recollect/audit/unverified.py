"""What an attacker without data would look at first: candidates ranked, small and repeated ones dropped."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from recollect.analysis import distil
from recollect.runs import RunFolder
from recollect.stages.run import Run

NEAR = 0.1
"""Candidates whose NCC is above 1 - this are one."""


def rank(run: Run) -> tuple[int, int]:
    """Write ``distilled.safetensors`` in the order to look at it; how many are left, of how many.

    A candidate's weight is its multiplier times the share of the first layer's norm that its trial explains. Small
    ones are those whose multiplier is no larger than the floor that the search itself held it up to. Of near-duplicates
    the one of largest weight stays; how often something recurs says nothing about it.
    """
    saved = run.folder.read_tensors("candidates.safetensors", ["candidates", "duals", "trial"])
    pool, duals, attack = saved["candidates"].flatten(0, 1), saved["duals"].flatten(), run.config.attack
    floors, explained = _trial_facts(run.folder, saved["trial"], saved["duals"].shape[1])
    floors = torch.zeros_like(floors) if attack.task == "regression" else floors  # which has none
    weight = torch.where(attack.sizes(duals) > floors, attack.sizes(duals) * explained, -1.0)
    kept = distil(pool.to(run.device), weight.to(run.device), 0.0, NEAR, "ncc").cpu()
    run.folder.write_tensors("distilled.safetensors", {"candidates": pool[kept], "duals": duals[kept]})
    run.folder.update_summary({"distilled": len(kept)})
    return len(kept), len(pool)


def _trial_facts(
    folder: RunFolder, numbers: Tensor, candidates: int
) -> tuple[Float[Tensor, " k"], Float[Tensor, " k"]]:
    """Of each candidate's trial: the multipliers' floor, and ``1 - residual`` of the first layer, at least 0."""
    lines = {line["number"]: line for line in folder.read_lines("trials.jsonl")}
    own = [lines[number] for number in numbers.tolist()]
    floors = torch.tensor([float(line["settings"]["dual_min"]) for line in own])
    explained = torch.tensor([max(0.0, 1.0 - float(line["score"])) for line in own])
    return floors.repeat_interleave(candidates), explained.repeat_interleave(candidates)
