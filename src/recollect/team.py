"""Several processes on one run, started by torchrun: the first leads, the others compute their part of each search.

    torchrun --standalone --nproc-per-node 4 -m recollect attack ...

The leader does what a single process does. When it searches, it tells the others what for; they load the same network
from the same files, and hold a part of every trial's candidates (`recollect.sharing`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from recollect.sharing import shared


@dataclass
class _Leader:
    searching: bool = False


_leader = _Leader()

_PATIENCE = timedelta(days=30)
"""Followers wait while the leader trains a network."""


@contextmanager
def team() -> Iterator[bool]:
    """Join the other processes, if there are any; gives whether this one leads. The leader dismisses the others."""
    if int(os.environ.get("WORLD_SIZE", "1")) < 2 or not dist.is_torchelastic_launched():
        yield True
        return
    if torch.cuda.is_available():
        torch.cuda.set_device(own_device())
    dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo", timeout=_PATIENCE)
    leads = dist.get_rank() == 0
    try:
        yield leads
    finally:
        # Within a search the others do not listen: torchrun ends them when the leader fails.
        if not _leader.searching:
            if leads:
                _broadcast(None)
            dist.barrier()  # who leaves early takes the connection away from the others
            dist.destroy_process_group()


def own_device() -> torch.device:
    """Each process of a machine has a GPU of its own, where there are GPUs."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())


@contextmanager
def searching_together(task: dict[str, Any]) -> Iterator[None]:
    """The leader's word to the others, where there are any: what is searched for, from here to the end of this."""
    if shared():
        _broadcast(task)
        _leader.searching = True
    yield
    _leader.searching = False


def next_search() -> dict[str, Any] | None:
    """What the leader calls for; None when it is done."""
    return _broadcast(None)


def _broadcast(task: dict[str, Any] | None) -> dict[str, Any] | None:
    message = [task]
    dist.broadcast_object_list(message, src=0, device=torch.device("cpu"))
    return message[0]
