"""ReLU with a smooth derivative: value ``max(z, 0)``, derivative ``sigmoid(alpha z)`` of every order.

The attack differentiates a gradient; the step function in ReLU's derivative is flat almost everywhere and
leaves nothing to follow. Haim 2022 (appendix B.2) keeps the forward pass and replaces the derivative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode


def smooth_relu(z: Float[Tensor, ...], smoothing: Tensor) -> Float[Tensor, ...]:
    """``relu(z)`` whose derivatives are those of ``softplus(alpha z) / alpha``.

    Written with ordinary operations instead of a custom autograd function, so that vmap, torch.compile and
    double backward need no special rules.

    >>> z = torch.tensor([-1.0, 0.5], requires_grad=True)
    >>> value = smooth_relu(z, torch.tensor(10.0))
    >>> torch.allclose(value, torch.relu(z))
    True
    >>> torch.allclose(torch.autograd.grad(value.sum(), z)[0], torch.sigmoid(10 * z))
    True
    """
    soft = -F.logsigmoid(-smoothing * z) / smoothing
    return soft + (torch.relu(z) - soft).detach()


_RELUS: frozenset[Callable[..., Any]] = frozenset(
    {torch.relu, torch.relu_, torch.Tensor.relu, torch.Tensor.relu_, F.relu, F.relu_}
)


class SmoothReLUMode(TorchFunctionMode):
    """While active, every ReLU call, as a module or as a function, has its smooth derivative.

    The user's network is not edited. An in-place call returns a new tensor, which is what the caller uses.
    """

    def __init__(self, smoothing: Tensor) -> None:
        super().__init__()
        self.smoothing = smoothing

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict | None = None
    ) -> Any:
        if func in _RELUS:
            z = args[0] if args else (kwargs or {})["input"]
            return smooth_relu(z, self.smoothing)
        return func(*args, **(kwargs or {}))
