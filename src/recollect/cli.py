"""The command line: thin over the library. Results go to stdout, everything else to stderr."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from recollect import __version__, experiments
from recollect.check import check_network
from recollect.check.show import show_findings
from recollect.cli_options import (
    AsJson,
    ConfigFile,
    Count,
    Data,
    Device,
    DryRun,
    Holdout,
    MemoryLimit,
    Module,
    Out,
    Overrides,
    Overwrite,
    Precision,
    Preset,
    Resume,
    Shape,
    Task,
    Weights,
)
from recollect.config import Config, DataConfig, parse_config, read_config, read_run_config, to_toml, updated
from recollect.core import RecollectError
from recollect.datasets import training_data
from recollect.devices import resolve_devices
from recollect.experiments import Experiment
from recollect.networks import load_source
from recollect.presets import load_preset, preset_names
from recollect.progress import Narrator
from recollect.show import show_dry_run, show_experiment, show_presets
from recollect.stages.following import follow
from recollect.team import team

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    help="Search a trained network for the inputs it was trained on, and judge what was found against chance.",
)


@app.command()
def demo(
    out: Out = None,
    overrides: Overrides = None,
    resume: Resume = None,
    overwrite: Overwrite = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    device: Device = None,
    precision: Precision = None,
    memory_limit: MemoryLimit = None,
) -> None:
    """Train a small network on 20 digits, attack its weights, and show what leaks. A minute on a laptop."""
    _experiment("demo", out, _engine(overrides, precision, memory_limit), resume, overwrite, dry_run, as_json, device)


@app.command(epilog="Example: recollect reproduce haim-cifar10 --set training.epochs=100000 --device cuda")
def reproduce(
    name: Annotated[
        str, typer.Argument(help="A preset ('recollect presets' lists them), or a configuration file (.toml).")
    ] = "",
    out: Out = None,
    overrides: Overrides = None,
    resume: Resume = None,
    overwrite: Overwrite = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    device: Device = None,
    precision: Precision = None,
    memory_limit: MemoryLimit = None,
) -> None:
    """Run a published experiment from training to report."""
    if not name and resume is None:
        raise RecollectError("name a preset ('recollect presets' lists them), or give --resume RUN.")
    _experiment(name, out, _engine(overrides, precision, memory_limit), resume, overwrite, dry_run, as_json, device)


@app.command()
def presets(as_json: AsJson = False) -> None:
    """List the experiments that 'recollect reproduce' knows."""
    show_presets({name: load_preset(name) for name in preset_names()}, as_json)


@app.command(epilog="Example: recollect train --preset demo --set data.n=40 --out runs/mine")
def train(
    config_file: ConfigFile = None,
    preset: Preset = None,
    out: Out = None,
    overrides: Overrides = None,
    resume: Resume = None,
    overwrite: Overwrite = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    device: Device = None,
) -> None:
    """Train a network to practise on; weights and description end up in RUN/model."""
    if resume is not None:
        refused = {"--config": config_file, "--preset": preset, "--overwrite": overwrite}
        return _go_on(resume, out, overrides, dry_run, as_json, device, refused)
    config = _configured(config_file, preset, overrides, device)
    return _begin(config, "train", out, overwrite, dry_run, as_json)


@app.command(
    epilog="Example: recollect attack --module mynets:make --weights model.safetensors --shape 1,28,28 "
    "--data train.npz --holdout test.npz"
)
def attack(
    model: Annotated[Path | None, typer.Argument(help="A folder written by 'recollect train' or a run folder.")] = None,
    module: Module = None,
    weights: Weights = None,
    shape: Shape = None,
    config_file: ConfigFile = None,
    preset: Preset = None,
    data: Data = None,
    holdout: Holdout = None,
    task: Task = None,
    n: Count = None,
    out: Out = None,
    overrides: Overrides = None,
    resume: Resume = None,
    overwrite: Overwrite = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    device: Device = None,
    precision: Precision = None,
    memory_limit: MemoryLimit = None,
) -> None:
    """Search a network for its training samples; with --data, judge what was found as well."""
    overrides = _engine(overrides, precision, memory_limit)
    if resume is not None:
        refused = {"MODEL": model, "--module": module, "--weights": weights, "--shape": shape, "--data": data}
        refused |= {"--holdout": holdout, "--task": task, "--n": n}
        refused |= {"--config": config_file, "--preset": preset, "--overwrite": overwrite}
        return _go_on(resume, out, overrides, dry_run, as_json, device, refused)
    config = _configured(config_file, preset, overrides, device)
    named = {"folder": None if model is None else str(model.resolve()), "module": module, "weights": weights}
    source = {**named, "sample_shape": _shape(shape)}
    if config.source is not None and not any(source.values()):
        source = config.source.model_dump()
    known = config.data if preset is None else None  # a preset's data are not those of another network
    config = updated(config, {"source": source, "data": _reference(known, data, task, n, holdout)}, "options")
    return _begin(config, "judged", out, overwrite, dry_run, as_json)


@app.command(epilog="Example: recollect check runs/demo")
def check(
    model: Annotated[
        Path | None, typer.Argument(help="A run folder, or its model folder alone (then without data).")
    ] = None,
    module: Module = None,
    weights: Weights = None,
    shape: Shape = None,
    data: Data = None,
    task: Task = None,
    n: Count = None,
    keep_mean: Annotated[
        bool, typer.Option("--keep-mean", help="The network saw the samples as they are, their mean not removed.")
    ] = False,
    free_sign: Annotated[
        bool, typer.Option("--free-sign", help="Multipliers of either sign, for networks trained by regression.")
    ] = False,
    as_json: AsJson = False,
    device: Device = None,
) -> None:
    """Say which assumptions of the KKT attack hold for a network, before it is attacked."""
    run = None if model is None or not (model / "config.toml").is_file() else read_run_config(model / "config.toml")
    named = {"folder": None if model is None else str(model), "module": module, "weights": weights}
    source: dict[str, Any] = {**named, "sample_shape": _shape(shape)}
    if run is not None and run.source is not None and [value for value in source.values() if value] == [str(model)]:
        source = run.source.model_dump()  # the run attacked a network that lies elsewhere
    known = None if run is None else run.data
    sections = {"source": source, "data": _reference(known, data, task, n, None)}
    config = updated(_configured(None, None, None, device), sections, "options")
    assert config.source is not None
    net, sample_shape = load_source(config.source)
    samples = None if config.data is None else training_data(config)
    show_findings(
        check_network(
            net,
            sample_shape,
            x=None if samples is None else samples.images if keep_mean else samples.x,
            y=None if samples is None else samples.y,
            loss=None if run is None or run.source is not None else run.training.loss,
            free_sign=free_sign,
            device=resolve_devices(config.device)[0],
        ),
        as_json,
    )


@app.command(epilog="Example: recollect match runs/demo --set match.scaling=clamp")
def match(
    run_folder: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder with candidates.")],
    data: Data = None,
    holdout: Holdout = None,
    task: Task = None,
    n: Count = None,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Judge the candidates of a run again, with other data or another rule."""
    narrator = Narrator(quiet=as_json)
    run = experiments.resume(run_folder, narrator, _command())
    config = parse_config(to_toml(run.config), str(run_folder / "config.toml"), overrides or [])
    if config.model_copy(update={"match": run.config.match, "data": run.config.data}) != run.config:
        raise RecollectError(
            "'recollect match' can change match and data alone, the search is done; leave out other --set."
        )
    config = updated(config, {"data": _reference(config.data, data, task, n, holdout)}, "options")
    show_experiment(experiments.judge_again(run, config), as_json)


