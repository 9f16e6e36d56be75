"""Experiment trackers as callbacks. Each needs its own package, an extra of recollect."""

from __future__ import annotations

import importlib
from types import ModuleType

from recollect.callbacks import Tracker
from recollect.core import RecollectError


def tensorboard(folder: str, every: int = 100) -> Tracker:
    """Curves of every term and trial under ``folder``; look at them with ``tensorboard --logdir``."""
    writer = needed("torch.utils.tensorboard", "tensorboard").SummaryWriter(folder)

    def log(name: str, value: float, step: int) -> None:
        writer.add_scalar(name, value, step)
        writer.flush()

    return Tracker(log, every)


def wandb(project: str, name: str | None = None, mode: str | None = None, every: int = 100) -> Tracker:
    """A run on Weights & Biases; ``mode="offline"`` keeps it on this machine."""
    run = needed("wandb", "wandb").init(project=project, name=name, mode=mode)
    return Tracker(lambda term, value, step: run.log({term: value, "step": step}), every)


def mlflow(experiment: str, run_name: str | None = None, every: int = 100) -> Tracker:
    """A run in the MLflow experiment, on the tracking server that MLflow is set up for."""
    module = needed("mlflow", "mlflow")
    module.set_experiment(experiment)
    module.start_run(run_name=run_name)
    return Tracker(lambda term, value, step: module.log_metric(term.replace("/", "."), value, step=step), every)


def needed(module: str, extra: str) -> ModuleType:
    """A package that an extra brings."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise RecollectError(
            f"this tracker needs a package that is not here: pip install 'recollect[{extra}]'."
        ) from error
