"""From configuration to objects: the only tables from names to classes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from recollect.candidates import Pixels, RowSpace, signal_basis
from recollect.config import AttackConfig
from recollect.core import Candidates, Objective, RecollectError, Target, TrialRng
from recollect.memory import chunk_within
from recollect.objectives import KKT, ActivationMaximisation
from recollect.objectives.cotangents import TASKS, Task, balanced_labels
from recollect.objectives.kkt import parameter_weights
from recollect.optimisers import Momentum
from recollect.priors import Box
from recollect.problem import Problem
from recollect.sharing import own_part, shared, sum_across
from recollect.targets import MLPTarget, as_target

_LONG_RUN = 1e14
"""Weights times candidates times steps: some minutes on two CPU cores, half a minute on a large GPU."""

Settings = dict[str, Tensor]
"""Each trial setting as a ``[T]`` tensor."""


def _kkt(attack: AttackConfig, settings: Settings, task: Task) -> Objective:
    return KKT(
        candidates=attack.candidates,
        smoothing=settings["smoothing"],
        dual_min=settings["dual_min"],
        layer_weights=attack.layer_weights,
        floor_weight=attack.dual_floor_weight,
        direction=task.margin,
        free_sign=task.free_sign,
        chunk=attack.chunk,
        total=sum_across(),
    )


def _activation(attack: AttackConfig, settings: Settings, task: Task) -> Objective:
    del attack
    return ActivationMaximisation(settings["smoothing"], task.activation)


OBJECTIVES: dict[str, Callable[[AttackConfig, Settings, Task], Objective]] = {
    "kkt": _kkt,
    "activation": _activation,
}


def build_problems(
    net: nn.Module, sample_shape: tuple[int, ...], attack: AttackConfig, seed: int, devices: Sequence[torch.device]
) -> list[Problem]:
    """Parts of one run, trials spread evenly over the devices, in order; a device without trials is left out."""
    count, trials = len(devices), len(attack.trials)
    shares = [range(trials * index // count, trials * (index + 1) // count) for index in range(count)]
    return [
        build_problem(net, sample_shape, attack, seed, device, share)
        for device, share in zip(devices, shares, strict=True)
        if len(share)
    ]


def build_problem(
    net: nn.Module,
    sample_shape: tuple[int, ...],
    attack: AttackConfig,
    seed: int,
    device: torch.device,
    share: range | None = None,
) -> Problem:
    """Everything ``solve`` needs, on the device, in the precision asked for; ``share`` names some of the trials."""
    share = range(len(attack.trials)) if share is None else share
    attack = attack.model_copy(update={"trials": tuple(attack.trials[index] for index in share)})
    dtype = torch.float64 if attack.precision == "fp64" else torch.float32
    half = attack.precision == "fp16" and attack.method == "kkt" and device.type == "cuda"
    target = as_target(net, sample_shape, attack.target, dtype, device, attack.recompute, half)
    outputs = _outputs_of(target, dtype, device)
    task = _task(attack, outputs)
    parameter_weights(target, attack.layer_weights)
    settings = {
        name: torch.tensor([getattr(trial, name) for trial in attack.trials], dtype=dtype, device=device)
        for name in type(attack.trials[0]).model_fields
    }
    candidates: Candidates = Pixels(attack.candidates, target.sample_shape, settings["init_scale"])
    if attack.space == "row":
        basis = signal_basis(_mlp(target).first_weight, attack.max_rank, multiple=8)
        shape, scale = target.sample_shape, settings["init_scale"]
        candidates = RowSpace(attack.candidates, shape, scale, basis, attack.exposed_share, half)
        target = _mlp(target).in_subspace(basis)
    return Problem(
        target=target,
        objective=OBJECTIVES[attack.method](_within_memory(attack, target), settings, task),
        candidates=candidates,
        optimiser=Momentum({"x": settings["lr_x"], "duals": settings["lr_duals"]}, attack.momentum),
        labels=balanced_labels(attack.candidates, outputs)[own_part(attack.candidates)].to(device),
        rng=TrialRng(seed, tuple(share), dtype, device, own_part(attack.candidates)),
        steps=attack.steps,
        priors={"box": Box(attack.box_weight)} if attack.box_weight else {},
        schedule=attack.schedule,
        precision=attack.precision,
        compiled=_worth_compiling(attack, target),
        stall=attack.stall,
        total=sum_across(),
    )


def _worth_compiling(attack: AttackConfig, target: Target) -> bool:
    """Compiling takes half a minute and saves a tenth or more; the choice depends on the configuration alone."""
    if attack.compile != "auto" or shared():
        return attack.compile == "on"
    weights = sum(parameter.numel() for parameter in target.params.values())
    work = attack.steps * len(attack.trials) * attack.candidates * weights
    return isinstance(target, MLPTarget) and attack.method == "kkt" and work > _LONG_RUN


def _within_memory(attack: AttackConfig, target: Target) -> AttackConfig:
    if attack.memory_limit is None or attack.chunk is not None or not isinstance(target, MLPTarget):
        return attack
    own = own_part(attack.candidates)
    size = 8 if attack.precision == "fp64" else 4
    chunk = chunk_within(attack.memory_limit, target.widths, len(attack.trials), own.stop - own.start, size)
    return attack.model_copy(update={"chunk": chunk})


def _mlp(target: Target) -> MLPTarget:
    if not isinstance(target, MLPTarget):
        raise RecollectError(
            "the row space is that of an MLP's first layer, this network is no plain MLP; use --set attack.space=full."
        )
    return target


def first_layer_rows(net: nn.Module, sample_shape: tuple[int, ...]) -> Tensor:
    """Weight visualisation (Haim 2022, section 5.4): rows of the first layer, ``[1, units, *sample]``."""
    first = next((part for part in net.modules() if isinstance(part, nn.Linear)), None)
    if first is None or first.in_features != math.prod(sample_shape):
        raise RecollectError(
            f"weight visualisation needs a first Linear layer that sees all {math.prod(sample_shape)} inputs; "
            "this network has none."
        )
    return first.weight.detach().float().reshape(1, -1, *sample_shape)


def _task(attack: AttackConfig, outputs: int) -> Task:
    name = attack.task if attack.task != "auto" else "binary" if outputs == 1 else "multiclass"
    if (outputs == 1) == (name == "multiclass"):
        needed = "at least two outputs" if name == "multiclass" else "one output"
        raise RecollectError(
            f"the network has {outputs} output{'s' * (outputs > 1)}, attack.task = {name} needs {needed}; "
            "leave attack.task at 'auto' to let the network decide."
        )
    return TASKS[name]


def _outputs_of(target: Target, dtype: torch.dtype, device: torch.device) -> int:
    """C, after trying the network once: what it cannot do is said before anything is searched."""
    shape = list(target.sample_shape)
    try:
        outputs, pullback = target.linearise(
            torch.zeros(1, 2, *shape, dtype=dtype, device=device), torch.ones(1, dtype=dtype, device=device)
        )
        pullback(torch.ones_like(outputs))
    except RecollectError:
        raise
    # A network of the user's own may raise anything.
    except Exception as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise RecollectError(
            f"the network cannot be evaluated and differentiated on inputs of shape {shape} ({reason}); check --shape."
        ) from error
    return outputs.shape[2]
