"""What torch.compile is kept out of. It is told when something is compiled: importing the compiler takes seconds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch

_Method = TypeVar("_Method", bound=Callable[..., Any])
_kept_out: list[tuple[type, str, bool]] = []


def kept_out(recursive: bool) -> Callable[[_Method], _Method]:
    """``torch.compiler.disable`` for a method; ``recursive``: for all that it calls, too."""
    return lambda method: cast(_Method, _KeptOut(method, recursive))


def before_compiling() -> None:
    """To be called before anything is compiled in this process."""
    while _kept_out:
        owner, name, recursive = _kept_out.pop()
        setattr(owner, name, torch.compiler.disable(getattr(owner, name), recursive=recursive))


class _KeptOut:
    """Leaves the plain method in its class, and notes which one it is."""

    def __init__(self, method: Callable[..., Any], recursive: bool) -> None:
        self._method, self._recursive = method, recursive

    def __set_name__(self, owner: type, name: str) -> None:
        setattr(owner, name, self._method)
        _kept_out.append((owner, name, self._recursive))
