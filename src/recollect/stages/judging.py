"""The stages that judge: candidates against training and held-out samples, then the report.

Reads the run folder, adds ``matches.json``, ``pairs.safetensors``, ``distilled.safetensors`` and figures to
``summary.json``. Nothing here reaches back into the search.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn

from recollect.analysis import Judgement, MatchRule, distil, judge, scaled_reconstruction, summarise
from recollect.config import Config
from recollect.core import RecollectError
from recollect.data import TaskData
from recollect.datasets import heldout_data, training_data
from recollect.groups import Group
from recollect.outputs import sample_outputs
from recollect.report import write_report
from recollect.runs import RunFolder
from recollect.stages.each_trial import forget_each_trial, write_each_trial
from recollect.stages.generated import judge_all_generated
from recollect.stages.orbits import forget_orbitope, write_orbitope
from recollect.stages.run import Run
from recollect.stages.verdict import verdict
from recollect.symmetries import chosen_group

Restored = Callable[[Tensor], Tensor]


def match_stage(run: Run) -> None:
    """Judge the attack and every baseline; without reference data, rank what the attack found."""
    if run.config.data is None:
        _distil(run.folder, run.config)
        run.folder.update_summary({"verdict": verdict(run.folder.read_json("summary.json"))})
        judge_all_generated(run, None)
        return
    everything = training_data(run.config)
    heldout = heldout_data(run.config, everything)
    data = everything.rows(torch.arange(len(everything.x))[: run.config.match.most])
    luck = "no held-out samples" if heldout is None else f"{len(heldout.x)} held-out ones"
    run.narrator.say(f"Matching candidates with {len(data.x)} training samples and {luck}")
    net, _ = run.network()
    judge_run(run.folder, run.config, net, data, heldout, run.device)
    for name in run.config.baselines:
        folder = run.folder.subfolder(f"baselines/{name}")
        if not folder.has("candidates.safetensors"):  # skipped, or not yet done where a run was interrupted
            continue
        judge_run(folder, run.config, net, data, heldout, run.device)
        folder.set_stage("match", "done")
    judge_all_generated(run, everything)


def report_stage(run: Run) -> None:
    path = write_report(run.folder.path)
    run.narrator.say(f"Report written to {path}")


def rehearse_match(config: Config, net: nn.Module, data: TaskData, heldout: TaskData | None) -> None:
    """Judge a few samples as if they were candidates: what does not suit the data is said before anything is done."""
    some = torch.arange(4)
    few, group = data.rows(some[: len(data.x)]), chosen_group(config.match.group, net, tuple(data.x.shape[1:]))
    unseen = None if heldout is None else heldout.rows(some[: len(heldout.x)])
    judge_of(config, few, unseen, group, data.x.device)(few.x)


def judge_of(
    config: Config, data: TaskData, heldout: TaskData | None, group: Group, device: torch.device, variants: bool = True
) -> Callable[[Tensor], Judgement]:
    """From candidates to a judgement, by the rule of the configuration; ``variants`` as in `MatchRule`."""
    chosen = config.match
    seen = None if heldout is None else heldout.x.to(device)
    own = None if heldout is None or heldout.own_mean is None else heldout.own_mean.to(device)
    return partial(
        judge,
        x=data.x.to(device),
        mean=data.mean.to(device),
        holdout=seen,
        rule=match_rule(config, group, variants),
        score=chosen.score,
        quantile=chosen.quantile,
        holdout_mean=own,
    )


def judge_run(
    folder: RunFolder,
    config: Config,
    net: nn.Module,
    data: TaskData,
    heldout: TaskData | None,
    device: torch.device,
    restored: Restored = lambda candidates: candidates,
) -> None:
    """Match what a folder holds and write what comes of it; ``restored`` makes samples of inputs that are none."""
    each_trial = config.match.each_trial and config.sweep is None  # trials of sweeps are matched one by one anyway
    saved = folder.read_tensors("candidates.safetensors", ["candidates", *(["diverged"] if each_trial else [])])
    candidates = restored(saved["candidates"])
    if candidates.shape[2:] != data.x.shape[1:]:
        raise RecollectError(
            f"candidates in '{folder.path}' have shape {list(candidates.shape[2:])}, the reference data "
            f"{list(data.x.shape[1:])}; give the data this network was trained on."
        )
    pool = candidates.flatten(0, 1)
    # A sweep's file holds some of its trials, and says which.
    trials = saved.get("trial", torch.arange(len(candidates)))
    places = torch.cartesian_prod(trials, torch.arange(candidates.shape[1]))
    if config.match.score == "distance":
        kept = _distil(folder, config)
        # What is not finite is matched with nothing: so it is where every multiplier is too small.
        pool, places = (pool[kept], places[kept]) if len(kept) else (torch.full_like(pool[:1], torch.nan), places)
    group = chosen_group(config.match.group, net, tuple(data.x.shape[1:]))
    judged = judge_of(config, data, heldout, group, device)
    _write(folder, net, data, judged(pool.to(device)), places)
    if each_trial:
        write_each_trial(folder, candidates.to(device), saved["diverged"].bool(), judged)
    elif config.sweep is None:
        forget_each_trial(folder)
    if group.trivial:
        forget_orbitope(folder)
    else:
        write_orbitope(folder, pool.to(device), data.x.to(device), group, config.match.distance)


def _distil(folder: RunFolder, config: Config) -> Int[Tensor, " kept"]:
    """What someone without the data would keep: ranked by multiplier, small ones and near-duplicates dropped."""
    saved = folder.read_tensors("candidates.safetensors", ["candidates"])
    pool = saved["candidates"].flatten(0, 1)
    # Activation maximisation and weights have no multipliers: all count the same.
    duals = saved["duals"].flatten() if "duals" in saved else torch.full((len(pool),), torch.inf).nan_to_num()
    sizes = config.attack.sizes(duals)
    kept = distil(pool, sizes, config.match.distil_min_dual, config.match.distil_radius, config.match.distance)
    folder.write_tensors("distilled.safetensors", {"candidates": pool[kept], "duals": duals[kept]})
    folder.update_summary({"distilled": len(kept)})
    return kept


def _write(folder: RunFolder, net: nn.Module, data: TaskData, judgement: Judgement, places: Int[Tensor, "k 2"]) -> None:
    """``places`` are trial and number of each candidate that was matched."""
    matches = judgement.matches
    mean = data.mean.to(matches.reconstruction)
    points = matches.ssim is None
    shown = matches.reconstruction if points else scaled_reconstruction(matches, mean)
    folder.write_tensors("pairs.safetensors", {"reconstruction": shown.float(), "reference": data.images.float()})
    threshold = None if judgement.threshold is None else judgement.threshold.value
    null = {} if judgement.null is None else {"ncc": judgement.null.ncc, "ssim": judgement.null.ssim}
    outputs, meaning = sample_outputs(net, data)
    rows = _rows(outputs, data, judgement, places)
    facts = {"score": judgement.score, "threshold": threshold, "output": meaning}
    folder.write_json("matches.json", facts | {"samples": rows, "null": null})
    summary = folder.read_json("summary.json") | summarise(judgement)
    folder.update_summary(summary | {"verdict": verdict(summary)})


def _rows(outputs: Tensor, data: TaskData, judgement: Judgement, places: Int[Tensor, "k 2"]) -> list[dict[str, Any]]:
    matches = judgement.matches
    columns: dict[str, Any] = {
        "index": data.indices,
        "label": data.y,
        "output": outputs,
        "ncc": matches.ncc,
        "ssim": matches.ssim,
        "psnr": matches.psnr,
        "distance": matches.distance,
        "votes": matches.votes,
        "recovered": judgement.recovered,
    }
    n = len(data.x)
    listed = {name: [None] * n if value is None else value.tolist() for name, value in columns.items()}
    nearest = [None if flat < 0 else places[flat].tolist() for flat in matches.candidate.tolist()]
    return [{name: listed[name][i] for name in columns} | {"candidate": nearest[i]} for i in range(n)]


def match_rule(config: Config, group: Group, variants: bool = True) -> MatchRule:
    chosen = config.match
    return MatchRule(
        distance=chosen.distance,
        vote_ratio=chosen.vote_ratio,
        each_candidate_once=chosen.each_candidate_once,
        ssim_window=chosen.ssim_window,
        scaling=chosen.scaling,
        radius=chosen.radius,
        group=None if group.trivial else group,
        variants=variants,
    )
