"""Gradients of Linear layers as outer products, which are never written out."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from recollect.check.network import Network

_CHUNK = 256
"""Samples that go forwards and backwards at once."""


@dataclass(frozen=True)
class LinearFactors:
    """Of one layer: sample i's gradient is ``delta_i input_i'`` for the weight, ``delta_i`` for the bias."""

    weight: str | None
    bias: str | None
    inputs: Float[Tensor, "n fan_in"]
    deltas: Float[Tensor, "n fan_out"]

    @property
    def names(self) -> list[str]:
        return [name for name in (self.weight, self.bias) if name is not None]

    def products(self) -> Float[Tensor, "n n"]:
        """``<g_i, g_j> = <delta_i, delta_j> (<input_i, input_j> + 1)``, the 1 for the bias."""
        inner = torch.zeros_like(self.deltas[:, :1]) if self.weight is None else self.inputs @ self.inputs.mT
        return (self.deltas @ self.deltas.mT) * (inner + (self.bias is not None))

    def target(self, params: Mapping[str, Tensor]) -> Float[Tensor, " n"]:
        """``<theta, g_i> = <delta_i, W input_i + b>``"""
        image = torch.zeros_like(self.deltas) if self.weight is None else self.inputs @ params[self.weight].mT
        image = image if self.bias is None else image + params[self.bias]
        return (self.deltas * image).sum(dim=1)


def linear_factors(
    network: Network, x: Float[Tensor, "n ..."], u: Float[Tensor, "n C"], names: Collection[str]
) -> list[LinearFactors]:
    """Factors of every Linear layer that sees each sample once, as one row; other layers are left out.

    Whether the outer products are all of the gradient is not assumed: their sum is compared with autograd's, which
    differs for weights that are tied, or used outside of their layer.
    """
    layers = {name: part for name, part in network.module.named_modules() if type(part) is nn.Linear}
    wanted = {name: _names_of(name, part, names) for name, part in layers.items()}
    layers = {name: part for name, part in layers.items() if any(wanted[name])}
    pieces: dict[str, list[tuple[Tensor, Tensor]]] = {name: [] for name in layers}
    for part, direction in zip(x.split(_CHUNK), u.split(_CHUNK), strict=True):
        found = _one_chunk(network, part, direction, {name: layers[name] for name in pieces}, wanted)
        pieces = {name: [*pieces[name], pair] for name, pair in found.items()}
    return [
        LinearFactors(*wanted[name], torch.cat([a for a, _ in pairs]), torch.cat([d for _, d in pairs]))
        for name, pairs in pieces.items()
    ]


def _names_of(layer: str, part: nn.Linear, names: Collection[str]) -> tuple[str | None, str | None]:
    weight, bias = (f"{layer}.{own}".lstrip(".") for own in ("weight", "bias"))
    return (weight if weight in names else None), (bias if part.bias is not None and bias in names else None)


def _one_chunk(
    network: Network,
    x: Tensor,
    u: Tensor,
    layers: Mapping[str, nn.Linear],
    wanted: Mapping[str, tuple[str | None, str | None]],
) -> dict[str, tuple[Tensor, Tensor]]:
    """Inputs and deltas of the layers for which outer products are all of the gradient."""
    params = {name: network.params[name].clone().requires_grad_() for pair in wanted.values() for name in pair if name}
    seen: dict[str, list[tuple[Any, Tensor]]] = {name: [] for name in layers}

    def watch(name: str) -> Any:
        def note(part: nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor:
            seen[name].append((args[0] if args else None, output))
            return output.clone()  # what follows may work in place

        return layers[name].register_forward_hook(note)

    handles = [watch(name) for name in layers]
    try:
        with torch.enable_grad():
            score = (network(params, x) * u).sum()
    finally:
        for handle in handles:
            handle.remove()
    once = {name: calls[0] for name, calls in seen.items() if len(calls) == 1 and _one_row_each(calls[0], len(x))}
    if not once:
        return {}
    outputs = [output for _, output in once.values()]
    grads = torch.autograd.grad(score, [*outputs, *params.values()], materialize_grads=True)
    pairs = {name: (inputs.detach(), d) for (name, (inputs, _)), d in zip(once.items(), grads, strict=False)}
    whole = dict(zip(params, grads[len(outputs) :], strict=True))
    return {name: pair for name, pair in pairs.items() if _is_all(*pair, *wanted[name], whole)}


def _one_row_each(call: tuple[Any, Tensor], n: int) -> bool:
    inputs, _ = call
    return isinstance(inputs, Tensor) and inputs.ndim == 2 and len(inputs) == n


def _is_all(inputs: Tensor, deltas: Tensor, weight: str | None, bias: str | None, whole: Mapping[str, Tensor]) -> bool:
    sums = {weight: deltas.mT @ inputs, bias: deltas.sum(dim=0)}
    return all(
        bool((value - whole[name]).norm() <= 1e-8 * (whole[name].norm() + value.norm()))
        for name, value in sums.items()
        if name is not None
    )
