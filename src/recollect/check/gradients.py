"""Inner products of the samples' margin gradients, ``K_ij = <g_i, g_j>``, in bounded memory and float64."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import grad, vmap

from recollect.check.linear_factors import linear_factors
from recollect.check.network import Network

MEMORY = 2**28
"""Bytes for explicit gradients of a block of samples."""
_CHUNK = 64
"""Samples differentiated at once."""


@dataclass(frozen=True)
class Gram:
    """Everything that least squares over multipliers needs to know of the gradients."""

    products: Float[Tensor, "n n"]
    """``<g_i, g_j>``"""
    target: Float[Tensor, " n"]
    """``<theta, g_i>``"""

    def __add__(self, other: Gram) -> Gram:
        return Gram(self.products + other.products, self.target + other.target)


def gram(
    network: Network, x: Float[Tensor, "n ..."], u: Float[Tensor, "n C"], names: Collection[str], memory: int = MEMORY
) -> Gram:
    """Of ``g_i = d<u_i, Phi(x_i)>/dtheta`` over the named parameters, with ReLU's true derivative.

    A Linear layer's gradient is an outer product, so its inner products are those of inputs times those of deltas;
    other parameters get explicit gradients, block by block.

    >>> from torch import nn
    >>> network = Network.of(nn.Linear(2, 1, bias=False), (2,))
    >>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]]).double()
    >>> gram(network, x, torch.ones(2, 1).double(), ["weight"]).products.tolist()
    [[5.0, 11.0], [11.0, 25.0]]
    """
    factors = linear_factors(network, x, u, names)
    rest = [name for name in names if name not in {known for factor in factors for known in factor.names}]
    zero = x.new_zeros(len(x), len(x))
    total = Gram(zero, zero[0])
    for factor in factors:
        total = total + Gram(factor.products(), factor.target(network.params))
    return total + explicit_gram(network, x, u, rest, memory) if rest else total


def explicit_gram(
    network: Network, x: Float[Tensor, "n ..."], u: Float[Tensor, "n C"], names: Collection[str], memory: int = MEMORY
) -> Gram:
    """The same by writing the gradients out, two blocks of samples at a time."""
    theta = torch.cat([network.params[name].flatten() for name in names])
    blocks = torch.arange(len(x)).split(max(1, memory // (2 * theta.element_size() * len(theta))))
    products, target = x.new_zeros(len(x), len(x)), x.new_zeros(len(x))
    for number, row in enumerate(blocks):
        own = sample_gradients(network, x[row], u[row], names)
        target[row] = own @ theta
        products[row[:, None], row] = own @ own.mT
        for column in blocks[:number]:
            block = own @ sample_gradients(network, x[column], u[column], names).mT
            products[row[:, None], column] = block
            products[column[:, None], row] = block.mT
    return Gram(products, target)


def sample_gradients(
    network: Network, x: Float[Tensor, "n ..."], u: Float[Tensor, "n C"], names: Collection[str]
) -> Float[Tensor, "n p"]:
    """One row per sample, by vmap where it can follow the network, one sample after the other where it cannot."""
    params = {name: network.params[name] for name in names}

    def score(params: dict[str, Tensor], sample: Tensor, direction: Tensor) -> Tensor:
        return (network(params, sample.unsqueeze(0))[0] * direction).sum()

    one = grad(score)
    try:
        found = vmap(one, in_dims=(None, 0, 0), chunk_size=_CHUNK)(params, x, u)
    except Exception:  # vmap refuses what depends on values, and says so in many ways
        single = [one(params, sample, direction) for sample, direction in zip(x, u, strict=True)]
        found = {name: torch.stack([each[name] for each in single]) for name in params}
    return torch.cat([found[name].flatten(1) for name in names], dim=1)


def combined_gradient(
    network: Network, x: Float[Tensor, "n ..."], weighted: Float[Tensor, "n C"], names: Collection[str]
) -> dict[str, Tensor]:
    """``sum_i <weighted_i, dPhi(x_i)/dtheta>`` per named parameter."""
    params = {name: network.params[name].clone().requires_grad_() for name in names}
    total = {name: torch.zeros_like(value) for name, value in network.params.items() if name in params}
    for part, cotangent in zip(x.split(_CHUNK), weighted.split(_CHUNK), strict=True):
        with torch.enable_grad():
            outputs = network(params, part)
        grads = torch.autograd.grad(outputs, list(params.values()), cotangent, materialize_grads=True)
        for name, value in zip(params, grads, strict=True):
            total[name] += value
    return total
