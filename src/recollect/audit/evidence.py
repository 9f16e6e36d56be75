"""What each attack scored on training samples and on held-out ones, by a score that no other sample can change.

A sample's score is its NCC with the average of the candidates nearest to it, whomever else these serve. So it depends
on the candidates and on that sample alone, not on how many samples there are: were the network independent of the
training samples, all scores would be exchangeable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from recollect.analysis import MatchRule, candidate_pool, match
from recollect.config import Config
from recollect.data import TaskData
from recollect.runs import RunFolder
from recollect.stages.judging import Restored, judge_run
from recollect.stages.run import Run
from recollect.symmetries import chosen_group


@dataclass(frozen=True)
class Evidence:
    """One attack; ``places`` says which candidate of which trial is nearest to each training sample."""

    name: str
    method: str
    folder: str
    seconds: float
    candidates: int
    members: Float[Tensor, " n"]
    null: Float[Tensor, " k"]
    places: tuple[list[int] | None, ...]


def attack_folders(run: Run) -> dict[str, str]:
    """Where each attack that was run left its candidates, by name, the main one first."""
    found = {run.config.attack.method: "."}
    for name in run.config.baselines:
        folder = run.folder.subfolder(f"baselines/{name}")
        if folder.has("candidates.safetensors"):
            found[name] = f"baselines/{name}"
    return found


def gather(run: Run, net: nn.Module, data: TaskData, heldout: TaskData, restored: Restored) -> list[Evidence]:
    """Match every attack's candidates; ``matches.json`` and the pairs for the report are written on the way.

    Candidates are what the network sees, ``restored`` makes samples of them.
    """
    found = []
    for name, place in attack_folders(run).items():
        folder = run.folder.subfolder(place)
        judge_run(folder, run.config, net, data, heldout, run.device, restored)
        rows = folder.read_json("matches.json")["samples"]
        saved = folder.read_tensors("candidates.safetensors", ["candidates"])["candidates"]
        summary = folder.read_json("summary.json")
        found.append(
            Evidence(
                name=name,
                method=str(summary.get("method", name)),
                folder=place,
                seconds=float(summary.get("seconds") or 0.0),
                candidates=saved.shape[0] * saved.shape[1],
                members=torch.tensor([row["ncc"] for row in rows], dtype=torch.float64),
                null=_null(run.config, net, restored(saved.flatten(0, 1)), heldout, run.device),
                places=tuple(row["candidate"] for row in rows),
            )
        )
    return found


def _null(
    config: Config, net: nn.Module, pool: Float[Tensor, "k ..."], heldout: TaskData, device: torch.device
) -> Float[Tensor, " k"]:
    """Scores of all held-out samples, by the rule that training samples were matched by."""
    group = chosen_group(config.match.group, net, tuple(heldout.x.shape[1:]))
    rule = MatchRule(
        vote_ratio=config.match.vote_ratio, each_candidate_once=False, group=None if group.trivial else group
    )
    prepared = candidate_pool(pool.to(device), rule)
    return match(prepared, heldout.x.to(device), heldout.mean.to(device), rule).ncc.double().cpu()


def write_back(folder: RunFolder, evidence: Evidence, threshold: float, figures: dict[str, Any]) -> None:
    """The attack's own files say what the audit says: the same threshold, null and count."""
    matches = folder.read_json("matches.json")
    for row, score in zip(matches["samples"], evidence.members.tolist(), strict=True):
        row["recovered"] = score > threshold
    matches |= {"threshold": threshold, "null": {"ncc": evidence.null.tolist(), "ssim": None}}
    folder.write_json("matches.json", matches)
    folder.update_summary(figures)
