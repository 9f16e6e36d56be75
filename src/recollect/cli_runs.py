"""What the commands have in common: options become a configuration, and a run is begun or gone on with."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from recollect import experiments, pipeline
from recollect.config import Config, DataConfig, parse_config, read_config, to_toml
from recollect.core import RecollectError
from recollect.experiments import Experiment
from recollect.overrides import apply_override
from recollect.presets import load_preset
from recollect.progress import Narrator
from recollect.show import show_dry_run, show_experiment
from recollect.stages.run import Run


def run_experiment(
    name: str,
    out: Path | None,
    overrides: list[str] | None,
    resume: Path | None,
    overwrite: bool,
    dry_run: bool,
    as_json: bool,
    device: str | None,
) -> None:
    if resume is not None:
        return go_on(resume, out, overrides, dry_run, as_json, device, {"--overwrite": overwrite})
    changes = _with_device(overrides, device)
    config = read_config(Path(name), changes) if name.endswith(".toml") else load_preset(name, changes)
    return begin(config, "reproduce", out, overwrite, dry_run, as_json)


def begin(config: Config, plan: str, out: Path | None, overwrite: bool, dry_run: bool, as_json: bool) -> None:
    if dry_run:
        return show_dry_run(config, as_json)
    folder = Path("runs") / config.name if out is None else out
    return _finish(experiments.start(config, folder, plan, Narrator(quiet=as_json), command_line(), overwrite), as_json)


def go_on(
    resume: Path,
    out: Path | None,
    overrides: list[str] | None,
    dry_run: bool,
    as_json: bool,
    device: str | None,
    refused: Mapping[str, object],
    trials: int | None = None,
) -> None:
    """A run is gone on with as it was started; an option that would be ignored is refused. A sweep may grow."""
    given = [option for option, value in refused.items() if value]
    run = experiments.resume(resume, Narrator(quiet=as_json), command_line(), device)
    given += ["--out"] if out is not None and out.resolve() != resume.resolve() else []
    given += ["--set"] if parse_config(to_toml(run.config), str(resume), overrides or []) != run.config else []
    if given:
        raise RecollectError(
            f"--resume {resume} goes on with the run as it was started, so {given[0]} cannot change it; leave it out."
        )
    grown = run if trials is None else experiments.with_more_trials(run, trials)
    if dry_run:
        return show_dry_run(grown.config, as_json)
    if isinstance(grown, Run) and grown is not run:
        pipeline.search_again(grown)
    return _finish(grown, as_json)


def _finish(run: Experiment, as_json: bool) -> None:
    _go(run)
    show_experiment(run, as_json)


def _go(run: Experiment) -> None:
    try:
        experiments.go(run)
    except KeyboardInterrupt:
        command = shlex.join(["recollect", sys.argv[1], "--resume", str(run.folder.path)])
        print(f"Interrupted. Go on with: {command}", file=sys.stderr)
        raise typer.Exit(130) from None


def reference_data(
    known: DataConfig | None,
    data: str | None,
    task: str | None,
    n: int | None,
    holdout: str | None,
    overrides: Sequence[str] | None = None,
) -> dict[str, Any] | None:
    """The data section: what the options name, on top of what is known unless --data says otherwise.

    Whatever --set says about data is said about those of --data too.
    """
    options = {"task": task, "n": n, "holdout": holdout}
    given = {name: value for name, value in options.items() if value is not None}
    if data is not None:
        named: dict[str, Any] = {"data": {"task": "binary"}}
        for override in overrides or ():
            if override.strip().startswith("data."):
                apply_override(named, override)
        return named["data"] | {"name": data, **given}
    if known is not None:
        return known.model_dump() | given
    if given:
        raise RecollectError(f"--{next(iter(given))} says more about --data, which is not there; give --data too.")
    return None


def configured(config_file: Path | None, preset: str | None, overrides: list[str] | None, device: str | None) -> Config:
    changes = _with_device(overrides, device)
    if config_file is not None and preset is not None:
        raise RecollectError("give --config or --preset, not both.")
    if config_file is not None:
        return read_config(config_file, changes)
    return load_preset(preset, changes) if preset is not None else parse_config("", "the defaults", changes)


def _with_device(overrides: list[str] | None, device: str | None) -> list[str]:
    return [*(overrides or []), *([] if device is None else [f'device="{device}"'])]


def engine_overrides(overrides: list[str] | None, precision: str | None, memory_limit: str | None) -> list[str]:
    """Options that say how to search, as overrides."""
    given = {"precision": precision, "memory_limit": memory_limit}
    return [*(overrides or []), *(f'attack.{name}="{value}"' for name, value in given.items() if value is not None)]


def named_source(model: Path | None, module: str | None, weights: str | None, shape: str | None) -> dict[str, Any]:
    """The source section that the options name; all empty where they name no network."""
    folder = None if model is None else str(model.resolve())
    return {"folder": folder, "module": module, "weights": weights, "sample_shape": shape_from(shape)}


def shape_from(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    parts = text.replace("x", ",").split(",")
    if not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise RecollectError(f"--shape needs whole numbers such as 1,28,28, got '{text}'.")
    return tuple(int(part) for part in parts)


def command_line() -> str:
    return shlex.join(["recollect", *sys.argv[1:]])
