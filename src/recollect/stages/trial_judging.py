"""How much each trial of a sweep recovered by itself. Judgement: the search is told nothing of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from recollect.analysis import summarise
from recollect.config import Config
from recollect.data import TaskData
from recollect.datasets import heldout_data, training_data
from recollect.stages.each_trial import TRIAL_MATCHES
from recollect.stages.judging import judge_of
from recollect.stages.run import Run
from recollect.sweep.collect import chosen_trials, pooled
from recollect.sweep.record import Trial, finished_trials
from recollect.symmetries import chosen_group

_FIGURES = ("recovered", "null_recovered", "ncc80", "ncc90", "good_ssim04", "reference_count", "null_count")


def trial_match_stage(run: Run) -> None:
    """``trial_matches.json``: every trial that came to its end, against the data alone and without the others."""
    truth = truth_of(run)
    if truth is None:
        return
    trials = chosen_trials(finished_trials(run.folder))
    run.narrator.say(f"Matching {len(trials)} trial{'s' * (len(trials) != 1)}, each by itself")
    rows = list(truth.figures(run, trials))
    counts = {name: rows[0].get(name) for name in ("reference_count", "null_count")}
    run.folder.write_json(TRIAL_MATCHES, {"score": run.config.match.score} | counts | {"trials": rows})


@dataclass(frozen=True)
class Truth:
    """What trials are compared with."""

    data: TaskData
    heldout: TaskData | None
    config: Config

    def figures(self, run: Run, trials: Sequence[Trial]) -> Iterable[dict[str, Any]]:
        group = chosen_group(self.config.match.group, *run.network())
        judged = judge_of(self.config, self.data, self.heldout, group, run.device, variants=False)
        for trial in trials:
            known = summarise(judged(pooled(run.folder, [trial]).pool.to(run.device)))
            yield {"number": trial.number} | {name: known[name] for name in _FIGURES}


def truth_of(run: Run) -> Truth | None:
    """The reference data of a run; None where there are none."""
    if run.config.data is None:
        return None
    data = training_data(run.config)
    first = data.rows(torch.arange(len(data.x))[: run.config.match.most])
    return Truth(first, heldout_data(run.config, data), run.config)


@dataclass
class MostRecovered:
    """The most that one trial recovered so far, for somebody who watches the sweep."""

    run: Run
    truth: Truth
    most: int | None = None

    def __call__(self, trials: Sequence[Trial]) -> None:
        for known in self.truth.figures(self.run, chosen_trials(trials)):
            counted = known["recovered"] if known["recovered"] is not None else known["ncc80"]
            if counted is not None:
                self.most = max(self.most or 0, int(counted))

    def __str__(self) -> str:
        return "" if self.most is None else f"  {self.most} of {len(self.truth.data.x)} recovered"
