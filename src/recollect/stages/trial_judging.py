"""How much each trial of a sweep recovered by itself. Judgement: the search is told nothing of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from recollect.analysis import judge, summarise
from recollect.config import Config
from recollect.data import TaskData
from recollect.datasets import heldout_data, training_data
from recollect.stages.each_trial import TRIAL_MATCHES
from recollect.stages.judging import match_rule
from recollect.stages.run import Run
from recollect.sweep.collect import chosen_trials, pooled
from recollect.sweep.record import Trial, finished_trials
from recollect.symmetries import chosen_group

_FIGURES = ("recovered", "null_recovered", "ncc80", "ncc90", "good_ssim04")


def trial_match_stage(run: Run) -> None:
    """``trial_matches.json``: every trial that came to its end, against the data alone and without the others."""
    truth = truth_of(run)
    if truth is None:
        return
    trials = chosen_trials(finished_trials(run.folder))
    run.narrator.say(f"Matching {len(trials)} trial{'s' * (len(trials) != 1)}, each by itself")
    run.folder.write_json(
        TRIAL_MATCHES,
        {
            "score": run.config.match.score,
            "reference_count": len(truth.data.x),
            "null_count": 0 if truth.heldout is None else len(truth.heldout.x),
            "trials": list(truth.figures(run, trials)),
        },
    )


@dataclass(frozen=True)
class Truth:
    """What trials are compared with."""

    data: TaskData
    heldout: TaskData | None
    config: Config

    def figures(self, run: Run, trials: Sequence[Trial]) -> Iterable[dict[str, Any]]:
        net, sample_shape = run.network()
        rule = match_rule(self.config, chosen_group(self.config.match.group, net, sample_shape))
        heldout = None if self.heldout is None else self.heldout.x.to(run.device)
        for trial in trials:
            found = pooled(run.folder, [trial]).pool.to(run.device)
            x, mean = self.data.x.to(found), self.data.mean.to(found)
            match = self.config.match
            known = summarise(judge(found, x, mean, heldout, rule, match.score, match.quantile))
            yield {"number": trial.number} | {name: known[name] for name in _FIGURES}


def truth_of(run: Run) -> Truth | None:
    """The reference data of a run; None where there are none."""
    if run.config.data is None:
        return None
    data = training_data(run.config)
    return Truth(data, heldout_data(run.config, data), run.config)


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
