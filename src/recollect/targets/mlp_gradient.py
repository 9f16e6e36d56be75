"""The KKT residual of an MLP differentiated by hand: no graph is recorded, no loss computed.

For layers ``z_l = a_{l-1} W_l^T + b_l``, ``a_l = relu(z_l)``, ``s_l = sigmoid(alpha z_l)`` and a cotangent ``c``,
the pullback is ``delta_L = c``, ``delta_l = (delta_{l+1} W_{l+1}) * s_l``, ``G_l = delta_l^T a_{l-1}`` (weights),
``g_l = sum_i delta_l`` (biases), and the residual ``sum_l w_l ||theta_l - G_l||^2``. With ``k_l = 2 w_l``:

    r_l              = a_{l-1} G_l^T - (z_l - b_l) + (g_l - b_l)
    adj(delta_1)     = k_1 r_1, and going up: adj(delta_{l+1}) = k_{l+1} r_{l+1} + (adj(delta_l) * s_l) W_{l+1}^T
    adj(z_l)         = adj(a_l) * s_l + alpha (adj(delta_l) * s_l) * (delta_{l+1} W_{l+1}) * (1 - s_l)
    adj(a_{l-1})     = k_l delta_l G_l + (adj(z_l) - k_l delta_l) W_l

The residual matrices ``theta - G`` are never formed: their products with ``a`` and ``delta`` follow from ``z`` and
from products with the weights, which all trials share. For ``d-h-h-1`` a step costs ``2 m (5 d h + 7 h^2)`` operations
per trial, and ``2 m (5 d h + 4 h^2)`` when the first layer alone counts. Where candidates are few, ``G`` itself is not
formed either: ``a G^T = (a a^T) delta`` and ``delta G = (delta delta^T) a`` cost less through the m x m products.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from recollect.core import per_trial
from recollect.products import (
    Matrix,
    Rows,
    Tape,
    column_sums,
    few,
    matrix,
    product,
    rows,
    summed,
    summed_matrix,
    through_pairs,
)
from recollect.targets.patches import Patches


@dataclass(frozen=True)
class Layer:
    """One linear layer by the names of its parameters; ``half``: how its products are taken."""

    weight_name: str
    bias_name: str | None
    weight: Matrix
    bias: Float[Tensor, " out"] | None
    half: bool

    @property
    def size(self) -> tuple[int, int]:
        """Outputs and inputs."""
        return self.weight.stored.shape[0], self.weight.stored.shape[1]


@dataclass(frozen=True)
class ForwardPass:
    """What the backward passes need: layer inputs, products with the weights, slopes of ReLU."""

    layers: tuple[Layer, ...]
    smoothing: Float[Tensor, " T"]
    patches: Patches
    tape: Tape
    inputs: list[Rows]
    products: list[Float[Tensor, "T m out"]]
    slopes: list[Float[Tensor, "T m out"]]

    def pull_back(self, cotangent: Float[Tensor, "T m C"]) -> BackwardPass:
        passed = BackwardPass([rows(cotangent, self.layers[-1].half)], [])
        for index in reversed(range(1, len(self.layers))):
            arriving = product(passed.deltas[0], self.layers[index].weight, self.tape)
            passed.arriving.insert(0, self.patches.spread(arriving) if index == 1 else arriving)
            delta = passed.arriving[0] * self.slopes[index - 1]
            passed.deltas.insert(0, rows(delta, self.layers[index - 1].half))
        return passed


@dataclass(frozen=True)
class BackwardPass:
    """``delta`` of every layer and, for hidden ones, what arrives there before the slope: ``delta_{l+1} W_{l+1}``."""

    deltas: list[Rows]
    arriving: list[Float[Tensor, "T m out"]]


@dataclass(frozen=True)
class MLPPulled:
    """`recollect.core.Pulled` for a chain of layers."""

    passed: ForwardPass
    back: BackwardPass
    names: frozenset[str] | None

    @property
    def taken(self) -> list[Tensor]:
        return self.passed.tape.taken

    @property
    def combined(self) -> dict[str, Tensor]:
        found: dict[str, Tensor] = {}
        for layer, delta, a in zip(self.passed.layers, self.back.deltas, self.passed.inputs, strict=True):
            if self.names is None or layer.weight_name in self.names:
                found[layer.weight_name] = summed(delta, a)
            if layer.bias_name is not None and (self.names is None or layer.bias_name in self.names):
                found[layer.bias_name] = column_sums(delta)
        return found

    def adjoint(
        self, weights: Mapping[str, float], total: Mapping[str, Tensor] | None = None
    ) -> tuple[Float[Tensor, "T m ..."], Float[Tensor, "T m C"]]:
        passed, layers = self.passed, self.passed.layers
        gradients = [
            self._summed(index, total) if layer.weight_name in weights else None for index, layer in enumerate(layers)
        ]
        upward, cotangent_adjoint = self._delta_adjoints(weights, gradients)
        z_adjoint: Tensor | None = None  # the outputs themselves do not enter the residual
        for index in reversed(range(1, len(layers))):
            input_adjoint = self._input_adjoint(index, z_adjoint, weights, gradients[index])
            slope, arriving, sloped = passed.slopes[index - 1], self.back.arriving[index - 1], upward[index - 1].values
            if index == 1:
                sloped = passed.patches.spread(sloped)
                input_adjoint = None if input_adjoint is None else passed.patches.spread(input_adjoint)
            bend = per_trial(passed.smoothing, slope) * sloped * arriving * (1 - slope)
            z_adjoint = bend if input_adjoint is None else input_adjoint * slope + bend
        x_adjoint = self._input_adjoint(0, z_adjoint, weights, gradients[0])
        x_adjoint = torch.zeros_like(passed.inputs[0].values) if x_adjoint is None else x_adjoint
        return passed.patches.back(x_adjoint), cotangent_adjoint

    def _summed(self, index: int, total: Mapping[str, Tensor] | None) -> Summed:
        layer, a, delta = self.passed.layers[index], self.passed.inputs[index], self.back.deltas[index]
        if total is not None:
            bias = None if layer.bias_name is None else total[layer.bias_name]
            return Summed(a, delta, matrix(total[layer.weight_name], layer.half), bias)
        bias = None if layer.bias_name is None else column_sums(delta)
        m, (width_out, width_in) = a.stored.shape[1], layer.size
        by_pairs = few(m, width_in, width_out)
        return Summed(a, delta, None if by_pairs else summed_matrix(delta, a), bias)

    def _delta_adjoints(
        self, weights: Mapping[str, float], gradients: list[Summed | None]
    ) -> tuple[list[Rows], Float[Tensor, "T m C"]]:
        """``adj(delta_l) * s_l`` of every hidden layer, ready to be multiplied, and the cotangent's adjoint."""
        upward: list[Rows] = []
        adjoint = torch.zeros_like(self.passed.products[0])
        for index, layer in enumerate(self.passed.layers):
            own = gradients[index]
            carried = product(upward[-1], layer.weight.transposed) if upward else None
            if own is not None:
                factor = 2 * weights[layer.weight_name]
                adjoint = factor * (own.times_inputs() - self.passed.products[index])
                if layer.bias is not None and own.bias is not None:
                    adjoint = adjoint + factor * (own.bias - layer.bias).unsqueeze(1)
                adjoint = adjoint if carried is None else adjoint + carried
            elif carried is not None:
                adjoint = carried
            if index + 1 < len(self.passed.layers):
                sloped = adjoint * self.passed.slopes[index]
                sloped = self.passed.patches.gathered(sloped) if index == 0 else sloped
                upward.append(rows(sloped, self.passed.layers[index + 1].half))
        return upward, adjoint

    def _input_adjoint(
        self, index: int, z_adjoint: Tensor | None, weights: Mapping[str, float], own: Summed | None
    ) -> Tensor | None:
        layer, delta = self.passed.layers[index], self.back.deltas[index]
        if own is None:
            return None if z_adjoint is None else product(rows(z_adjoint, layer.half), layer.weight)
        factor = 2 * weights[layer.weight_name]
        through = -factor * delta.values if z_adjoint is None else z_adjoint - factor * delta.values
        return product(rows(through, layer.half), layer.weight) + factor * own.times_deltas()


@dataclass(frozen=True)
class Summed:
    """A layer's ``G = delta^T a`` over all candidates, or the means to multiply by it without forming it."""

    a: Rows
    delta: Rows
    gradient: Matrix | None
    bias: Float[Tensor, "T out"] | None

    def times_inputs(self) -> Float[Tensor, "T m out"]:
        """``a G^T``"""
        if self.gradient is not None:
            return product(self.a, self.gradient.transposed)
        return through_pairs(self.a, self.delta)

    def times_deltas(self) -> Float[Tensor, "T m in"]:
        """``delta G``"""
        if self.gradient is not None:
            return product(self.delta, self.gradient)
        return through_pairs(self.delta, self.a)
