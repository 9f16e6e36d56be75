"""Whether a network can be attacked at all: its weights one by one, then a trial with a few random inputs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from recollect.core import RecollectError

_TOLERANCE = 1e-3
"""Relative: the same row in another batch may be added up in another order, and no more."""


@contextmanager
def in_evaluation_mode(net: nn.Module) -> Iterator[None]:
    """Dropout off, running statistics on; afterwards every part is again as it was.

    Hooks (pruning, the older weight_norm and spectral_norm) and networks of the user's own keep tensors as plain
    attributes; what a call within vmap leaves there could be used by nobody after it.
    """
    before = [(part, part.training, _plain_tensors(part)) for part in net.modules()]
    net.eval()
    try:
        yield
    finally:
        for part, training, tensors in before:
            part.training = training
            for name in _plain_tensors(part).keys() - tensors.keys():
                delattr(part, name)
            vars(part).update(tensors)


def _plain_tensors(part: nn.Module) -> dict[str, Tensor]:
    """Those that are neither parameters nor buffers."""
    return {name: value for name, value in vars(part).items() if isinstance(value, Tensor)}


def require_weights(net: nn.Module) -> None:
    """Refuse parameters that no gradient can be compared with."""
    for name, part in net.named_modules():
        if "quantized" in type(part).__module__.split("."):
            raise RecollectError(
                f"'{name}' is a quantised layer ({type(part).__name__}), whose weights have no gradients; give the "
                "network as it was before quantisation."
            )
    parameters = dict(net.named_parameters())
    if not parameters:
        raise RecollectError("the network has no parameters, so there is nothing to reconstruct from.")
    for name, parameter in parameters.items():
        trouble = _trouble(parameter)
        if trouble:
            raise RecollectError(trouble.format(name=name))
    for name, buffer in net.named_buffers():
        if is_lazy(buffer) or buffer.is_meta:
            raise RecollectError(f"the buffer '{name}' has no values yet; call the network once, or load its weights.")
        if buffer.is_floating_point() and bool(buffer.isnan().any()):
            raise RecollectError(
                f"the values in the buffer '{name}' are not finite; the checkpoint is damaged or training diverged."
            )


def _trouble(parameter: Tensor) -> str | None:
    if is_lazy(parameter):
        return "'{name}' has no shape before the network sees its first input; call the network once where it is made."
    if parameter.is_meta:
        return "'{name}' has no values (it is on the device 'meta'); load its weights."
    if parameter.is_quantized or parameter.layout != torch.strided:
        return "'{name}' is quantised or sparse, and only plain dense weights can be attacked; convert it."
    if parameter.is_complex():
        return "'{name}' holds complex numbers, and only real weights can be attacked; write it as two real ones."
    if not parameter.is_floating_point():
        return "'{name}' holds integers, which have no gradients; make it a buffer instead of a parameter."
    if not bool(parameter.isfinite().all()):
        return "the weights in '{name}' are not finite; the checkpoint is damaged or training diverged."
    return None


def trial_outputs(net: nn.Module, sample_shape: tuple[int, ...]) -> int:
    """How many outputs one input has, after a trial that refuses what the attacks could not work with.

    >>> trial_outputs(nn.Linear(3, 5), (3,))
    5
    """
    x = _random_inputs(net, sample_shape)
    with in_evaluation_mode(net):
        inputs = x[:2].requires_grad_()
        outputs = _rows(net, inputs)
        _require_slope(outputs, inputs)
        if not bool(outputs.isfinite().all()):
            raise RecollectError(
                "the network gives NaN or infinity for random inputs between 0 and 1; the checkpoint is damaged, or "
                "give --shape as the network expects it."
            )
        with torch.no_grad():
            if _differ(_rows(net, x[:2]), outputs):
                raise RecollectError(
                    "the network gives other outputs for the same input each time; remove the randomness that is left "
                    "in evaluation mode."
                )
            if _differ(_rows(net, x[[0, 2]])[:1], outputs[:1]):
                raise RecollectError(
                    "the output for one input depends on the others in the batch, as in batch norm without running "
                    "statistics, so samples cannot be told apart; use running statistics."
                )
    return outputs.shape[1]


def _random_inputs(net: nn.Module, sample_shape: tuple[int, ...]) -> Float[Tensor, "3 ..."]:
    first, generator = next(net.parameters()), torch.Generator().manual_seed(0)
    try:
        return torch.rand(3, *sample_shape, generator=generator).to(first.device, first.dtype)
    except (RuntimeError, OverflowError, TypeError) as error:  # sizes below zero, or that no computer has
        raise RecollectError(
            f"no input can be made of shape {list(sample_shape)}; give --shape as the network expects it, such as "
            "1,28,28."
        ) from error


def _rows(net: nn.Module, x: Float[Tensor, "n ..."]) -> Float[Tensor, "n C"]:
    shape = list(x.shape[1:])
    # A network of the user's own may raise anything.
    try:
        outputs = net(x)
    except RecollectError:
        raise
    except Exception as error:
        raise RecollectError(_why_not(net, shape, error)) from error
    if not isinstance(outputs, Tensor):
        raise RecollectError(
            f"the network returns {_kind(outputs)} instead of one tensor; wrap it in a module that returns the "
            "logits alone."
        )
    outputs = outputs.unsqueeze(-1) if outputs.ndim == 1 else outputs
    if outputs.ndim != 2 or len(outputs) != len(x) or not outputs.is_floating_point():
        raise RecollectError(
            f"the network returns {list(outputs.shape)} of type {str(outputs.dtype).removeprefix('torch.')} for "
            f"{len(x)} inputs of shape {shape}; it must return one row of real outputs per input."
        )
    return outputs


def _why_not(net: nn.Module, shape: list[int], error: Exception) -> str:
    whole = [name for name, part in net.named_modules() if isinstance(part, nn.Embedding | nn.EmbeddingBag)]
    if whole:
        return (
            f"the network takes whole numbers (an embedding at '{whole[0]}'), and the attacks search for real ones; "
            "give the part of the network behind the embedding."
        )
    reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
    return f"the network cannot be evaluated and differentiated on inputs of shape {shape} ({reason}); check --shape."


def _require_slope(outputs: Tensor, inputs: Tensor) -> None:
    slope = torch.autograd.grad(outputs.sum(), inputs, allow_unused=True)[0] if outputs.requires_grad else None
    if slope is None:
        raise RecollectError(
            "the outputs cannot be differentiated with respect to the inputs (a cast to whole numbers, detach or "
            "no_grad in between), which every attack needs; remove it."
        )


def _differ(found: Tensor, expected: Tensor) -> bool:
    scale = expected.detach().abs().max().clamp(min=1e-12)
    return bool((found - expected.detach()).abs().max() > _TOLERANCE * scale)


def _kind(outputs: object) -> str:
    if isinstance(outputs, dict):
        return f"a dict with {', '.join(repr(str(key)[:40]) for key in list(outputs)[:4]) or 'nothing'}"
    if isinstance(outputs, tuple | list):
        return f"a {type(outputs).__name__} of {len(outputs)}"
    return f"an object of type {type(outputs).__name__}"
