"""A limit on the numbers that code may ask for while it builds what a file describes: text can claim any size."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from recollect.loading.plain import NotPlainError

_BY_SIZE = frozenset({torch.empty, torch.zeros, torch.ones, torch.rand, torch.randn, torch.full, torch.eye})
_BY_END = frozenset({torch.arange, torch.randperm})


class AtMost(TorchFunctionMode):
    """While active, new tensors have no more than ``count`` numbers, all together; then `NotPlainError`.

    >>> with AtMost(100):
    ...     torch.nn.Linear(10, 10**9)
    Traceback (most recent call last):
    recollect.loading.plain.NotPlainError: more than 100 numbers would be needed
    """

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count
        self.spent = 0

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict | None = None
    ) -> Any:
        self.spent += _asked_for(func, args, kwargs or {})
        if self.spent > self.count:
            raise NotPlainError(f"more than {self.count:,} numbers would be needed")
        return func(*args, **(kwargs or {}))


def _asked_for(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    if func in _BY_END:
        return max((abs(int(value)) for value in args if isinstance(value, int | float)), default=0)
    if func not in _BY_SIZE:
        return 0
    size = kwargs.get("size", args[0] if args and isinstance(args[0], tuple | list) else args)
    size = [length for length in size if isinstance(length, int)]
    return math.prod(map(abs, size)) ** (2 if func is torch.eye and len(size) == 1 else 1)
