"""Trackers of sweeps: TensorBoard, Weights & Biases or MLflow is told of every trial that ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from recollect.core import RecollectError
from recollect.runs import RunFolder
from recollect.sweep.record import Trial, finished_trials
from recollect.trackers import needed

Log = Callable[[Mapping[str, float], int], None]
"""``log(figures, number of the trial)``"""


def tracking(tracker: str, name: str, folder: Path, warn: Callable[[str], None]) -> Callable[[Sequence[Trial]], None]:
    """What is told of trials that were saved: their score, settings, steps and how they ended, by their number.

    Trials that the folder has already are left out: the tracker was told of them when they ended.
    A tracker that fails at the start is an error; one that fails later is warned of once, and the sweep goes on.
    """
    try:
        log = LOGS[tracker](name, folder)
    except RecollectError:
        raise
    # No account, no server, no permission: each has an error of its own.
    except Exception as error:
        raise RecollectError(
            f"the tracker '{tracker}' cannot be used ({_brief(error)}); set it up, or go on with --tracker none."
        ) from error

    listening, before = True, {trial.number for trial in finished_trials(RunFolder(folder))}

    def told(trials: Sequence[Trial]) -> None:
        nonlocal listening
        try:
            for trial in trials if listening else []:
                if trial.number not in before:
                    log(figures(trial), trial.number)
        except Exception as error:
            listening = False
            warn(f"The tracker '{tracker}' failed ({_brief(error)}) and is told nothing more; the sweep goes on.")

    return told


def _brief(error: Exception) -> str:
    said = str(error).strip().splitlines()
    return said[0].rstrip(".")[:150] if said else type(error).__name__


def figures(trial: Trial) -> dict[str, float]:
    """Numbers of a trial; a score is left out where there is none."""
    settings = {f"settings/{name}": value for name, value in trial.settings.model_dump().items()}
    ended = {"pruned": float(trial.pruned), "diverged": float(trial.diverged), "steps": float(trial.steps)}
    return ({} if trial.diverged else {"score": trial.score}) | ended | settings


def _tensorboard(name: str, folder: Path) -> Log:
    del name
    writer = needed("torch.utils.tensorboard", "tensorboard").SummaryWriter(str(folder / "tensorboard"))

    def log(known: Mapping[str, float], number: int) -> None:
        for key, value in known.items():
            writer.add_scalar(f"trial/{key}", value, number)
        writer.flush()

    return log


def _wandb(name: str, folder: Path) -> Log:
    run = needed("wandb", "wandb").init(project="recollect", name=name, dir=str(folder))
    return lambda known, number: run.log({**known, "trial": number})


def _mlflow(name: str, folder: Path) -> Log:
    del folder
    module = needed("mlflow", "mlflow")
    module.set_experiment("recollect")
    module.start_run(run_name=name)
    return lambda known, number: module.log_metrics(
        {key.replace("/", "."): value for key, value in known.items()}, step=number
    )


LOGS: dict[str, Callable[[str, Path], Log]] = {"tensorboard": _tensorboard, "wandb": _wandb, "mlflow": _mlflow}
PACKAGES = {"tensorboard": "torch.utils.tensorboard", "wandb": "wandb", "mlflow": "mlflow"}
