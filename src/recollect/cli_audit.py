"""``recollect audit``: can someone get the training data out of these weights? A verdict within a budget of time."""

from __future__ import annotations

import json
import os
import shlex
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from recollect import interrupts
from recollect.audit.budget import Ledger, parse_budget
from recollect.audit.junit import junit
from recollect.audit.preparing import Prepared
from recollect.audit.running import Audit, go, plan_audit, resume, start
from recollect.audit.sarif import sarif
from recollect.audit.seen import WORDS
from recollect.audit.subject import ANY_TASK
from recollect.cli_options import (
    AsJson,
    Count,
    Data,
    Device,
    DryRun,
    Holdout,
    Out,
    Overwrite,
    Precision,
    Resume,
    Shape,
    Task,
    Weights,
)
from recollect.cli_runs import (
    command_line,
    configured,
    data_of,
    engine_overrides,
    named_source,
    reference_data,
    run_in,
)
from recollect.config import Config, to_toml, updated
from recollect.core import RecollectError
from recollect.progress import Narrator

LEAKS = 3
"""Exit code where more was recovered than --fail-above allows."""
_BUDGET = "2m"

Model = Annotated[Path | None, typer.Argument(help="A folder written by 'recollect train' or a run folder.")]
Module = Annotated[
    str | None,
    typer.Option("--model", "--module", help="Your own network: package.module:callable. It is imported and run."),
]
Budget = Annotated[
    str | None, typer.Option("--budget", metavar="TIME", help=f"For all of it: 90s, 10m, 2h; {_BUDGET} by default.")
]
FailAbove = Annotated[
    int | None,
    typer.Option("--fail-above", min=0, help="Recovered samples that are tolerated, 0 by default; more exit with 3."),
]
Rate = Annotated[
    float | None,
    typer.Option("--false-positive-rate", help="Share of unseen samples that may pass by luck; 0.01 by default."),
]
SeenAs = Annotated[
    str | None,
    typer.Option("--seen", metavar="HOW", help=f"How the network saw samples: {', '.join(WORDS)}; else measured."),
]
KeepMean = Annotated[bool, typer.Option("--keep-mean", help="The same as --seen raw: samples as they are in the file.")]
Junit = Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Write the verdict as JUnit XML.")]
Sarif = Annotated[Path | None, typer.Option("--sarif", metavar="FILE", help="Write affected samples as SARIF 2.1.0.")]


def audit(
    model: Model = None,
    module: Module = None,
    weights: Weights = None,
    shape: Shape = None,
    data: Data = None,
    holdout: Holdout = None,
    task: Task = None,
    n: Count = None,
    budget: Budget = None,
    rate: Rate = None,
    fail_above: FailAbove = None,
    seen: SeenAs = None,
    keep_mean: KeepMean = False,
    junit_file: Junit = None,
    sarif_file: Sarif = None,
    out: Out = None,
    resume_run: Resume = None,
    overwrite: Overwrite = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    device: Device = None,
    precision: Precision = None,
) -> None:
    """Check a network, attack it within a budget of time, and say which training samples leak. Exit code 3: some do."""
    ledger = Ledger(parse_budget(budget or _BUDGET))
    narrator = Narrator(quiet=as_json)
    named = {"MODEL": model, "--model": module, "--weights": weights, "--shape": shape, "--data": data, "--n": n}
    named |= {"--holdout": holdout, "--task": task, "--budget": budget, "--false-positive-rate": rate}
    named |= {"--fail-above": fail_above, "--seen": seen, "--keep-mean": keep_mean, "--overwrite": overwrite}
    named |= {"--precision": precision}
    for file in filter(None, (junit_file, sarif_file)):
        _require_writable(file)
    if resume_run is not None:
        _refuse(resume_run, named | {"--out": out, "--dry-run": dry_run})
        return _finish(resume(resume_run, narrator, command_line(), device), as_json, junit_file, sarif_file)
    rate = 0.01 if rate is None else rate
    declared = _declared(seen, keep_mean)
    subject = _subject(model, module, weights, shape, data, holdout, task, n, device, precision)
    with redirect_stdout(sys.stderr):
        prepared = plan_audit(subject.config, declared or subject.seen, precision, rate, ledger, narrator)
    if dry_run:
        return _show_plan(prepared, as_json)
    folder = Path("runs") / prepared.config.name if out is None else out
    begun = start(prepared, folder, rate, fail_above or 0, ledger, narrator, command_line(), overwrite)
    return _finish(begun, as_json, junit_file, sarif_file)


