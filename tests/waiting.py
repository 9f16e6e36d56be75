"""Finds, without a GPU, what could not be recorded on one: operations whose result the host has to wait for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_WAITING = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}


class _NeverWaits(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        if func is torch.ops.aten.index.Tensor:  # waits where it selects by a mask
            waits = any(index is not None and index.dtype == torch.bool for index in args[1])
        else:
            waits = bool(_WAITING & set(func.tags))
        if waits:
            raise AssertionError(f"{func} waits for its result, which no recording of a step can")
        return func(*args, **(kwargs or {}))


@contextmanager
def never_waits() -> Iterator[None]:
    """What runs within could be recorded as a CUDA graph, as far as a CPU can tell."""
    with _NeverWaits():
        yield
