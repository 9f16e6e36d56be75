"""The stages of a run, in order: train, attack, baselines, match, report. Each can be done again or gone on with.

The only module, beside the command line, that touches both sides of the wall: what searches gets the network and
nothing else; training data enter for training, and again for judging.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from recollect.config import Config, read_run_config, to_toml, with_drawn_trials, with_settings
from recollect.core import RecollectError
from recollect.devices import resolve_devices
from recollect.dry_run import rehearse
from recollect.progress import Narrator
from recollect.runs import RunFolder
from recollect.stages.judging import match_stage, report_stage
from recollect.stages.run import Run
from recollect.stages.searching import attack_stage, baselines_stage
from recollect.stages.sweeping import sweep_stage
from recollect.stages.training import train_stage
from recollect.stages.trial_judging import trial_match_stage
from recollect.sweep.ready import require_ready

PLANS = {
    "train": ("train",),
    "judged": ("attack", "baselines", "match", "report"),
    "reproduce": ("train", "attack", "baselines", "match", "report"),
}


def start(config: Config, out: Path, plan: str, narrator: Narrator, command: str, overwrite: bool = False) -> Run:
    """A new run folder with its resolved configuration; nothing has been computed yet."""
    require_possible(config, out)
    return create(config, out, plan, narrator, command, overwrite)


def require_possible(config: Config, out: Path) -> None:
    """What would fail later fails now, before anything is written."""
    _require_apart(config, out)
    if config.sweep is not None:
        require_ready(config.sweep)
    rehearse(with_drawn_trials(config))


def create(config: Config, out: Path, plan: str, narrator: Narrator, command: str, overwrite: bool = False) -> Run:
    """The folder of a run that is known to be possible."""
    config = with_drawn_trials(config)
    folder = RunFolder.create(out, config.name, PLANS[plan], overwrite)
    folder.write_text("config.toml", to_toml(config))
    return Run(folder, config, narrator, command)


def _require_apart(config: Config, out: Path) -> None:
    """What a run reads must not lie in the folder that it replaces."""
    named = [] if config.source is None else [config.source.folder, config.source.weights]
    named += [] if config.data is None else [config.data.name, config.data.holdout]
    for path in filter(None, named):
        if Path(path).exists() and Path(path).resolve().is_relative_to(out.resolve()):
            raise RecollectError(f"'{path}' is needed and lies in the run folder '{out}'; choose another with --out.")


def resume(out: Path, narrator: Narrator, command: str, device: str | None = None) -> Run:
    """A run that was interrupted, as its folder describes it."""
    folder = RunFolder.open(out)
    unknown = [stage for stage in folder.stages if stage not in STAGES]
    if unknown:
        raise RecollectError(
            f"'{out / 'status.json'}' has an unknown stage '{unknown[0]}'; start anew with --overwrite."
        )
    return Run(folder, stored_config(folder, device), narrator, command)


def stored_config(folder: RunFolder, device: str | None) -> Config:
    """What a folder was started with; on another device where one is named."""
    if not folder.has("config.toml"):
        raise RecollectError(
            f"'{folder.path}' has no config.toml, nothing was begun there; start anew with --overwrite."
        )
    config = read_run_config(folder.path / "config.toml")
    if device is None:
        return config
    resolve_devices(device)
    return config.model_copy(update={"device": device})


def go(run: Run) -> None:
    """Every stage of the plan that is not done yet."""
    with run.folder.locked():
        for stage, state in run.folder.stages.items():
            if state != "done":
                run.folder.set_stage(stage, "running")
                STAGES[stage](run)
                run.folder.set_stage(stage, "done")


def with_more_trials(run: Run, trials: int) -> Run:
    """A sweep that is to have so many trials in all; nothing is written yet."""
    search = run.config.attack.search
    if run.config.sweep is None or search is None:
        raise RecollectError(f"'{run.folder.path}' holds no sweep, so --trials cannot add to it; leave it out.")
    if trials < search.trials:
        raise RecollectError(
            f"the sweep in '{run.folder.path}' has {search.trials} trials, --trials {trials} would take some away; "
            "give a larger number, or leave it out."
        )
    if trials == search.trials:
        return run
    return replace(run, config=with_settings(run.config, {"attack.search.trials": trials}, "--trials"))


def search_again(run: Run) -> None:
    """The search and what follows from it are to be gone on with, by a configuration that asks for more."""
    with run.folder.locked():
        for stage in ("attack", "match", "report"):
            run.folder.set_stage(stage, "pending")
        run.folder.write_text("config.toml", to_toml(run.config))


def judge_again(run: Run) -> None:
    """Match and report once more, after the data or the rule changed; the search is not touched."""
    if not run.folder.has("candidates.safetensors"):
        searched = "attack" in run.folder.stages
        how = f"go on with --resume {run.folder.path}" if searched else f"use 'recollect attack {run.folder.path}'"
        raise RecollectError(f"'{run.folder.path}' has no candidates yet; {how}.")
    with run.folder.locked():
        _match_stage(run)
        run.folder.write_text("config.toml", to_toml(run.config))
        report_stage(run)


def report_again(run: Run) -> None:
    with run.folder.locked():
        report_stage(run)


def _search_stage(run: Run) -> None:
    return attack_stage(run) if run.config.sweep is None else sweep_stage(run)


def _match_stage(run: Run) -> None:
    match_stage(run)
    if run.config.sweep is not None:
        trial_match_stage(run)


STAGES: dict[str, Callable[[Run], None]] = {
    "train": train_stage,
    "attack": _search_stage,
    "baselines": baselines_stage,
    "match": _match_stage,
    "report": report_stage,
}
