"""Trackers of sweeps: TensorBoard, Weights & Biases or MLflow is told of every trial that ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from recollect.sweep.record import Trial
from recollect.trackers import needed

Log = Callable[[str, float, int], None]


def tracking(tracker: str, name: str, folder: Path) -> Callable[[Sequence[Trial]], None]:
    """What is told of trials that were saved: their score, settings, steps and how they ended, by their number."""
    log = LOGS[tracker](name, folder)

    def told(trials: Sequence[Trial]) -> None:
        for trial in trials:
            for key, value in figures(trial).items():
                log(key, value, trial.number)

    return told


def figures(trial: Trial) -> dict[str, float]:
    """Numbers of a trial; a score is left out where there is none."""
    settings = {f"settings/{name}": value for name, value in trial.settings.model_dump().items()}
    ended = {"pruned": float(trial.pruned), "diverged": float(trial.diverged), "steps": float(trial.steps)}
    return ({} if trial.diverged else {"score": trial.score}) | ended | settings


def _tensorboard(name: str, folder: Path) -> Log:
    del name
    writer = needed("torch.utils.tensorboard", "tensorboard").SummaryWriter(str(folder / "tensorboard"))

    def log(key: str, value: float, number: int) -> None:
        writer.add_scalar(f"trial/{key}", value, number)
        writer.flush()

    return log


def _wandb(name: str, folder: Path) -> Log:
    run = needed("wandb", "wandb").init(project="recollect", name=name, dir=str(folder))
    return lambda key, value, number: run.log({key: value, "trial": number})


def _mlflow(name: str, folder: Path) -> Log:
    del folder
    module = needed("mlflow", "mlflow")
    module.set_experiment("recollect")
    module.start_run(run_name=name)
    return lambda key, value, number: module.log_metric(key.replace("/", "."), value, step=number)


LOGS: dict[str, Callable[[str, Path], Log]] = {"tensorboard": _tensorboard, "wandb": _wandb, "mlflow": _mlflow}
PACKAGES = {"tensorboard": "torch.utils.tensorboard", "wandb": "wandb", "mlflow": "mlflow"}
