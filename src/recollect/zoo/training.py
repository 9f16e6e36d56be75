"""Train a network until it memorises: gradient descent on all samples, or mini-batches, for very many epochs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from jaxtyping import Float, Int
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn
from torch.func import functional_call

from recollect.core import RecollectError, next_pause
from recollect.wide_products import products_of_linear_layers
from recollect.zoo.arithmetic import DTYPES, DtypeName, training_arithmetic
from recollect.zoo.losses import LOSSES, LossName


class TrainingConfig(BaseModel):
    """How the target is trained.

    Published: full batch, lr 0.01, one million epochs, float64 (Haim 2022, section 5.1); lr 0.5 for several classes
    (Buzaglo 2023, appendix B).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["memorise"] = "memorise"
    loss: LossName = "logistic"
    lr: float = Field(default=0.01, gt=0)
    epochs: int = Field(default=1_000_000, ge=1)
    batch_size: int | None = Field(default=None, ge=1)
    weight_decay: float = Field(default=0.0, ge=0)
    stop_loss: float = Field(default=0.0, ge=0)
    dtype: DtypeName = "float64"
    """``tf32``: float32 with products rounded to TF32 on GPUs; plain float32 elsewhere."""


@dataclass(frozen=True)
class TrainingState:
    """Where training stands after ``epoch`` epochs; enough to go on with the same bits."""

    epoch: int
    params: dict[str, Tensor]


@dataclass(frozen=True)
class Progress:
    """What a training callback sees: mean loss and share of wrong labels over the training set."""

    epoch: int
    loss: float
    error: float
    params: dict[str, Tensor]


class TrainingCallback(Protocol):
    every: int

    def __call__(self, progress: Progress) -> None: ...


def train(
    net: nn.Module,
    x: Float[Tensor, "n ..."],
    y: Int[Tensor, " n"],
    config: TrainingConfig,
    seed: int,
    device: torch.device,
    callbacks: Sequence[TrainingCallback] = (),
    state: TrainingState | None = None,
) -> Progress:
    """Train ``net`` in place to the last epoch or to ``stop_loss``, from its weights or from a saved state.

    The loss is looked at every ``check_every`` epochs (a hundredth of all), and after the last one.
    """
    dtype = DTYPES[config.dtype]
    x, y = x.to(device, dtype), y.to(device)
    start = dict(net.named_parameters()) if state is None else state.params
    params = {name: value.detach().to(device, dtype).clone() for name, value in start.items()}
    net.to(device=device, dtype=dtype)  # buffers; the parameters themselves are passed in
    fast_products = products_of_linear_layers(min(len(x), config.batch_size or len(x)), params.values())
    with training_arithmetic(config.dtype, device), fast_products:
        progress = _until_done(net, params, x, y, config, seed, callbacks, 0 if state is None else state.epoch)
    net.cpu().load_state_dict({name: value.cpu() for name, value in params.items()}, strict=False)
    return progress


def _until_done(
    net: nn.Module,
    params: dict[str, Tensor],
    x: Tensor,
    y: Tensor,
    config: TrainingConfig,
    seed: int,
    callbacks: Sequence[TrainingCallback],
    epochs_done: int,
) -> Progress:
    run_epochs = _epoch_runner(net, params, x, y, config, seed)
    checks = [_EveryHundredth(config.epochs), *callbacks]
    progress = _measure(net, params, x, y, config, epochs_done)
    while epochs_done < config.epochs and progress.loss > config.stop_loss:
        pause = next_pause(epochs_done, config.epochs, (check.every for check in checks))
        run_epochs(epochs_done, pause)
        epochs_done = pause
        progress = _measure(net, params, x, y, config, epochs_done)
        if not math.isfinite(progress.loss):
            raise RecollectError(
                f"training diverged before epoch {epochs_done} (the loss is not finite); lower training.lr, "
                f"now {config.lr}."
            )
        for check in checks:
            if epochs_done % check.every == 0 or epochs_done == config.epochs:
                check(progress)
    return progress


@dataclass(frozen=True)
class _EveryHundredth:
    """No callback, only a cadence: how often the stopping rule looks at the loss."""

    epochs: int

    @property
    def every(self) -> int:
        return max(1, self.epochs // 100)

    def __call__(self, progress: Progress) -> None:
        del progress


def _epoch_runner(
    net: nn.Module, params: dict[str, Tensor], x: Tensor, y: Tensor, config: TrainingConfig, seed: int
) -> Callable[[int, int], None]:
    """``run(first, last)`` takes the epochs [first, last); on a GPU one epoch is one replayed CUDA graph."""
    order = torch.arange(len(x), device=x.device)
    batches = order.split(config.batch_size or len(x))

    def epoch() -> None:
        for batch in batches:
            full = config.batch_size is None
            _descend(net, params, x if full else x[batch], y if full else y[batch], config)

    take_epoch = _record(epoch, params) if x.device.type == "cuda" else epoch

    def run(first: int, last: int) -> None:
        for number in range(first, last):
            if config.batch_size is not None:
                # The order of an epoch depends on its number alone, so a resumed run sees the same batches.
                generator = torch.Generator().manual_seed(seed * 1_000_003 + number)
                order.copy_(torch.randperm(len(order), generator=generator))
            take_epoch()

    return run


def _descend(net: nn.Module, params: dict[str, Tensor], x: Tensor, y: Tensor, config: TrainingConfig) -> None:
    """``theta <- theta - lr (grad mean loss + wd theta)``, in place."""
    leaves = {name: value.detach().requires_grad_() for name, value in params.items()}
    with torch.enable_grad():
        loss = LOSSES[config.loss].per_sample(functional_call(net, leaves, (x,)), y).mean()
    grads = torch.autograd.grad(loss, list(leaves.values()))
    values = list(params.values())
    with torch.no_grad():
        if config.weight_decay:
            torch._foreach_mul_(values, 1 - config.lr * config.weight_decay)  # pyright: ignore[reportPrivateImportUsage]
        torch._foreach_add_(values, grads, alpha=-config.lr)  # pyright: ignore[reportPrivateImportUsage]


def _record(epoch: Callable[[], None], params: dict[str, Tensor]) -> Callable[[], None]:
    before = {name: value.clone() for name, value in params.items()}
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            epoch()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        epoch()
    for name, value in before.items():  # the warm-up took steps of its own
        params[name].copy_(value)
    return graph.replay


@torch.no_grad()
def _measure(
    net: nn.Module, params: dict[str, Tensor], x: Tensor, y: Tensor, config: TrainingConfig, epoch: int
) -> Progress:
    outputs = functional_call(net, params, (x,))
    loss = LOSSES[config.loss].per_sample(outputs, y).mean()
    error = LOSSES[config.loss].wrong(outputs, y).double().mean()
    return Progress(epoch, float(loss), float(error), params)
