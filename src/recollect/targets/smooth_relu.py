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

from recollect.targets.rectifiers import rectified


def smooth_relu(z: Float[Tensor, ...], smoothing: Tensor, slope: float | Tensor = 0.0) -> Float[Tensor, ...]:
    """``relu(z)`` whose derivatives are those of ``softplus(alpha z) / alpha``.

    With a ``slope`` s below zero (leaky ReLU) the derivative is ``s + (1 - s) sigmoid(alpha z)``. Written with ordinary
    operations instead of a custom autograd function, so that vmap, torch.compile and double backward need no special
    rules.

    >>> z = torch.tensor([-1.0, 0.5], requires_grad=True)
    >>> value = smooth_relu(z, torch.tensor(10.0))
    >>> torch.allclose(value, torch.relu(z))
    True
    >>> torch.allclose(torch.autograd.grad(value.sum(), z)[0], torch.sigmoid(10 * z))
    True
    """
    soft = -F.logsigmoid(-smoothing * z) / smoothing
    relu = soft + (torch.relu(z) - soft).detach()
    return relu if isinstance(slope, float) and slope == 0 else slope * z + (1 - slope) * relu


class SmoothReLUMode(TorchFunctionMode):
    """While active, every ReLU and leaky ReLU, as a module or as a function, has its smooth derivative.

    The user's network is not edited. `recollect.targets.rectifiers` lists the calls that are meant.
    """

    def __init__(self, smoothing: Tensor) -> None:
        super().__init__()
        self.smoothing = smoothing

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict | None = None
    ) -> Any:
        found = rectified(func, args, kwargs or {})
        if found is None:
            return func(*args, **(kwargs or {}))
        z, slope, in_place = found
        if in_place:  # the caller may go on with the old tensor instead of what is returned
            return z.copy_(smooth_relu(z.clone(), self.smoothing, slope))
        return smooth_relu(z, self.smoothing, slope)
