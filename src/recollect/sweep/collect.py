"""The candidates of all trials of a sweep together, as the papers judge them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from recollect.api import Reconstruction
from recollect.core import RecollectError
from recollect.runs import RunFolder
from recollect.sweep.record import Trial


def chosen_trials(trials: Sequence[Trial], keep: int | None = None) -> list[Trial]:
    """Trials that did not diverge, all or those with the ``keep`` best scores, by number."""
    usable = [trial for trial in trials if not trial.diverged]
    best = sorted(usable, key=lambda trial: (trial.score, trial.number))[:keep]
    return sorted(best, key=lambda trial: trial.number)


def pooled(folder: RunFolder, chosen: Sequence[Trial]) -> Reconstruction:
    """What the chosen trials found, trial by trial, from the pieces that hold them."""
    if not chosen:
        raise RecollectError(
            "every trial of the sweep diverged, so there are no candidates; start a sweep with smaller "
            "attack.search.lr_x and attack.search.lr_duals."
        )
    rows: dict[str, list[Trial]] = {}
    for trial in chosen:
        rows.setdefault(trial.piece, []).append(trial)
    found = []
    for piece, own in rows.items():
        tensors = folder.read_tensors(piece, ["number", "candidates", "labels"])
        place = {number: row for row, number in enumerate(tensors["number"].tolist())}
        index = torch.tensor([place[trial.number] for trial in own])
        found.append({name: value if name == "labels" else value[index] for name, value in tensors.items()})
    together = {name: torch.cat([part[name] for part in found]) for name in ("candidates", "duals") if name in found[0]}
    return Reconstruction(
        candidates=together["candidates"],
        duals=together.get("duals"),
        labels=found[0]["labels"],
        diverged=torch.zeros(len(chosen), dtype=torch.bool),
        stalled=torch.tensor([trial.stalled for trial in chosen]),
        terms={},
    )
