"""How well the true samples explain the parameters: the KKT residual at its best multipliers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from recollect.check.gradients import Gram, combined_gradient, gram
from recollect.check.network import Network
from recollect.check.nnls import free_sign as with_free_sign
from recollect.check.nnls import non_negative
from recollect.core import RecollectError


@dataclass(frozen=True)
class Fit:
    """``||theta - sum_i lambda_i g_i|| / ||theta||`` at the best multipliers, in all and per layer.

    Norms, not squares: 0 means that the samples explain the parameters, 1 that they explain nothing. None stands
    for a layer whose parameters are all zero.
    """

    relative: float
    per_layer: dict[str, float | None]
    positive: int
    """Samples with a multiplier: above zero, or other than zero where the sign is free."""
    multipliers: Float[Tensor, " n"]


@dataclass(frozen=True)
class Residual:
    """Of all layers together, and of the first alone, since the attack may use that alone."""

    all_layers: Fit
    first_layer: Fit
    samples: int
    """Of smallest margin, where there are more than could be taken."""
    free_sign: bool


def kkt_residual(
    network: Network, x: Float[Tensor, "n ..."], u: Float[Tensor, "n C"], free_sign: bool = False
) -> Residual:
    """Minimise ``sum_l ||theta_l - sum_i lambda_i g_il||^2`` over multipliers (Haim 2022, Eq. 2 and 4).

    ``g_i`` is the gradient of ``<u_i, Phi(x_i)>``, with the true derivative of ReLU. The published attack has
    ``lambda / m`` for our ``lambda``.
    """
    layers = network.layers
    first, *others = layers
    first_gram = gram(network, x, u, layers[first])
    rest = [name for layer in others for name in layers[layer]]
    whole_gram = first_gram + gram(network, x, u, rest) if rest else first_gram
    first_fit = _fit(network, x, u, first_gram, {first: layers[first]}, free_sign)
    whole_fit = _fit(network, x, u, whole_gram, layers, free_sign) if rest else first_fit
    return Residual(whole_fit, first_fit, len(x), free_sign)


def _fit(network: Network, x: Tensor, u: Tensor, known: Gram, layers: Mapping[str, list[str]], free_sign: bool) -> Fit:
    if not bool(known.products.isfinite().all() and known.target.isfinite().all()):
        raise RecollectError("the gradients at the data are not finite; check that the data are what the network saw.")
    multipliers = (with_free_sign if free_sign else non_negative)(known.products, known.target)
    names = [name for layer in layers.values() for name in layer]
    # The residual itself, not its expansion in inner products, which would lose half of the digits.
    combined = combined_gradient(network, x, multipliers.unsqueeze(1) * u, names)
    return Fit(
        relative=_relative(network.params, combined, names) or 0.0,
        per_layer={layer: _relative(network.params, combined, own) for layer, own in layers.items()},
        positive=int((multipliers != 0).sum()),
        multipliers=multipliers,
    )


def _relative(params: Mapping[str, Tensor], combined: Mapping[str, Tensor], names: list[str]) -> float | None:
    left = torch.stack([(params[name] - combined[name]).square().sum() for name in names]).sum().sqrt()
    whole = torch.stack([params[name].square().sum() for name in names]).sum().sqrt()
    return float(left / whole) if whole > 0 else None
