"""The gallery of a run: every pair of its attacks, or, without reference data, what an attacker would keep."""

from __future__ import annotations

from itertools import chain

import torch

from recollect.analysis import stretch
from recollect.report.charts import SCORE_NAMES
from recollect.report.folder import Run
from recollect.report.gallery import Column, Gallery, name_column, number_column
from recollect.report.matches import Sample
from recollect.report.sprites import sprites

THIS_RUN = "this run"
_NO_MULTIPLIER = 1e30
"""Candidates of attacks without multipliers all have the largest number there is."""
STATES = {True: "recovered", False: "not recovered", None: "not judged"}


def gallery(run: Run) -> Gallery | None:
    """None when there are no pictures to show."""
    if not run.of_images:
        return None
    if run.matches is None or run.reference is None:
        return distilled_gallery(run)
    return pair_gallery(run) if len(run.reference) else None


def pair_score(run: Run) -> str:
    """What pairs are ranked by: the score of the run, or NCC where that is a distance."""
    return "ssim" if run.matches is not None and run.matches.score == "ssim" else "ncc"


def pair_gallery(run: Run) -> Gallery:
    """Pairs of the run, best first, then those of its baselines."""
    score = pair_score(run)
    attacks = [run, *(other for other in run.baselines if other.sample_shape == run.sample_shape)]
    stacks, samples, names = [], [], []
    for attack in attacks:
        if attack.matches is None or attack.reconstruction is None or attack.reference is None:
            continue
        order = attack.matches.best_first()
        stacks += [attack.reconstruction[order], attack.reference[order]]
        samples += [attack.matches.samples[row] for row in order]
        names += [THIS_RUN if attack is run else attack.name] * len(order)
    made, tiles = sprites(stacks)
    columns = (
        number_column("index", "sample", [sample.index for sample in samples], digits=0, on_card=True),
        name_column("label", "class", [_class(sample) for sample in samples], on_card=True),
        name_column("attack", "attack", names, on_card=len(set(names)) > 1),
        name_column("state", "verdict", [STATES[sample.recovered] for sample in samples]),
        number_column("score", SCORE_NAMES[score], [sample.score(score) for sample in samples]),
        *_details(samples, score, "margin" if run.matches is not None and run.matches.of_margins else "output"),
    )
    return Gallery(
        columns,
        title="score",
        lit="recovered",
        tile_names=("reconstruction", "training image"),
        tiles=(list(chain(*tiles[0::2])), list(chain(*tiles[1::2]))),
        sprites=made,
        first_choice={"attack": THIS_RUN},
    )


def distilled_gallery(run: Run) -> Gallery | None:
    """Candidates in the order in which they are stored, the most promising first: nobody has verified anything."""
    images, duals = run.distilled.get("candidates"), run.distilled.get("duals")
    if images is None or not len(images):
        return None
    unknown = torch.full((len(images),), torch.nan)
    weights = unknown if duals is None else duals.flatten().float()
    weights = torch.where(weights < _NO_MULTIPLIER, weights, unknown)
    made, tiles = sprites([stretch(images)])
    columns = (
        number_column("index", "candidate", range(1, len(images) + 1), digits=0, on_card=True),
        name_column("state", "verdict", ["not verified"] * len(images)),
        number_column("score", "multiplier", weights.tolist()),
    )
    return Gallery(columns, "score", "", ("candidate",), (tiles[0],), made, {}, ranked=True)


def _class(sample: Sample) -> str:
    return "unknown" if sample.label is None else str(sample.label)


def _details(samples: list[Sample], score: str, output: str) -> list[Column]:
    other = "ncc" if score == "ssim" else "ssim"
    return [
        number_column(other, SCORE_NAMES[other], [sample.score(other) for sample in samples]),
        number_column("psnr", "PSNR", [sample.psnr for sample in samples], digits=1),
        number_column("output", output, [sample.output for sample in samples]),
        number_column("votes", "candidates averaged", [sample.votes for sample in samples], digits=0),
        number_column("trial", "trial", [_part(sample, 0) for sample in samples], digits=0),
        number_column("candidate", "candidate", [_part(sample, 1) for sample in samples], digits=0),
    ]


def _part(sample: Sample, place: int) -> int | None:
    return None if sample.candidate is None else sample.candidate[place]
