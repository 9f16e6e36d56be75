"""Is the network homogeneous in its parameters? Asked of the network itself, by scaling them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from recollect.check.network import Network

FACTORS = (0.5, 0.8, 1.25, 2.0)
EXACT = 1e-6
"""Relative deviation below which the network counts as homogeneous: rounding stays far below, biases far above."""
_PROBES = 64
_USUAL_SCALE = 0.25
"""Standard deviation of mean-centred images with values in [-1, 1]."""


@dataclass(frozen=True)
class Homogeneity:
    """``Phi(a theta; x) = a^L Phi(theta; x)`` for all a > 0 (Haim 2022, section 3.1): how nearly, what breaks it."""

    degree: float | None
    """L, estimated; None where the network returns nothing but zeros at random inputs, or overflows."""
    deviation: float | None
    """Largest ``||Phi(a theta) - a^L Phi(theta)|| / ||Phi(a theta)||`` over the factors."""
    breaking: tuple[str, ...]
    """Biases each of which alone breaks the homogeneity that the network has without any bias."""

    @property
    def exact(self) -> bool:
        return self.deviation is not None and self.deviation < EXACT


def homogeneity(network: Network, biases: Sequence[str], x: Float[Tensor, "k ..."]) -> Homogeneity:
    """Degree and deviation at the inputs ``x``.

    >>> from torch import nn
    >>> network = Network.of(nn.Sequential(nn.Linear(2, 9), nn.ReLU(), nn.Linear(9, 1, bias=False)), (2,))
    >>> found = homogeneity(network, ["0.bias"], probes((2,)))
    >>> round(found.degree, 6), found.exact, found.breaking
    (2.0, True, ())
    """
    degree, deviation = _fit(network, {}, x)
    whole = Homogeneity(degree, deviation, ())
    return whole if whole.exact else Homogeneity(degree, deviation, _breaking(network, biases, x))


def probes(
    sample_shape: tuple[int, ...], like: Float[Tensor, "n ..."] | None = None, seed: int = 0
) -> Float[Tensor, "k ..."]:
    """Gaussian inputs of the scale of the data, or of centred images where there are no data."""
    scale = _USUAL_SCALE if like is None else float(like.double().square().mean().sqrt())
    generator = torch.Generator().manual_seed(seed)
    return (scale or _USUAL_SCALE) * torch.randn(_PROBES, *sample_shape, generator=generator, dtype=torch.float64)


def _breaking(network: Network, biases: Sequence[str], x: Tensor) -> tuple[str, ...]:
    """Each bias is brought back alone into the network without any; that one must be homogeneous to tell."""
    without = {name: torch.zeros_like(network.params[name]) for name in biases}
    degree, deviation = _fit(network, without, x)
    if degree is None or deviation is None or deviation >= EXACT:
        return ()
    alone = {name: {other: zero for other, zero in without.items() if other != name} for name in biases}
    return tuple(name for name in biases if (_fit(network, alone[name], x, degree)[1] or 0.0) >= EXACT)


def _fit(
    network: Network, params: Mapping[str, Tensor], x: Tensor, degree: float | None = None
) -> tuple[float | None, float | None]:
    """Degree by least squares on ``log ||Phi(a theta)|| = log ||Phi(theta)|| + L log a``, unless given; deviation."""
    whole = {**network.params, **params}
    plain = network.outputs(x, whole)
    scaled = {a: network.outputs(x, {name: a * value for name, value in whole.items()}) for a in FACTORS}
    norms = [float(values.norm()) for values in (plain, *scaled.values())]
    if not all(0 < norm < math.inf for norm in norms):
        return None, None
    if degree is None:
        growth = sum(math.log(a) * math.log(norm / norms[0]) for a, norm in zip(FACTORS, norms[1:], strict=True))
        degree = growth / sum(math.log(a) ** 2 for a in FACTORS)
    deviations = [float((values - a**degree * plain).norm() / values.norm()) for a, values in scaled.items()]
    return degree, max(deviations)
