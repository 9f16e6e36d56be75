"""One problem on several processes: each holds a part of every trial's candidates, sums go across.

Only the summed gradient ``G = sum_i <c_i, dPhi(x_i)/dtheta>`` couples candidates, so a step costs one all-reduce of the
size of the parameters. Start it with torchrun; each process calls `recollect.attack` and gets the whole result.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import torch
import torch.distributed as dist
from torch import Tensor

from recollect.core import RecollectError


def _load_without_a_group() -> None:
    """Load what torch.compile would load within a search.

    These functions keep the group of that moment as their default, and with it the group's threads, beyond
    destroy_process_group; a thread that is left may abort Python's exit (pytorch/pytorch#190489).
    """
    world = dist.group.WORLD
    dist.group.WORLD = None
    try:
        import_module("torch.distributed.nn")
    finally:
        dist.group.WORLD = world


if dist.is_available():
    _load_without_a_group()

SumAcross = Callable[[Tensor], Tensor]
"""Sums a tensor over all processes."""


def alone(value: Tensor) -> Tensor:
    """The sum over one process."""
    return value


def across_processes(value: Tensor) -> Tensor:
    value = value.clone()
    dist.all_reduce(value)
    return value


def shared() -> bool:
    """Whether this process is one of several that work together."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def own_part(candidates: int) -> slice:
    """This process's candidates: as equal parts as possible, in the order of ranks."""
    if not shared():
        return slice(0, candidates)
    rank, count = dist.get_rank(), dist.get_world_size()
    if candidates < count:
        raise RecollectError(
            f"{count} processes cannot share {candidates} candidates; start as many at most, or raise "
            "attack.candidates."
        )
    return slice(candidates * rank // count, candidates * (rank + 1) // count)


def gathered(values: Tensor, candidates: int) -> Tensor:
    """``[T, m, ...]`` from the ``[T, own part, ...]`` of all processes."""
    if not shared():
        return values
    whole = values.new_zeros(values.shape[0], candidates, *values.shape[2:])
    whole[:, own_part(candidates)] = values
    # A sum of parts that are zero elsewhere: works for unequal parts, and every backend has it.
    return across_processes(whole)


def sum_across() -> SumAcross:
    return across_processes if shared() else alone


def everywhere(flags: Tensor, total: SumAcross) -> Tensor:
    """Which flags are set on every process."""
    return total((~flags).to(torch.int32)) == 0
