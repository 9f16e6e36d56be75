"""Products of float32 matrices on AMD's processors with AVX-512, by the faster of two libraries.

PyTorch multiplies by MKL, which leaves half of the registers of AMD's processors unused. oneDNN, which PyTorch brings
along for convolutions, uses all of them, rounds as little, and takes less than half the time. On Intel's processors MKL
is the faster one (docs/performance.md).
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

_CPUINFO = Path("/proc/cpuinfo")


def _made_by_amd() -> bool:
    """MKL asks for the maker too, not for what a processor can do."""
    described = _CPUINFO.read_text(errors="replace") if _CPUINFO.is_file() else platform.processor()
    return "AuthenticAMD" in described


_FASTER_HERE = (
    torch.backends.mkldnn.is_available()
    and torch.backends.cpu.get_cpu_capability().startswith("AVX512")
    and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    and _made_by_amd()
)
_LEAST_OPERATIONS = 4_000_000
"""Below this, calling it costs more than it saves: some 20 microseconds."""
_LEAST_FOR_ALL = 20_000_000
"""Likewise, samples times weights, for looking at every operation of a training step: some 150 microseconds."""


def times(left: Float[Tensor, "T m k"], right: Float[Tensor, "*T k n"]) -> Float[Tensor, "T m n"]:
    """``left @ right``, with a matrix that all trials share or one for each."""
    differentiated = left.requires_grad or right.requires_grad
    return _by_onednn(left, right) if _faster(left, right) and not differentiated else left @ right


def products_of_linear_layers(samples: int, params: Iterable[Tensor]) -> AbstractContextManager[object]:
    """Within it, so are products of Linear layers and of their gradients, where there is much to multiply.

    For networks of any kind, differentiated by PyTorch: every operation on its way is looked at, which takes some
    microseconds, so that a batch of few samples for few weights is left as it is.
    """
    matrices = [value for value in params if value.ndim == 2 and _single(value)]
    worth_it = _FASTER_HERE and samples * sum(value.numel() for value in matrices) > _LEAST_FOR_ALL
    return _LinearLayers() if worth_it else nullcontext()


class _LinearLayers(TorchDispatchMode):
    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> object:
        del types
        if func in (torch.ops.aten.mm.default, torch.ops.aten.bmm.default) and _faster(*args):
            return _by_onednn(*args)
        if func is torch.ops.aten.addmm.default and not kwargs:
            bias, left, right = args
            if bias.shape == right.shape[1:] and _faster(left, right):
                return _linear(left, right, bias=bias)
        return func(*args, **(kwargs or {}))


def _faster(left: Tensor, right: Tensor) -> bool:
    operations = 2 * left.shape[-2] * left.shape[-1] * right.shape[-1]
    return _FASTER_HERE and _single(left) and _single(right) and operations > _LEAST_OPERATIONS


def _single(value: Tensor) -> bool:
    return value.dtype == torch.float32 and value.device.type == "cpu"


@torch.library.custom_op(
    "recollect::product_by_onednn", mutates_args=(), schema="(Tensor left, Tensor right) -> Tensor"
)
def _by_onednn(left: Tensor, right: Tensor) -> Tensor:
    """An operation of its own, because torch.compile would take a Linear layer's weights for constants."""
    if right.ndim == 2:
        return _linear(left, right)
    if len(left) == 1:  # without the copy that stacking makes
        return _linear(left, right[0])
    return torch.stack([_linear(own, other) for own, other in zip(left, right, strict=True)])


@_by_onednn.register_fake
def _(left: Tensor, right: Tensor) -> Tensor:
    return left.new_empty(*left.shape[:-1], right.shape[-1])


def _linear(left: Tensor, right: Tensor, bias: Tensor | None = None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(left, right.mT, bias, "none", [], "")
