"""Judges generated images, those of every attack of a run by the same classifiers.

Writes ``generated.json``, with every number for each generator, and ``generated.safetensors``, images of every class.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from recollect.analysis.membership import nearest_row
from recollect.config import AttackConfig
from recollect.data import TaskData
from recollect.runs import RunFolder
from recollect.stages.generated_scores import Scene, Scores, membership, real_images, scores_of
from recollect.stages.independent import Panel, appointed
from recollect.stages.run import Run
from recollect.stages.verdict import verdict_beside_others

GENERATED, SHOWN = "generated.json", "generated.safetensors"
_COLUMNS = 6
"""Generated images of a class that are shown, of all generators together."""


def judge_all_generated(run: Run, training: TaskData | None) -> None:
    """Where one attack of the run is by a generator, all are judged as if they were; others make images too."""
    attacks = {run.folder: run.config.attack}
    attacks |= {run.folder.subfolder(f"baselines/{name}"): attack for name, attack in run.config.baselines.items()}
    if all(attack.method != "generator" for attack in attacks.values()):
        return
    run.narrator.say("Judging generated images")
    panel = Panel({}, None, None) if training is None else appointed(run.config, training, run.device, run.narrator.say)
    net, _ = run.network()
    net = net.to(run.device)
    for folder, attack in attacks.items():
        if attack.method != "weights":  # rows of a layer were asked for no class
            judge_generated(folder, Scene(net, _features(run, attack), training, panel), run.device)
            summary = folder.read_json("summary.json")
            folder.update_summary({"verdict": verdict_beside_others(summary, attack.method)})


def _features(run: Run, attack: AttackConfig) -> str | None:
    """The same layer for all attacks of a run."""
    return (attack if attack.method == "generator" else run.config.attack).generator.features


def judge_generated(folder: RunFolder, scene: Scene, device: torch.device) -> None:
    """Every generator of a run folder on its own, then all of them together."""
    saved = folder.read_tensors("candidates.safetensors", ["candidates", "labels", "diverged"])
    mean = 0 if scene.training is None else scene.training.mean.to(device)
    sets = (saved["candidates"][saved["diverged"] == 0].to(device) + mean).clamp(0, 1)
    labels = saved["labels"].to(device)
    each = [scores_of(images, labels, scene) for images in sets]
    beside = real_images(scene, len(labels), device)
    pooled = membership(sets.flatten(0, 1), scene) if len(sets) else {}
    average, spread = averages(each), deviations(each)
    record = {"images": len(labels), "generators": each, "mean": average, "deviation": spread}
    folder.write_json(GENERATED, record | {"pooled": pooled, "references": beside})
    if len(sets):
        _write_shown(folder, sets, labels, scene)
    flat = average | {f"{name}_deviation": value for name, value in spread.items()}
    folder.update_summary(flat | pooled | beside | {"generators": len(each)})


def averages(each: Sequence[Scores]) -> Scores:
    return {name: float(values.mean()) for name, values in _columns(each).items()}


def deviations(each: Sequence[Scores]) -> Scores:
    """Standard deviation over generators; of a single one there is none."""
    return {name: float(values.std()) if len(values) > 1 else None for name, values in _columns(each).items()}


def _columns(each: Sequence[Scores]) -> dict[str, Tensor]:
    names = each[0] if each else ()
    return {name: torch.tensor([scores[name] for scores in each], dtype=torch.float64) for name in names}


def class_rows(
    sets: Float[Tensor, "T m ..."], labels: Int[Tensor, " m"], columns: int = _COLUMNS
) -> Float[Tensor, "C k ..."]:
    """The first images of every class, none chosen, as many from each generator as fit in so many columns."""
    classes, sets = labels.unique(), sets[:columns]
    count = min(columns // len(sets), int(torch.bincount(labels)[classes].min()))
    rows = torch.stack([(labels == label).nonzero().flatten()[:count] for label in classes])
    return torch.cat([own[rows] for own in sets], dim=1)


def _write_shown(folder: RunFolder, sets: Float[Tensor, "T m ..."], labels: Int[Tensor, " m"], scene: Scene) -> None:
    """Some images of every class, each with the training image that it is most like."""
    images = class_rows(sets, labels)
    shown = {"images": images.float().cpu(), "labels": labels.unique().cpu()}
    if scene.training is not None:
        training = scene.training.images.to(images)
        nearest = training[nearest_row(images.flatten(0, 1), training)].unflatten(0, images.shape[:2])
        shown["nearest"] = nearest.float().cpu()
    folder.write_tensors(SHOWN, shown)
