"""From configuration to objects: the only tables from names to classes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from recollect.build_generator import build_generator_problem
from recollect.build_parts import SPACES, Search, Settings, attacked, optimiser_for, priors_for, row_basis
from recollect.config import AttackConfig
from recollect.core import Objective, RecollectError, Target, TrialRng
from recollect.given import NOTHING, Given
from recollect.memory import AtOnce, Footprint, footprint_of, within
from recollect.objectives import KKT, ActivationMaximisation
from recollect.objectives.cotangents import TASKS, Task, balanced_labels
from recollect.objectives.kkt import parameter_weights
from recollect.problem import Problem
from recollect.sharing import own_part, shared, sum_across
from recollect.targets import MLPTarget, as_target, inside, is_perceptron

_LONG_RUN = 1e14
"""Weights times candidates times steps: some minutes on two CPU cores, half a minute on a large GPU."""


def _kkt(attack: AttackConfig, settings: Settings, task: Task, at_once: AtOnce) -> Objective:
    return KKT(
        candidates=attack.candidates,
        smoothing=settings["smoothing"],
        dual_min=settings["dual_min"],
        layer_weights=attack.layer_weights,
        floor_weight=attack.dual_floor_weight,
        direction=task.margin,
        free_sign=task.free_sign,
        at_once=at_once,
        total=sum_across(),
    )


def _activation(attack: AttackConfig, settings: Settings, task: Task, at_once: AtOnce) -> Objective:
    del attack, at_once
    return ActivationMaximisation(settings["smoothing"], task.activation)


OBJECTIVES: dict[str, Callable[[AttackConfig, Settings, Task, AtOnce], Objective]] = {
    "kkt": _kkt,
    "activation": _activation,
}


def build_problems(
    net: nn.Module,
    sample_shape: tuple[int, ...],
    attack: AttackConfig,
    seed: int,
    devices: Sequence[torch.device],
    numbers: Sequence[int] | None = None,
    given: Given = NOTHING,
) -> list[Problem]:
    """Parts of one run, trials spread evenly over the devices, in order; a device without trials is left out.

    ``numbers`` names some of the trials; all of them where it is left out.
    """
    numbers = range(len(attack.trials)) if numbers is None else numbers
    count, trials = len(devices), len(numbers)
    shares = [numbers[trials * index // count : trials * (index + 1) // count] for index in range(count)]
    return [
        build_problem(net, sample_shape, attack, seed, device, share, given)
        for device, share in zip(devices, shares, strict=True)
        if len(share)
    ]


def build_problem(
    net: nn.Module,
    sample_shape: tuple[int, ...],
    attack: AttackConfig,
    seed: int,
    device: torch.device,
    share: Sequence[int] | None = None,
    given: Given = NOTHING,
) -> Problem:
    """Everything ``solve`` needs, on the device, in the precision asked for; ``share`` names some of the trials."""
    share = range(len(attack.trials)) if share is None else share
    attack = attack.model_copy(update={"trials": tuple(attack.trials[index] for index in share)})
    if attack.method == "generator":
        return build_generator_problem(net, sample_shape, attack, seed, device, share)
    dtype = _dtype(attack)
    half = attack.precision == "fp16" and attack.method == "kkt" and device.type == "cuda"
    target = as_target(attacked(net, attack), sample_shape, attack.target, dtype, device, attack.recompute, half)
    outputs = _outputs_of(target, dtype, device)
    task = _task(attack, outputs)
    parameter_weights(target, attack.layer_weights)
    rng = TrialRng(seed, tuple(share), dtype, device, own_part(attack.candidates))
    search = Search.of(net, sample_shape, attack, rng, half, given)
    candidates, target = SPACES[attack.space](search, target)
    compiled = _worth_compiling(attack, target)
    optimiser = optimiser_for(search, candidates)
    footprint = footprint_of(dtype.itemsize, half, compiled and device.type == "cuda", optimiser.copies)
    at_once = _at_once(attack, target, footprint)
    return Problem(
        target=target,
        objective=OBJECTIVES[attack.method](attack, search.settings, task, at_once),
        candidates=candidates,
        optimiser=optimiser,
        labels=balanced_labels(attack.candidates, outputs)[own_part(attack.candidates)].to(device),
        rng=rng,
        steps=attack.steps,
        priors=priors_for(search, sample_shape),
        schedule=attack.schedule,
        precision=attack.precision,
        compiled=compiled,
        stall=attack.stall,
        memory_limit=attack.memory_limit,
        total=sum_across(),
    )


def shared_basis(
    net: nn.Module, sample_shape: tuple[int, ...], attack: AttackConfig, device: torch.device
) -> Float[Tensor, "d r"] | None:
    """What many problems of one network need not find each for itself: the basis of its row space, if they have one."""
    if attack.space != "row" or attack.method == "generator":
        return None
    target = as_target(attacked(net, attack), sample_shape, attack.target, _dtype(attack), device)
    return row_basis(target, attack.max_rank)


def _dtype(attack: AttackConfig) -> torch.dtype:
    return torch.float64 if attack.precision == "fp64" else torch.float32


def _worth_compiling(attack: AttackConfig, target: Target) -> bool:
    """Compiling takes half a minute and saves a tenth or more; the choice depends on the configuration alone."""
    if attack.space == "dip":  # torch.compile gets gradients of grouped convolutions wrong on the CPU (2.13)
        return False
    if attack.compile != "auto" or shared():
        return attack.compile == "on"
    weights = sum(parameter.numel() for parameter in target.params.values())
    inner, moves = inside(target)
    work = attack.steps * len(attack.trials) * attack.candidates * moves * weights
    by_hand = isinstance(inner, MLPTarget) and attack.method == "kkt"
    return by_hand and work > _LONG_RUN


def _at_once(attack: AttackConfig, target: Target, footprint: Footprint) -> AtOnce:
    asked = AtOnce(attack.trials_at_once, attack.chunk)
    inner, moves = inside(target)
    if attack.memory_limit is None or asked != AtOnce() or not is_perceptron(inner):
        return asked
    own = own_part(attack.candidates)
    return within(attack.memory_limit, inner.widths, len(attack.trials), own.stop - own.start, footprint, moves)


def first_layer_rows(net: nn.Module, sample_shape: tuple[int, ...]) -> Tensor:
    """Weight visualisation (Haim 2022, section 5.4): rows of the first layer, ``[1, units, *sample]``."""
    reason, first = why_no_rows(net, sample_shape), _first_linear(net)
    if reason is not None or first is None:
        raise RecollectError(str(reason))
    return first.weight.detach().float().reshape(1, -1, *sample_shape)


def why_no_rows(net: nn.Module, sample_shape: tuple[int, ...]) -> str | None:
    """Why a network's first weights cannot be taken for samples, in a sentence; None where they can."""
    first = _first_linear(net)
    if first is not None and first.in_features == math.prod(sample_shape):
        return None
    return (
        f"weight visualisation needs a first Linear layer that sees all {math.prod(sample_shape)} inputs; "
        "this network has none."
    )


def _first_linear(net: nn.Module) -> nn.Linear | None:
    """The first layer with weights, unless it is a convolution."""
    kinds = nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d
    first = next((part for part in net.modules() if isinstance(part, kinds)), None)
    return first if isinstance(first, nn.Linear) else None


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
