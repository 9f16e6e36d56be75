"""The candidates of all trials of a sweep together, as the papers judge them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from recollect.api import Reconstruction
from recollect.core import RecollectError
from recollect.runs import RunFolder
from recollect.sweep.record import Trial


def chosen_trials(trials: Sequence[Trial], keep: int | None = None) -> list[Trial]:
    """Trials that came to their end, all or those with the ``keep`` best scores, by number."""
    usable = [trial for trial in trials if trial.complete]
    best = sorted(usable, key=lambda trial: (trial.score, trial.number))[:keep]
    return sorted(best, key=lambda trial: trial.number)


def pooled(folder: RunFolder, chosen: Sequence[Trial]) -> Reconstruction:
    """What the chosen trials found, trial by trial, from the pieces that hold them."""
    if not chosen:
        raise RecollectError(
            "every trial of the sweep diverged or was pruned, so there are no candidates; start a sweep with smaller "
            "attack.search.lr_x and attack.search.lr_duals."
        )
    rows: dict[str, list[int]] = {}
    for trial in chosen:
        rows.setdefault(trial.piece, []).append(trial.number)
    found, labels = {}, torch.empty(0)
    for piece, numbers in rows.items():
        tensors = folder.read_tensors(piece, ["kept", "candidates", "labels"])
        labels = tensors["labels"]
        place = {number: row for row, number in enumerate(tensors["kept"].tolist())}
        for number in numbers:
            found[number] = {name: tensors[name][place[number]] for name in ("candidates", "duals") if name in tensors}
    together = [found[trial.number] for trial in chosen]
    duals = [own["duals"] for own in together if "duals" in own]
    return Reconstruction(
        candidates=torch.stack([own["candidates"] for own in together]),
        duals=torch.stack(duals) if duals else None,
        labels=labels,
        diverged=torch.zeros(len(chosen), dtype=torch.bool),
        stalled=torch.tensor([trial.stalled for trial in chosen]),
        terms={},
    )
