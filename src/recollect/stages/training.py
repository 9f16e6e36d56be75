"""The stage that makes a target: train, with a curve and a way back after a kill."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from recollect.core import RecollectError
from recollect.data import TaskData
from recollect.datasets import heldout_data, training_data
from recollect.groups import Group
from recollect.networks import NetworkFacts, save_network
from recollect.outputs import error_rate
from recollect.progress import TrainingBar
from recollect.runs import RunFolder
from recollect.stages.run import Run
from recollect.zoo import OrdinaryTraining, build_network, fitted, train, train_ordinarily, weights_within
from recollect.zoo.arithmetic import effective
from recollect.zoo.training import Progress, TrainingCallback, TrainingState

UNFINISHED = "training.safetensors"


def train_stage(run: Run) -> None:
    """Train the network that the configuration describes, and save it under ``model/``."""
    config, folder = run.config, run.folder.subfolder("model")
    data = training_data(config)
    architecture = fitted(config.model, config.training.loss, data.classes)
    sample_shape = tuple(data.x.shape[1:])
    net = build_network(architecture, sample_shape, config.seed)
    state, spent = _unfinished(folder, net)
    done = 0 if state is None else state.epoch
    epochs = config.training.epochs
    source = "" if config.data is None else f" of {config.data.name}"
    where = f"({run.device}, {effective(config.training.dtype, run.device)})"
    run.narrator.say(f"Training {_shape_of(net)} on {len(data.x)} samples{source} {where}")
    started = time.monotonic() - spent
    with run.narrator.bar("training", epochs, done) as advance:
        callbacks = [
            TrainingBar(advance, max(1, epochs // 100)),
            _Curve(folder, max(1, epochs // 200), started),
            _SavedWeights(folder, max(1, epochs // 200), config.checkpoint_seconds),
        ]
        last = _train(run, net, data, callbacks, state)
    facts = {
        "epochs": last.epoch,
        "loss": last.loss,
        "error": last.error,
        "seconds": time.monotonic() - started,
    }
    heldout = heldout_data(config, data)
    facts["test_error"] = None if heldout is None else error_rate(net, heldout)
    save_network(folder, net, NetworkFacts(architecture=architecture, sample_shape=sample_shape, training=facts))
    folder.remove(UNFINISHED)
    ended = f"  loss {last.loss:.2e}, training error {last.error:.1%} after {last.epoch} epochs"
    tested = "" if facts["test_error"] is None else f", test accuracy {1 - facts['test_error']:.1%}"
    run.narrator.say(ended + tested)


def _train(
    run: Run, net: nn.Module, data: TaskData, callbacks: Sequence[TrainingCallback], state: TrainingState | None
) -> Progress:
    chosen, seed = run.config.training, run.config.seed
    if isinstance(chosen, OrdinaryTraining):
        return train_ordinarily(net, data.x, data.y, chosen, seed, run.device, callbacks, state)
    return train(net, data.x, data.y, chosen, seed, run.device, callbacks, state)


@dataclass(frozen=True)
class _Curve:
    """The training curve, a line per call."""

    folder: RunFolder
    every: int
    started: float

    def __call__(self, progress: Progress) -> None:
        line = {"epoch": progress.epoch, "loss": progress.loss, "error": progress.error}
        self.folder.append_line("curve.jsonl", line | {"seconds": round(time.monotonic() - self.started, 3)})


@dataclass
class _SavedWeights:
    """Unfinished training, saved at most once in ``seconds``."""

    folder: RunFolder
    every: int
    seconds: float
    last: float = field(default_factory=time.monotonic)

    def __call__(self, progress: Progress) -> None:
        if time.monotonic() - self.last >= self.seconds:
            epoch = torch.tensor(progress.epoch)
            self.folder.write_tensors(UNFINISHED, {"epoch": epoch, **progress.params})
            self.last = time.monotonic()


def _unfinished(folder: RunFolder, net: nn.Module) -> tuple[TrainingState | None, float]:
    """Where training stood when it was interrupted, and the seconds it had taken."""
    if not folder.has(UNFINISHED):
        folder.keep_lines("curve.jsonl", "epoch", 0)
        return None, 0.0
    saved = folder.read_tensors(UNFINISHED)
    epoch = int(saved.pop("epoch", torch.tensor(-1)))
    if epoch < 0 or _shapes(weights_within(saved)) != _shapes(net.state_dict()):
        raise RecollectError(f"'{folder.path / UNFINISHED}' does not fit config.toml; start anew with --overwrite.")
    kept = folder.keep_lines("curve.jsonl", "epoch", epoch)
    return TrainingState(epoch, saved), kept[-1].get("seconds", 0.0) if kept else 0.0


def _shapes(tensors: Mapping[str, Tensor]) -> dict[str, torch.Size]:
    return {name: value.shape for name, value in tensors.items()}


def _shape_of(net: nn.Module) -> str:
    """The layers in short.

    >>> from recollect.zoo import ClassifierArchitecture, ConvArchitecture, MLPArchitecture
    >>> _shape_of(build_network(MLPArchitecture(hidden=(8,)), (1, 4, 4), seed=0))
    '16-8-1'
    >>> _shape_of(build_network(MLPArchitecture(hidden=(8,), group="flip"), (1, 4, 4), seed=0))
    '16-8-1, invariant to flip'
    >>> _shape_of(build_network(ConvArchitecture(channels=2, hidden=(8,)), (3, 4, 4), seed=0))
    'conv 3x3 x2 - 8 - 1'
    >>> _shape_of(build_network(ClassifierArchitecture(channels=(2, 4), hidden=8, outputs=10), (3, 16, 16), seed=0))
    'conv 3x3 x2 - conv 3x3 x4 - 8 - 10'
    """
    linear = [part for part in net.modules() if isinstance(part, nn.Linear)]
    outputs = [str(part.out_features) for part in linear]
    convolutions = [part for part in net.modules() if isinstance(part, nn.Conv2d)]
    if not convolutions:
        group = getattr(net, "group", None)
        invariant = f", invariant to {group.name}" if isinstance(group, Group) else ""
        return "-".join([str(linear[0].in_features), *outputs]) + invariant
    sizes = [(*part.kernel_size, part.out_channels) for part in convolutions]
    return " - ".join([*(f"conv {height}x{width} x{channels}" for height, width, channels in sizes), *outputs])
