"""A run or a series of runs: the command line treats both alike."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from recollect import pipeline
from recollect.config import Config
from recollect.core import RecollectError
from recollect.progress import Narrator
from recollect.series import running
from recollect.series.running import Series, is_series
from recollect.stages.run import Run

Experiment = Run | Series


def start(
    config: Config, out: Path, plan: str, narrator: Narrator, command: str, overwrite: bool = False
) -> Experiment:
    """A new folder; nothing has been computed yet."""
    begin = running.start if config.series else pipeline.start
    return begin(config, out, plan, narrator, command, overwrite)


def resume(out: Path, narrator: Narrator, command: str, device: str | None = None) -> Experiment:
    """What a folder holds, as it was started."""
    again = running.resume if is_series(out) else pipeline.resume
    return again(out, narrator, command, device)


def go(experiment: Experiment, jobs: int = 1) -> None:
    """Everything that is not done yet; of a series ``jobs`` members at a time."""
    if isinstance(experiment, Series):
        return running.go(experiment, jobs)
    return pipeline.go(experiment)


def with_more_trials(experiment: Experiment, trials: int) -> Run:
    """A sweep that is to have so many trials in all."""
    if isinstance(experiment, Series):
        raise RecollectError(
            f"'{experiment.folder.path}' holds a series, --trials is for a single sweep; leave it out."
        )
    return pipeline.with_more_trials(experiment, trials)


def judge_again(experiment: Experiment, config: Config) -> Experiment:
    """Match and report once more, after the data or the rule changed; the search is not touched."""
    if isinstance(experiment, Series):
        running.judge_again(experiment, config)
    else:
        pipeline.judge_again(replace(experiment, config=config))
    return replace(experiment, config=config)


def report_again(experiment: Experiment) -> None:
    if isinstance(experiment, Series):
        return running.report_again(experiment)
    return pipeline.report_again(experiment)
