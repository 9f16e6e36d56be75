"""The command line: thin over the library. Results go to stdout, everything else to stderr."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from recollect import __version__, experiments
from recollect.audit.running import TERMS
from recollect.check import check_network
from recollect.check.show import show_findings
from recollect.cli_audit import audit
from recollect.cli_options import (
    AsJson,
    ConfigFile,
    Count,
    Data,
    Device,
    DryRun,
    Holdout,
    Jobs,
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
from recollect.cli_report import report
from recollect.cli_runs import (
    as_seen,
    begin,
    command_line,
    configured,
    data_of,
    engine_overrides,
    go_on,
    named_data,
    named_source,
    reference_data,
    run_experiment,
    run_in,
    shape_from,
)
from recollect.cli_sweep import sweep
from recollect.config import parse_config, to_toml, updated
from recollect.core import RecollectError
from recollect.datasets import training_data
from recollect.devices import resolve_devices
from recollect.networks import load_given
from recollect.presets import load_preset, preset_names
from recollect.progress import Narrator
from recollect.show import show_experiment, show_presets
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
    run_experiment(
        "demo", out, engine_overrides(overrides, precision, memory_limit), resume, overwrite, dry_run, as_json, device
    )


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
    jobs: Jobs = 1,
) -> None:
    """Run a published experiment from training to report."""
    if not name and resume is None:
        raise RecollectError("name a preset ('recollect presets' lists them), or give --resume RUN.")
    changes = engine_overrides(overrides, precision, memory_limit)
    run_experiment(name, out, changes, resume, overwrite, dry_run, as_json, device, jobs)


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
        return go_on(resume, out, overrides, dry_run, as_json, device, refused)
    config = configured(config_file, preset, overrides, device)
    return begin(config, "train", out, overwrite, dry_run, as_json)


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
    overrides = engine_overrides(overrides, precision, memory_limit)
    if resume is not None:
        refused = {"MODEL": model, "--module": module, "--weights": weights, "--shape": shape, "--data": data}
        refused |= {"--holdout": holdout, "--task": task, "--n": n}
        refused |= {"--config": config_file, "--preset": preset, "--overwrite": overwrite}
        return go_on(resume, out, overrides, dry_run, as_json, device, refused)
    config = configured(config_file, preset, overrides, device)
    source = named_source(model, module, weights, shape)
    if config.source is not None and not any(source.values()):
        source = config.source.model_dump()
    # A preset's data are not those of another network.
    known = named_data(config, config_file, overrides, data) if preset is None else None
    reference = as_seen(reference_data(known, data, task, n, holdout, overrides), model)
    sections = {"source": source, "data": reference}
    config = updated(config, sections, "options")
    return begin(config, "judged", out, overwrite, dry_run, as_json)


app.command(
    epilog="Example: recollect audit --model mynets:make --weights model.safetensors --data train.npz "
    "--holdout test.npz --budget 10m"
)(audit)
app.command(epilog="Example: recollect sweep runs/demo --trials 64 --sampler tpe --data train.npz")(sweep)


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
    run = run_in(model)
    named = {"folder": None if model is None else str(model), "module": module, "weights": weights}
    source: dict[str, Any] = {**named, "sample_shape": shape_from(shape)}
    if run is not None and run.source is not None and [value for value in source.values() if value] == [str(model)]:
        source = run.source.model_dump()  # the run attacked a network that lies elsewhere
    known = data_of(run)
    sections = {"source": source, "data": reference_data(known, data, task, n, None)}
    config = updated(configured(None, None, None, device), sections, "options")
    assert config.source is not None
    net, sample_shape = load_given(config)
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
    run = experiments.resume(run_folder, narrator, command_line())
    if run.folder.has(TERMS):
        raise RecollectError(
            f"'{run_folder}' holds an audit, which was judged by rules of its own; audit again for another judgement, "
            f"or use 'recollect report {run_folder}' to write its page again."
        )
    config = parse_config(to_toml(run.config), str(run_folder / "config.toml"), overrides or [])
    if config.model_copy(update={"match": run.config.match, "data": run.config.data}) != run.config:
        raise RecollectError(
            "'recollect match' can change match and data alone, the search is done; leave out other --set."
        )
    config = updated(config, {"data": reference_data(config.data, data, task, n, holdout, overrides)}, "options")
    show_experiment(experiments.judge_again(run, config), as_json)


app.command(epilog="Example: recollect report runs/before runs/after")(report)


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    if version:
        print(__version__)
        raise typer.Exit


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
