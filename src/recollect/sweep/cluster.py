"""Trials on a Ray cluster (Moritz et al. 2018): tasks run batches on whatever they get.

Results come back to the process that proposes, which alone writes the run folder: a worker that dies is replaced by Ray
and its batch begins again, and a driver that dies goes on from the folder. Ray ends a process whose cluster goes away,
so it is kept in one of its own (`recollect.sweep.linked`).
"""

from __future__ import annotations

import logging
import pickle
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from recollect.core import RecollectError
from recollect.loading.exported import ExportedNetwork
from recollect.sweep.execute import run_trials
from recollect.sweep.propose import Proposal
from recollect.sweep.record import Trial
from recollect.sweep.trials import Sweep
from recollect.sweep.work import Portion, Work

_DEATHS = 3
"""Workers that one batch may outlive."""
_ROUNDS = 4
"""With halving a task gets so many batches, or it would have nothing to refill its slots with."""
_REACHED_IN = 5.0
"""Seconds in which a cluster must answer."""


def run_on_cluster(swept: bytes, work: Work, address: str | None, device: str, size: int) -> None:
    """All that there is to do, as many batches at once as the cluster has room for."""
    with connected(address) as ray:
        gpu = device != "cpu" and (device != "auto" or ray.cluster_resources().get("GPU", 0) >= 1)
        kind = "GPU" if gpu else "CPU"
        task = ray.remote(run_portion).options(num_cpus=1, num_gpus=int(gpu), max_retries=_DEATHS)
        sent, waiting = ray.put(swept), set()
        while True:
            room = max(1, int(ray.cluster_resources().get(kind, 0)))  # clusters grow and shrink
            while len(waiting) < room and (proposals := work.take(size)):
                waiting.add(task.remote(sent, proposals, _compared(work), gpu))
            if not waiting:
                return
            for ready in ray.wait(list(waiting), timeout=1.0)[0]:
                for piece in ray.get(ready):
                    work.hand_in(piece)
                waiting.remove(ready)
            work.show(0)


def run_portion(
    swept: bytes, proposals: Sequence[Proposal], history: Sequence[Trial], gpu: bool
) -> list[dict[str, Tensor]]:
    """What a task does, on the one device that Ray shows it: pieces of all these trials."""
    work = Portion(list(proposals), history)
    sweep: Sweep = pickle.loads(swept)
    run_trials(replace(sweep, devices=[torch.device("cuda" if gpu else "cpu")]), work)
    return work.pieces


def as_sent(sweep: Sweep) -> bytes:
    """What travels."""
    return _pickled(sweep, sweep.net)


def require_sendable(net: nn.Module) -> None:
    """Said before anything is computed: the network cannot leave this process."""
    _pickled(net, net)


def _pickled(value: object, net: nn.Module) -> bytes:
    """Classes of the user's own go with the network, workers have PyTorch and recollect."""
    pickling = load_ray().cloudpickle
    for name in {type(part).__module__ for part in net.modules()}:
        if name.partition(".")[0] not in ("torch", "recollect") and name in sys.modules:
            pickling.register_pickle_by_value(sys.modules[name])
    try:
        return pickling.dumps(value)
    # A network of the user's own may raise anything.
    except Exception as error:
        what = "a torch.export program" if isinstance(net, ExportedNetwork) else f"this network ({_brief(error)})"
        raise RecollectError(
            f"{what} cannot be sent to other processes, as --executor ray does; use --executor local."
        ) from error


def portion_size(sweep: Sweep) -> int:
    return sweep.batch if sweep.pruning == "none" else _ROUNDS * sweep.batch


def load_ray() -> ModuleType:
    try:
        import ray
    except ImportError as error:
        raise RecollectError(
            "--executor ray needs Ray, which is not installed: pip install 'recollect[ray]', or use --executor local."
        ) from error
    return ray


@contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """Ray, connected to a cluster, or to one that is started on this machine; what fails is one sentence."""
    ray = load_ray()
    _require_answer(address)
    try:
        ray.init(
            address=address or "local",
            include_dashboard=False if address is None else None,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    # Another version of Python or Ray, no cluster, no permission: each has an error of its own.
    except Exception as error:
        raise _unreachable(address, error) from error
    try:
        with _explained(ray):
            yield ray
    finally:
        ray.shutdown()


@contextmanager
def _explained(ray: Any) -> Iterator[None]:
    try:
        yield
    except ray.exceptions.RayTaskError as error:
        raise (error.cause if isinstance(error.cause, Exception) else error) from None
    except (ray.exceptions.RayError, ConnectionError) as error:
        raise gone(f"a batch of trials ended {_DEATHS + 1} workers, or {_brief(error)}") from error


def gone(reason: str) -> RecollectError:
    return RecollectError(
        f"the Ray cluster went away ({reason}); what is finished is saved: go on with --resume, here with --executor "
        "local, or start anew with a smaller --batch if memory ran out."
    )


def require_cluster(address: str | None) -> None:
    """Said before anything is computed: Ray is not there, or nobody answers."""
    load_ray()
    _require_answer(address)


def _require_answer(address: str | None) -> None:
    """Ray itself would wait for minutes, or end the process."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if address in (None, "auto", "local"):
        return
    if not host or not port.isdecimal():
        raise _unreachable(address, ValueError("it has no host and port"))
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_REACHED_IN).close()
    except (OSError, OverflowError) as error:
        raise _unreachable(address, error) from error


def _unreachable(address: str | None, error: Exception) -> RecollectError:
    return RecollectError(
        f"the Ray cluster '{address or 'on this machine'}' cannot be used ({_brief(error)}); give --address a cluster "
        "that can be reached, such as auto, HOST:6379 or ray://HOST:10001, or leave it out to use this machine."
    )


def _brief(error: Exception) -> str:
    said = str(error).strip().splitlines()
    return said[0].rstrip(".")[:150] if said else type(error).__name__


def _compared(work: Work) -> list[Trial]:
    """What halving compares with: trials that came to a rung."""
    return [trial for trial in work.history if trial.rungs]
