"""Training as most people do it: mini-batches, Adam or SGD with momentum, weight decay, dropout, tens of epochs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal

import torch
from jaxtyping import Float, Int
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn
from torch.nn import functional as F

from recollect.core import RecollectError
from recollect.zoo.arithmetic import DTYPES, DtypeName, training_arithmetic
from recollect.zoo.training import Progress, TrainingCallback, TrainingState

_NET = "network:"
"""Not a dotted name: those are the names of parameters, and a network may have a part called "net"."""
_ROWS = 1024
"""Images per forward pass when nothing is learnt."""


class OrdinaryTraining(BaseModel):
    """How an ordinary classifier is trained: cross-entropy on mini-batches, rates constant or on half a cosine."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["ordinary"] = "ordinary"
    loss: Literal["cross_entropy"] = "cross_entropy"
    optimiser: Literal["adam", "sgd"] = "adam"
    lr: float = Field(default=2e-3, gt=0)
    momentum: float = Field(default=0.9, ge=0, lt=1)
    """Of SGD alone."""
    weight_decay: float = Field(default=5e-4, ge=0)
    batch_size: int = Field(default=64, ge=2)
    epochs: int = Field(default=20, ge=1)
    schedule: Literal["constant", "cosine"] = "cosine"
    dtype: DtypeName = "float32"


def train_ordinarily(
    net: nn.Module,
    x: Float[Tensor, "n ..."],
    y: Int[Tensor, " n"],
    config: OrdinaryTraining,
    seed: int,
    device: torch.device,
    callbacks: Sequence[TrainingCallback] = (),
    state: TrainingState | None = None,
) -> Progress:
    """Train ``net`` in place to the last epoch, and leave it on the CPU in evaluation mode.

    ``Progress.params`` holds everything that changes: weights, statistics of batch norm, moments of the optimiser.
    Passed back as ``state`` it goes on with the same bits on the CPU, for the order of the samples and the units that
    dropout leaves out depend on the number of an epoch alone.
    """
    _check(net, x, y)
    net.to(device=device, dtype=DTYPES[config.dtype])
    x, y = x.to(device, DTYPES[config.dtype]), y.to(device)
    optimiser = _optimiser(net, config)
    if state is not None:
        _restore(net, optimiser, state.params)
    done = 0 if state is None else state.epoch
    with training_arithmetic(config.dtype, device):
        while done < config.epochs:
            _epoch(net, x, y, config, optimiser, seed, done)
            done += 1
            due = [callback for callback in callbacks if done % callback.every == 0 and done < config.epochs]
            if due:
                progress = _measure(net, optimiser, x, y, done)
                for callback in due:
                    callback(progress)
        progress = _measure(net, optimiser, x, y, done)
    for callback in callbacks:
        callback(progress)
    net.cpu().eval()
    return progress


@torch.no_grad()
def outputs_of(net: nn.Module, x: Float[Tensor, "n ..."]) -> Float[Tensor, "n C"]:
    """What the network says in evaluation mode, some images at a time; it is left as it was."""
    was_training, like = net.training, next(net.parameters())
    net.eval()
    try:
        return torch.cat([net(rows.to(like)).to(x.device) for rows in x.split(_ROWS)])
    finally:
        net.train(was_training)


def accuracy(net: nn.Module, x: Float[Tensor, "n ..."], y: Int[Tensor, " n"]) -> float:
    """Share of right labels in evaluation mode: on images it never saw, the test accuracy."""
    return float((outputs_of(net, x).argmax(dim=1) == y).double().mean())


def _epoch(
    net: nn.Module,
    x: Tensor,
    y: Tensor,
    config: OrdinaryTraining,
    optimiser: torch.optim.Optimizer,
    seed: int,
    number: int,
) -> None:
    share = 0.5 * (1 + math.cos(math.pi * number / config.epochs)) if config.schedule == "cosine" else 1.0
    for group in optimiser.param_groups:
        group["lr"] = share * config.lr
    net.train()
    with _randomness_of(seed, number, x.device):
        order = torch.randperm(len(x)).to(x.device)
        for batch in _batches(order, config.batch_size):
            optimiser.zero_grad()
            F.cross_entropy(net(x[batch]), y[batch]).backward()
            optimiser.step()


def _batches(order: Int[Tensor, " n"], size: int) -> Iterator[Int[Tensor, " k"]]:
    """A single sample left over has no variance to normalise by; it joins the batch before it."""
    parts = list(order.split(size))
    if len(parts) > 1 and len(parts[-1]) == 1:
        parts[-2:] = [torch.cat(parts[-2:])]
    return iter(parts)


@contextmanager
def _randomness_of(seed: int, number: int, device: torch.device) -> Iterator[None]:
    """PyTorch's own generators, which dropout uses, as this epoch has them; put back afterwards."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed * 1_000_003 + number)
        yield


def _optimiser(net: nn.Module, config: OrdinaryTraining) -> torch.optim.Optimizer:
    if config.optimiser == "adam":
        return torch.optim.Adam(net.parameters(), lr=config.lr, weight_decay=config.weight_decay)
    return torch.optim.SGD(net.parameters(), lr=config.lr, momentum=config.momentum, weight_decay=config.weight_decay)


def _measure(net: nn.Module, optimiser: torch.optim.Optimizer, x: Tensor, y: Tensor, epoch: int) -> Progress:
    outputs = outputs_of(net, x)
    loss = float(F.cross_entropy(outputs, y))
    if not math.isfinite(loss):
        raise RecollectError(
            f"training diverged before epoch {epoch} (the loss is not finite); lower training.lr, now "
            f"{optimiser.param_groups[0]['lr']:.3g}."
        )
    wrong = float((outputs.argmax(dim=1) != y).double().mean())
    return Progress(epoch, loss, wrong, _everything(net, optimiser))


def _everything(net: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    moments = {
        f"optimiser.{index}.{name}": value
        for index, own in optimiser.state_dict()["state"].items()
        for name, value in own.items()
        if isinstance(value, Tensor)
    }
    weights = {f"{_NET}{name}": value for name, value in net.state_dict().items()}
    return {name: value.detach().clone() for name, value in (weights | moments).items()}


def weights_within(saved: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights and statistics of the network in what was saved of a training, of either kind."""
    inside = {name.removeprefix(_NET): value for name, value in saved.items() if name.startswith(_NET)}
    return inside or dict(saved)


def _restore(net: nn.Module, optimiser: torch.optim.Optimizer, saved: Mapping[str, Tensor]) -> None:
    net.load_state_dict(weights_within(saved))
    moments: dict[int, dict[str, Tensor]] = {}
    for name, value in saved.items():
        owner, _, rest = name.partition(".")
        if owner == "optimiser":
            index, _, moment = rest.partition(".")
            moments.setdefault(int(index), {})[moment] = value.clone()
    optimiser.load_state_dict(optimiser.state_dict() | {"state": moments})


def _check(net: nn.Module, x: Tensor, y: Tensor) -> None:
    if len(x) < 2 or int(y.min()) < 0:
        raise RecollectError(
            f"got {len(x)} samples with labels from {int(y.min()) if len(y) else 'none'}; ordinary training needs at "
            "least two samples and classes counted from 0, so set data.task to classes."
        )
    outputs = outputs_of(net, x[:1]).shape[1]
    if int(y.max()) >= outputs:
        raise RecollectError(
            f"labels go up to {int(y.max())}, but the network has {outputs} outputs; leave model.outputs out, and it "
            "follows from the task."
        )
