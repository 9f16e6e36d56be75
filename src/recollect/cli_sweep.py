"""``recollect sweep``: the flow of ``reproduce`` or ``attack``, with many trials proposed from ranges."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

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
from recollect.cli_runs import (
    as_seen,
    begin,
    configured,
    engine_overrides,
    go_on,
    named_data,
    named_source,
    reference_data,
)
from recollect.config import Config, updated, with_settings
from recollect.core import RecollectError
from recollect.networks import load_given
from recollect.sweep.cluster import require_sendable
from recollect.sweep.ready import require_ready
from recollect.sweep.storage import anchored

_TRIALS = 100
"""As many as the papers ran, where neither the configuration nor --trials says otherwise."""

Trials = Annotated[
    int | None, typer.Option("--trials", help="Trials in all; with --resume, more than before adds to them.")
]
Batch = Annotated[int | None, typer.Option("--batch", help="Trials that run together; a kill loses at most these.")]
Sampler = Annotated[
    str | None, typer.Option("--sampler", help="Who proposes settings: random, tpe or qmc (the last two by Optuna).")
]
Pruning = Annotated[
    str | None,
    typer.Option("--pruning", help="halving: trials in the worse half stop early, others take their place; or none."),
]
Executor = Annotated[
    str | None, typer.Option("--executor", help="Where trials run: local, or ray for a cluster of machines.")
]
Address = Annotated[
    str | None,
    typer.Option("--address", help="Of the Ray cluster, such as auto or ray://host:10001; else Ray starts here."),
]
TrackerName = Annotated[
    str | None, typer.Option("--tracker", help="Who is told of every trial: tensorboard, wandb, mlflow or none.")
]
Storage = Annotated[
    str | None,
    typer.Option("--storage", metavar="URL", help="Optuna's storage, such as sqlite:///study.db or postgresql://..."),
]


def sweep(
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
    trials: Trials = None,
    batch: Batch = None,
    sampler: Sampler = None,
    pruning: Pruning = None,
    storage: Storage = None,
    executor: Executor = None,
    address: Address = None,
    tracker: TrackerName = None,
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
    """Try many settings, without looking at training data; pool what all trials found, and judge it with --data."""
    overrides = engine_overrides(overrides, precision, memory_limit)
    elsewhere = {"executor": executor, "address": address, "tracker": tracker}
    if resume is not None:
        refused = {"MODEL": model, "--module": module, "--weights": weights, "--shape": shape, "--data": data}
        refused |= {"--holdout": holdout, "--task": task, "--n": n, "--batch": batch, "--sampler": sampler}
        refused |= {"--storage": storage, "--config": config_file, "--preset": preset, "--overwrite": overwrite}
        refused |= {"--pruning": pruning}
        moved = partial(moved_sweep, folder=resume, elsewhere=elsewhere)
        return go_on(resume, out, overrides, dry_run, as_json, device, refused, trials, moved)
    asked = {"batch": batch, "sampler": sampler, "pruning": pruning, "storage": storage, **elsewhere}
    changes = sweep_overrides(config_file, preset, trials, asked)
    config = configured(config_file, preset, [*changes, *overrides], device)
    source = named_source(model, module, weights, shape)
    trained = any(source.values())
    if not trained and config.source is None and config_file is None and preset is None:
        raise RecollectError("name a MODEL to sweep, or --preset or --config to train one, or give --resume RUN.")
    known = config.data
    if trained:  # a preset's data are not another network's
        known = named_data(config, config_file, overrides, data) if preset is None else None
    reference = as_seen(reference_data(known, data, task, n, holdout, overrides), model)
    sections = {"data": reference} | ({"source": source} if trained else {})
    config = updated(config, sections, "options")
    if config.sweep is not None and config.sweep.storage is not None:
        config = with_settings(config, {"sweep.storage": anchored(config.sweep.storage)}, "options")
    require_usable(config)
    return begin(config, "reproduce" if config.source is None else "judged", out, overwrite, dry_run, as_json)


def moved_sweep(config: Config, folder: Path, elsewhere: Mapping[str, str | None]) -> Config:
    """An interrupted sweep may go on elsewhere: where trials run and who is told has no part in what they find."""
    given = {f"sweep.{name}": value for name, value in elsewhere.items() if value is not None}
    if given and config.sweep is None:
        raise RecollectError(
            f"'{folder}' holds no sweep, so --executor, --address and --tracker do not suit it; leave them out."
        )
    # An address belongs to the executor that it was given with.
    changes: dict[str, str | None] = {"sweep.address": None} if "sweep.executor" in given else {}
    source = config.source
    if source is not None and source.folder is not None and not Path(source.folder).exists():
        copy = folder.resolve() / "model"
        changes |= {"source.folder": str(copy)} if (copy / "model.json").is_file() else {}
    if not changes | given:
        return config
    moved = with_settings(config, changes | given, "options")
    if given:
        require_usable(moved)
    return moved


def require_usable(config: Config) -> None:
    """Storage, cluster, tracker and a network that can get to the cluster are there; nothing is written."""
    if config.sweep is None:
        return
    require_ready(config.sweep, writing=False)
    if config.sweep.executor == "ray" and config.source is not None:
        require_sendable(load_given(config)[0])


def sweep_overrides(
    config_file: Path | None, preset: str | None, trials: int | None, asked: dict[str, int | str | None]
) -> list[str]:
    """The options of a sweep as overrides; they make a sweep of a configuration that is none."""
    known = configured(config_file, preset, None, None)
    if trials is None and known.attack.search is None:
        trials = _TRIALS
    if asked["sampler"] is None and known.sweep is None:
        asked = asked | {"sampler": "random"}
    given = {"attack.search.trials": trials} | {f"sweep.{name}": value for name, value in asked.items()}
    return [f"{key}={json.dumps(value)}" for key, value in given.items() if value is not None]
