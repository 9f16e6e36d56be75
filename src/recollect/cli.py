"""The command line: thin over the library. Results go to stdout, everything else to stderr."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from recollect import __version__, pipeline
from recollect.config import Config, DataConfig, SourceConfig, parse_config, read_config, to_toml
from recollect.core import RecollectError
from recollect.dry_run import describe
from recollect.presets import load_preset, preset_names
from recollect.progress import Narrator
from recollect.stages.run import Run

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    help="Search a trained network for the inputs it was trained on, and judge what was found against chance.",
)

Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override a configuration value: --set attack.steps=5000. Repeatable.",
    ),
]
Out = Annotated[Path | None, typer.Option("--out", help="Run folder to write; by default runs/NAME.")]
Resume = Annotated[Path | None, typer.Option("--resume", metavar="RUN", help="Go on with an interrupted run.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the run folder if it holds a run.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print configuration, memory and time, and stop.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the summary as JSON, and no progress.")]
Device = Annotated[str | None, typer.Option("--device", help="auto, cpu, cuda or cuda:N.")]
ConfigFile = Annotated[Path | None, typer.Option("--config", help="Configuration file (TOML).")]
Preset = Annotated[str | None, typer.Option("--preset", help="Start from a preset instead of a file.")]
Data = Annotated[
    str | None, typer.Option("--data", help="Training data: a standard name, a file or a folder of images.")
]
Holdout = Annotated[
    str | None, typer.Option("--holdout", help="Samples the network never saw; calibrates the verdict.")
]
Task = Annotated[
    str | None, typer.Option("--task", help="odd_even, vehicles_animals, or binary for your own two classes.")
]
Count = Annotated[int | None, typer.Option("--n", help="Training samples: the first n/2 of each class, in file order.")]


@app.command()
def demo(
    out: Out = None,
    overrides: Overrides = None,
    resume: Resume = None,
    overwrite: Overwrite = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    device: Device = None,
) -> None:
    """Train a small network on 20 digits, attack its weights, and show what leaks. A minute on a laptop."""
    _experiment("demo", out, overrides, resume, overwrite, dry_run, as_json, device)


@app.command()
def reproduce(
    name: Annotated[str, typer.Argument(help="A preset; 'recollect presets' lists them.")] = "",
    out: Out = None,
    overrides: Overrides = None,
    resume: Resume = None,
    overwrite: Overwrite = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    device: Device = None,
) -> None:
    """Run a published experiment from training to report."""
    if not name and resume is None:
        raise RecollectError("name a preset ('recollect presets' lists them), or give --resume RUN.")
    _experiment(name, out, overrides, resume, overwrite, dry_run, as_json, device)


@app.command()
def presets(as_json: AsJson = False) -> None:
    """List the experiments that 'recollect reproduce' knows."""
    known = {name: load_preset(name) for name in preset_names()}
    if as_json:
        print(json.dumps({name: {"title": config.title, "paper": config.paper} for name, config in known.items()}))
        return
    table = Table("preset", "what it shows", "paper", box=None, pad_edge=False)
    for name, config in known.items():
        table.add_row(name, config.title, config.paper)
    Console().print(table)


@app.command()
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
    narrator = Narrator(quiet=as_json)
    if resume is None:
        config = _configured(config_file, preset, overrides, device)
        if dry_run:
            return _dry_run(config, as_json)
        run = pipeline.start(config, _folder(out, config), "train", narrator, _command(), overwrite)
    else:
        run = pipeline.resume(resume, narrator, _command(), device)
    _go(run)
    facts = run.folder.subfolder("model").read_json("model.json")["training"]
    if as_json:
        print(json.dumps(facts))
    else:
        print(f"Network saved in {run.folder.path / 'model'}: training loss {facts['loss']:.2e}.")
    return None


@app.command()
def attack(
    model: Annotated[Path | None, typer.Argument(help="A folder written by 'recollect train' or a run folder.")] = None,
    module: Annotated[
        str | None, typer.Option(help="Your own network: package.module:callable. It is imported and run.")
    ] = None,
    weights: Annotated[
        str | None, typer.Option(help="Its state dict (.safetensors, or .pt without pickled code).")
    ] = None,
    shape: Annotated[str | None, typer.Option(help="Shape of one input, such as 1,28,28.")] = None,
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
) -> None:
    """Search a network for its training samples; with --data, judge what was found as well."""
    narrator = Narrator(quiet=as_json)
    if resume is None:
        config = _configured(config_file, preset, overrides, device)
        source = SourceConfig(
            folder=None if model is None else str(model.resolve()),
            module=module,
            weights=weights,
            sample_shape=_shape(shape),
        )
        reference = None if data is None else DataConfig(name=data, task=task or "binary", n=n, holdout=holdout)
        config = config.model_copy(update={"source": source, "data": reference})
        if dry_run:
            return _dry_run(config, as_json)
        run = pipeline.start(config, _folder(out, config), "judged", narrator, _command(), overwrite)
    else:
        run = pipeline.resume(resume, narrator, _command(), device)
    return _finish(run, as_json)


@app.command()
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
    run = pipeline.resume(run_folder, narrator, _command())
    config = parse_config(to_toml(run.config), str(run_folder / "config.toml"), overrides or [])
    if data is not None:
        reference = DataConfig(name=data, task=task or "binary", n=n, holdout=holdout)
        config = config.model_copy(update={"data": reference})
    elif holdout is not None and config.data is not None:
        config = config.model_copy(update={"data": config.data.model_copy(update={"holdout": holdout})})
    run = Run(run.folder, config, narrator, run.command)
    pipeline.judge_again(run)
    _show(run, as_json)


@app.command()
def report(run_folder: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]) -> None:
    """Write RUN/report.html anew from what the run folder holds."""
    run = pipeline.resume(run_folder, Narrator(), _command())
    pipeline.report_again(run)
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
    narrator = Narrator(quiet=as_json)
    if resume is not None:
        run = pipeline.resume(resume, narrator, _command(), device)
    else:
        config = load_preset(name, _with_device(overrides, device))
        if dry_run:
            return _dry_run(config, as_json)
        run = pipeline.start(config, _folder(out, config), "reproduce", narrator, _command(), overwrite)
    return _finish(run, as_json)


def _finish(run: Run, as_json: bool) -> None:
    _go(run)
    _show(run, as_json)


def _go(run: Run) -> None:
    try:
        pipeline.go(run)
    except KeyboardInterrupt:
        command = next((word for word in sys.argv[1:] if not word.startswith("-")), "reproduce")
        run.narrator.say(f"Interrupted. Go on with: recollect {command} --resume {run.folder.path}")
        raise typer.Exit(130) from None


def _show(run: Run, as_json: bool) -> None:
    summary = run.folder.read_json("summary.json")
    if as_json:
        print(json.dumps(summary))
        return
    console = Console(highlight=False)
    console.print(f"\n{summary['verdict']}", markup=False, soft_wrap=True)
    for name in run.config.baselines:
        baseline = run.folder.subfolder(f"baselines/{name}").read_json("summary.json")
        console.print(f"Baseline {name}: {baseline['verdict']}", markup=False, soft_wrap=True)
    console.print(f"Look at {run.folder.path / 'report.html'} and {run.folder.path / 'grid.png'}", markup=False)


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


def _folder(out: Path | None, config: Config) -> Path:
    return Path("runs") / config.name if out is None else out


def _shape(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    parts = text.replace("x", ",").split(",")
    if not all(part.strip().isdigit() and int(part) > 0 for part in parts):
        raise RecollectError(f"--shape needs whole numbers such as 1,28,28, got '{text}'.")
    return tuple(int(part) for part in parts)


def _dry_run(config: Config, as_json: bool) -> None:
    described = describe(config)
    print(json.dumps(described.as_json()) if as_json else described.as_text())


def _command() -> str:
    return shlex.join(["recollect", *sys.argv[1:]])


def main() -> None:
    """Entry point: a user's mistake is one sentence and exit code 2."""
    try:
        app()
    except RecollectError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
