"""Options that several commands share, each with its help text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
Device = Annotated[
    str | None,
    typer.Option("--device", help="auto, cpu, cuda, cuda:N; several, cuda:0,cuda:1, or cuda:all share the trials."),
]
Precision = Annotated[
    str | None, typer.Option("--precision", help="Of the search: fp16, tf32 (on GPUs, float32 elsewhere), fp32, fp64.")
]
MemoryLimit = Annotated[
    str | None,
    typer.Option(
        "--memory-limit", metavar="SIZE", help="Memory for a step, such as 8GiB; what does not fit goes in parts."
    ),
]
Jobs = Annotated[
    int, typer.Option("--jobs", min=1, help="Members of a series that run at the same time, in processes of their own.")
]
Module = Annotated[
    str | None,
    typer.Option("--module", help="Your own network: package.module:callable. It is imported and run."),
]
Weights = Annotated[
    str | None, typer.Option("--weights", help="Its state dict (.safetensors, or .pt without pickled code).")
]
Shape = Annotated[str | None, typer.Option("--shape", help="Shape of one input, such as 1,28,28.")]
ConfigFile = Annotated[Path | None, typer.Option("--config", help="Configuration file (TOML).")]
Preset = Annotated[str | None, typer.Option("--preset", help="Start from a preset instead of a file.")]
Data = Annotated[
    str | None, typer.Option("--data", help="Training data: a standard name, a file or a folder of images.")
]
Holdout = Annotated[
    str | None, typer.Option("--holdout", help="Samples the network never saw; calibrates the verdict.")
]
Task = Annotated[
    str | None,
    typer.Option("--task", help="odd_even, vehicles_animals, binary for your own two classes, classes for more."),
]
Count = Annotated[
    int | None, typer.Option("--n", help="Training samples: equal shares of each class, the first in file order.")
]