@app.command()
def report(run_folder: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]) -> None:
    """Write RUN/report.html anew from what the run folder holds."""
    run = experiments.resume(run_folder, Narrator(), _command())
    experiments.report_again(run)
    print(run.folder.path / "report.html")


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    if version:
        print(__version__)
        raise typer.Exit


def _experiment(
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
        return _go_on(resume, out, overrides, dry_run, as_json, device, {"--overwrite": overwrite})
    changes = _with_device(overrides, device)
    config = read_config(Path(name), changes) if name.endswith(".toml") else load_preset(name, changes)
    return _begin(config, "reproduce", out, overwrite, dry_run, as_json)


def _begin(config: Config, plan: str, out: Path | None, overwrite: bool, dry_run: bool, as_json: bool) -> None:
    if dry_run:
        return show_dry_run(config, as_json)
    folder = Path("runs") / config.name if out is None else out
    return _finish(experiments.start(config, folder, plan, Narrator(quiet=as_json), _command(), overwrite), as_json)


def _go_on(
    resume: Path,
    out: Path | None,
    overrides: list[str] | None,
    dry_run: bool,
    as_json: bool,
    device: str | None,
    refused: Mapping[str, object],
) -> None:
    """A run is gone on with as it was started; an option that would be ignored is refused."""
    given = [option for option, value in refused.items() if value]
    run = experiments.resume(resume, Narrator(quiet=as_json), _command(), device)
    given += ["--out"] if out is not None and out.resolve() != resume.resolve() else []
    given += ["--set"] if parse_config(to_toml(run.config), str(resume), overrides or []) != run.config else []
    if given:
        raise RecollectError(
            f"--resume {resume} goes on with the run as it was started, so {given[0]} cannot change it; leave it out."
        )
    return show_dry_run(run.config, as_json) if dry_run else _finish(run, as_json)


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


def _reference(
    known: DataConfig | None, data: str | None, task: str | None, n: int | None, holdout: str | None
) -> dict[str, Any] | None:
    """The data section: what the options name, on top of what is known unless --data says otherwise."""
    options = {"task": task, "n": n, "holdout": holdout}
    given = {name: value for name, value in options.items() if value is not None}
    if data is not None:
        return {"name": data, "task": "binary", **given}
    if known is not None:
        return known.model_dump() | given
    if given:
        raise RecollectError(f"--{next(iter(given))} says more about --data, which is not there; give --data too.")
    return None


def _configured(
    config_file: Path | None, preset: str | None, overrides: list[str] | None, device: str | None
) -> Config:
    changes = _with_device(overrides, device)
    if config_file is not None and preset is not None:
        raise RecollectError("give --config or --preset, not both.")
    if config_file is not None:
        return read_config(config_file, changes)
    return load_preset(preset, changes) if preset is not None else parse_config("", "the defaults", changes)


def _with_device(overrides: list[str] | None, device: str | None) -> list[str]:
    return [*(overrides or []), *([] if device is None else [f'device="{device}"'])]


def _engine(overrides: list[str] | None, precision: str | None, memory_limit: str | None) -> list[str]:
    """Options that say how to search, as overrides."""
    given = {"precision": precision, "memory_limit": memory_limit}
    return [*(overrides or []), *(f'attack.{name}="{value}"' for name, value in given.items() if value is not None)]


def _shape(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    parts = text.replace("x", ",").split(",")
    if not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise RecollectError(f"--shape needs whole numbers such as 1,28,28, got '{text}'.")
    return tuple(int(part) for part in parts)


def _command() -> str:
    return shlex.join(["recollect", *sys.argv[1:]])


def main() -> None:
    """Entry point: a user's mistake is one sentence and exit code 2."""
    with team() as leads:
        if leads:
            _lead()
        else:
            follow()


def _lead() -> None:
    try:
        app()
    except RecollectError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except (RuntimeError, MemoryError) as error:
        # PyTorch has an error of its own for a full GPU, and none for full main memory.
        if not isinstance(error, torch.OutOfMemoryError | MemoryError) and "DefaultCPUAllocator" not in str(error):
            raise
        print("error: there is not enough memory; use fewer candidates, trials or units per layer.", file=sys.stderr)
        sys.exit(2)
