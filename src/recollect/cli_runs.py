"""What the commands have in common: options become a configuration, and a run is begun or gone on with."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from recollect import experiments, interrupts, pipeline
from recollect.config import Config, DataConfig, parse_config, read_config, read_run_config, to_toml
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
    jobs: int = 1,
) -> None:
    if resume is not None:
        return go_on(resume, out, overrides, dry_run, as_json, device, {"--overwrite": overwrite}, jobs=jobs)
    changes = _with_device(overrides, device)
    config = read_config(Path(name), changes) if name.endswith(".toml") else load_preset(name, changes)
    return begin(config, "reproduce", out, overwrite, dry_run, as_json, jobs)


def begin(
    config: Config, plan: str, out: Path | None, overwrite: bool, dry_run: bool, as_json: bool, jobs: int = 1
) -> None:
    _require_series(config, jobs)
    if dry_run:
        return show_dry_run(config, as_json)
    folder = Path("runs") / config.name if out is None else out
    run = experiments.start(config, folder, plan, Narrator(quiet=as_json), command_line(), overwrite)
    return _finish(run, as_json, jobs)


def go_on(
    resume: Path,
    out: Path | None,
    overrides: list[str] | None,
    dry_run: bool,
    as_json: bool,
    device: str | None,
    refused: Mapping[str, object],
    trials: int | None = None,
    moved: Callable[[Config], Config] = lambda config: config,
    jobs: int = 1,
) -> None:
    """A run is gone on with as it was started; what would be ignored is refused. A sweep may move and grow."""
    begun = experiments.resume(resume, Narrator(quiet=as_json), command_line(), device)
    run = replace(begun, config=moved(begun.config))
    _require_as_started(run.config, resume, out, overrides, refused)
    _require_series(run.config, jobs)
    grown = run if trials is None else experiments.with_more_trials(run, trials)
    if dry_run:
        return show_dry_run(grown.config, as_json)
    if run.config != begun.config:
        with run.folder.locked():
            run.folder.write_text("config.toml", to_toml(run.config))
    if isinstance(grown, Run) and grown is not run:
        pipeline.search_again(grown)
    return _finish(grown, as_json, jobs)


def _require_series(config: Config, jobs: int) -> None:
    if jobs > 1 and not config.series:
        raise RecollectError(f"'{config.name}' is a single run, --jobs is for series of runs; leave it out.")


def _require_as_started(
    config: Config, folder: Path, out: Path | None, overrides: list[str] | None, refused: Mapping[str, object]
) -> None:
    given = [option for option, value in refused.items() if value is not None and value is not False]
    given += ["--out"] if out is not None and out.resolve() != folder.resolve() else []
    given += ["--set"] if parse_config(to_toml(config), str(folder), overrides or []) != config else []
    if given:
        raise RecollectError(
            f"--resume {folder} goes on with the run as it was started, so {given[0]} cannot change it; leave it out."
        )


def _finish(run: Experiment, as_json: bool, jobs: int) -> None:
    _go(run, jobs)
    show_experiment(run, as_json)


def _go(run: Experiment, jobs: int) -> None:
    try:
        with interrupts.raised():
            experiments.go(run, jobs)
    except KeyboardInterrupt:
        command = shlex.join(["recollect", sys.argv[1], "--resume", str(run.folder.path)])
        print(f"Interrupted. Go on with: {command}", file=sys.stderr)
        raise typer.Exit(interrupts.INTERRUPTED) from None


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
            if _of_data(override):
                apply_override(named, override)
        return named["data"] | {"name": data, **given}
    if known is not None:
        return known.model_dump() | given
    if given:
        raise _said_in_vain(f"--{next(iter(given))}")
    return None


def named_data(
    config: Config, config_file: Path | None, overrides: Sequence[str], data: str | None
) -> DataConfig | None:
    """The data that a configuration names; one that was made of settings alone names none by default."""
    if config_file is not None or any(own.strip().startswith(("data.name", "data=", "data =")) for own in overrides):
        return config.data
    said = next((own for own in overrides if _of_data(own)), None)
    if data is None and said is not None:
        raise _said_in_vain(f"--set {said.strip()}")
    return None


def _said_in_vain(option: str) -> RecollectError:
    return RecollectError(f"{option} says more about --data, which is not there; give --data too.")


def run_in(folder: Path | None) -> Config | None:
    """The run that a folder holds; none where it is but a network's."""
    return None if folder is None or not (folder / "config.toml").is_file() else read_run_config(folder / "config.toml")


def data_of(run: Config | None) -> DataConfig | None:
    """The data of a run, as they can be said of a network that is not trained here."""
    if run is None:
        return None
    if run.data is None or run.source is not None:
        return run.data
    own = {"mean_group": getattr(run.model, "group", "trivial")} if run.data.mean_group == "model" else {}
    return run.data.model_copy(update={"centred": run.centred} | own)


def as_seen(reference: dict[str, Any] | None, model: Path | None) -> dict[str, Any] | None:
    """With what a run folder knows of its network: that it saw samples with their mean, where it did."""
    if reference is None or reference.get("centred") is not None:
        return reference
    run = run_in(model)
    return reference if run is None or run.source is not None or run.centred else reference | {"centred": False}


def _of_data(override: str) -> bool:
    return override.strip().startswith("data.")


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
