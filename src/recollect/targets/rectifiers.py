"""Which calls are a ReLU or a leaky ReLU, by whatever name PyTorch knows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

Rectified = tuple[Tensor, float | Tensor, bool]
"""What is rectified, the slope below zero, and whether the tensor itself is to change."""

_Reader = Callable[[list[Any]], Rectified | None]
aten = torch.ops.aten


def rectified(func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Rectified | None:
    """None for every other call, such as a clamp between two bounds.

    >>> rectified(torch.clamp, (torch.ones(2),), {"min": 0})
    (tensor([1., 1.]), 0.0, False)
    >>> rectified(torch.clamp, (torch.ones(2),), {"min": 0, "max": 6})
    """
    known = _CALLS.get(func)
    if known is None:
        return None
    names, read = known
    given = dict(zip(names, args, strict=False)) | {_SAME.get(name, name): value for name, value in kwargs.items()}
    values = [given.get(name) for name in names]
    return read(values) if isinstance(values[0], Tensor) else None


_SAME = {"self": "input"}
_RELU = ("input", "inplace")
_CLAMP = ("input", "min", "max")
_OTHER = ("input", "other", "keepdim")
_LEAKY = ("input", "negative_slope", "inplace")
_THRESHOLD = ("input", "threshold", "value", "inplace")
_RANDOM = ("input", "lower", "upper", "training", "inplace")


def _relu(values: list[Any]) -> Rectified:
    return values[0], 0.0, bool(values[1])


def _relu_in_place(values: list[Any]) -> Rectified:
    return values[0], 0.0, True


def _clamp(values: list[Any]) -> Rectified | None:
    return (values[0], 0.0, False) if _is_zero(values[1]) and values[2] is None else None


def _clamp_in_place(values: list[Any]) -> Rectified | None:
    return (values[0], 0.0, True) if _is_zero(values[1]) and values[2] is None else None


def _larger(values: list[Any]) -> Rectified | None:
    """``maximum(z, zeros)``, either way round; ``max(z, 0)`` is another thing, the largest along the first axis."""
    first, second, _ = values
    if not isinstance(second, Tensor):
        return None
    small, large = sorted((first, second), key=Tensor.numel)
    if _is_zero(small):
        return large, 0.0, False
    return (small, 0.0, False) if large.numel() == small.numel() and _is_zero(large) else None


def _threshold(values: list[Any]) -> Rectified | None:
    return (values[0], 0.0, bool(values[3])) if _is_zero(values[1]) and _is_zero(values[2]) else None


def _threshold_in_place(values: list[Any]) -> Rectified | None:
    return (values[0], 0.0, True) if _is_zero(values[1]) and _is_zero(values[2]) else None


def _leaky(values: list[Any]) -> Rectified:
    return values[0], 0.01 if values[1] is None else float(values[1]), bool(values[2])


def _leaky_in_place(values: list[Any]) -> Rectified:
    return values[0], 0.01 if values[1] is None else float(values[1]), True


def _random_leaky(values: list[Any]) -> Rectified | None:
    """In evaluation mode a random slope is the mean of its bounds."""
    lower, upper = 1 / 8 if values[1] is None else values[1], 1 / 3 if values[2] is None else values[2]
    return None if values[3] else (values[0], (lower + upper) / 2, bool(values[4]))


def _learned(values: list[Any]) -> Rectified | None:
    z, slope = values
    if slope.numel() == 1 or z.ndim < 2:
        return z, slope.reshape(()) if slope.numel() == 1 else slope, False
    return z, slope.reshape(-1, *(1,) * (z.ndim - 2)), False


def _is_zero(value: Any) -> bool:
    """Zeros made on the spot, never something that is learned. vmap cannot tell, and its caller then does without."""
    if isinstance(value, Tensor):
        return not value.requires_grad and not bool(value.any())
    return isinstance(value, int | float) and value == 0


_CALLS: dict[Callable[..., Any], tuple[tuple[str, ...], _Reader]] = {
    **dict.fromkeys((torch.relu, Tensor.relu, F.relu, aten.relu, aten.relu.default), (_RELU, _relu)),
    **dict.fromkeys((torch.relu_, Tensor.relu_, F.relu_, aten.relu_.default), (_RELU, _relu_in_place)),
    **dict.fromkeys(
        (torch.clamp, torch.clip, torch.clamp_min, Tensor.clamp, Tensor.clip, Tensor.clamp_min), (_CLAMP, _clamp)
    ),
    **dict.fromkeys((aten.clamp.default, aten.clamp_min.default), (_CLAMP, _clamp)),
    **dict.fromkeys((torch.clamp_, torch.clip_, torch.clamp_min_), (_CLAMP, _clamp_in_place)),
    **dict.fromkeys((Tensor.clamp_, Tensor.clip_, Tensor.clamp_min_), (_CLAMP, _clamp_in_place)),
    **dict.fromkeys((aten.clamp_.default, aten.clamp_min_.default), (_CLAMP, _clamp_in_place)),
    **dict.fromkeys((torch.maximum, Tensor.maximum, torch.max, Tensor.max, torch.fmax, Tensor.fmax), (_OTHER, _larger)),
    aten.maximum.default: (_OTHER, _larger),
    **dict.fromkeys((torch.threshold, F.threshold, aten.threshold.default), (_THRESHOLD, _threshold)),
    **dict.fromkeys((torch.threshold_, aten.threshold_.default), (_THRESHOLD, _threshold_in_place)),
    **dict.fromkeys((F.leaky_relu, aten.leaky_relu.default), (_LEAKY, _leaky)),
    **dict.fromkeys((F.leaky_relu_, aten.leaky_relu_.default), (_LEAKY, _leaky_in_place)),
    **dict.fromkeys((F.rrelu, torch.rrelu, aten.rrelu.default), (_RANDOM, _random_leaky)),
    **dict.fromkeys((F.prelu, torch.prelu, Tensor.prelu, aten.prelu.default), (("input", "weight"), _learned)),
}