def _declared(seen: str | None, keep_mean: bool) -> str | None:
    if seen is not None and seen not in WORDS:
        raise RecollectError(f"--seen is '{seen}'; choose from {', '.join(WORDS)}.")
    if seen is not None and keep_mean:
        raise RecollectError("--keep-mean is the same as --seen raw; give one of them.")
    return "raw" if keep_mean else seen


@dataclass(frozen=True)
class _Subject:
    """Which network and which data; ``seen`` says how it saw them, where a run folder knows."""

    config: Config
    seen: str | None


def _subject(
    model: Path | None,
    module: str | None,
    weights: str | None,
    shape: str | None,
    data: str | None,
    holdout: str | None,
    task: str | None,
    n: int | None,
    device: str | None,
    precision: str | None,
) -> _Subject:
    run = run_in(model)
    source: dict[str, Any] = named_source(model, module, weights, shape)
    if run is not None and run.source is not None and not (module or weights or shape):
        source = run.source.model_dump()  # the run attacked a network that lies elsewhere
    reference = reference_data(data_of(run), data, task or (ANY_TASK if data else None), n, holdout)
    settings = engine_overrides(['name="audit"'], precision, None)
    config = updated(configured(None, None, settings, device), {"source": source, "data": reference}, "options")
    return _Subject(config, None if run is None else _seen_by(run))


def _seen_by(run: Config) -> str | None:
    """How a network saw its samples: as it was trained in this run, or as the run's data were declared."""
    stated = run.data is not None and run.data.centred is not None
    return ("centred" if run.centred else "raw") if run.source is None or stated else None


def _refuse(run: Path, options: dict[str, object]) -> None:
    given = next((option for option, value in options.items() if value), None)
    if given is not None:
        raise RecollectError(
            f"--resume {run} goes on with the audit as it was started, so {given} cannot change it; leave it out."
        )


def _finish(begun: Audit, as_json: bool, junit_file: Path | None, sarif_file: Path | None) -> None:
    try:
        # Networks of the user's own may print whenever they are called.
        with interrupts.raised(), redirect_stdout(sys.stderr):
            go(begun)
    except KeyboardInterrupt:
        command = shlex.join(["recollect", "audit", "--resume", str(begun.run.folder.path)])
        Console(stderr=True).print(f"Interrupted. Go on with: {command}", markup=False, soft_wrap=True)
        raise typer.Exit(interrupts.INTERRUPTED) from None
    found, fails = begun.record, begun.fails
    if junit_file is not None:
        _write(junit_file, junit(found, fails))
    if sarif_file is not None:
        _write(sarif_file, sarif(found, _weights_of(begun), fails))
    if as_json:
        print(json.dumps(found))
    else:
        _show(begun, found)
    if fails:
        raise typer.Exit(LEAKS)


def _show(begun: Audit, found: dict[str, Any]) -> None:
    console = Console(highlight=False)
    console.print(f"\n{found['verdict']}", markup=False, soft_wrap=True)
    for heading in ("measured", "declared", "interpretation", "not_excluded"):
        console.print(f"\n{heading.replace('_', ' ').capitalize()}:", markup=False)
        for sentence in found[heading]:
            console.print(f"  - {sentence}", markup=False, soft_wrap=True)
    console.print(f"\nLook at {begun.run.folder.path / 'report.html'}", markup=False, soft_wrap=True)


def _show_plan(prepared: Prepared, as_json: bool) -> None:
    if as_json:
        plan = {"config": prepared.config.model_dump(mode="json"), "plan": prepared.words, "seen": prepared.seen}
        return print(json.dumps(plan | {"network": list(prepared.network), "skipped": dict(prepared.skipped)}))
    return print(f"{to_toml(prepared.config)}\n# " + prepared.told.replace("\n", "\n# "))


def _weights_of(begun: Audit) -> str:
    source = begun.run.config.source
    assert source is not None
    return source.weights or source.folder or source.module or ""


def _require_writable(path: Path) -> None:
    """Before the audit: its result would be lost otherwise."""
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if path.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        raise RecollectError(f"'{path}' cannot be written; name a file in a folder that can.")


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RecollectError(f"cannot write '{path}': {error.strerror or error}.") from error
