"""The KKT residual of an MLP differentiated by hand: no graph is recorded, no loss computed.

For layers ``z_l = a_{l-1} W_l^T + b_l``, ``a_l = relu(z_l)``, ``s_l = sigmoid(alpha z_l)`` and a cotangent ``c``,
the pullback is ``delta_L = c``, ``delta_l = (delta_{l+1} W_{l+1}) * s_l``, ``G_l = delta_l^T a_{l-1}`` (weights),
``g_l = sum_i delta_l`` (biases), and the residual ``sum_l w_l ||theta_l - G_l||^2``. With ``k_l = 2 w_l``:

    r_l              = a_{l-1} G_l^T - (z_l - b_l) + (g_l - b_l)
    adj(delta_1)     = k_1 r_1, and going up: adj(delta_{l+1}) = k_{l+1} r_{l+1} + (adj(delta_l) * s_l) W_{l+1}^T
    adj(z_l)         = adj(a_l) * s_l + alpha adj(delta_l) * delta_l * (1 - s_l)
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


@dataclass(frozen=True)
class Layer:
    """One linear layer by the names of its parameters."""

    weight_name: str
    bias_name: str | None
    weight: Float[Tensor, "out in"]
    bias: Float[Tensor, " out"] | None


@dataclass(frozen=True)
class ForwardPass:
    """What the backward passes need: layer inputs, products with the weights, slopes of ReLU."""

    layers: tuple[Layer, ...]
    smoothing: Float[Tensor, " T"]
    sample_shape: tuple[int, ...]
    inputs: list[Float[Tensor, "T m in"]]
    products: list[Float[Tensor, "T m out"]]
    slopes: list[Float[Tensor, "T m out"]]

    def pull_back(self, cotangent: Float[Tensor, "T m C"]) -> list[Float[Tensor, "T m out"]]:
        """``delta`` of every layer, input side first."""
        deltas = [cotangent]
        for index in reversed(range(1, len(self.layers))):
            deltas.insert(0, (deltas[0] @ self.layers[index].weight) * self.slopes[index - 1])
        return deltas


@dataclass(frozen=True)
class MLPPulled:
    """`recollect.core.Pulled` for a chain of layers."""

    passed: ForwardPass
    deltas: list[Float[Tensor, "T m out"]]
    names: frozenset[str] | None

    @property
    def combined(self) -> dict[str, Tensor]:
        found: dict[str, Tensor] = {}
        for layer, delta, a in zip(self.passed.layers, self.deltas, self.passed.inputs, strict=True):
            if self.names is None or layer.weight_name in self.names:
                found[layer.weight_name] = delta.transpose(1, 2) @ a
            if layer.bias_name is not None and (self.names is None or layer.bias_name in self.names):
                found[layer.bias_name] = delta.sum(dim=1)
        return found

    def adjoint(
        self, weights: Mapping[str, float], total: Mapping[str, Tensor] | None = None
    ) -> tuple[Float[Tensor, "T m ..."], Float[Tensor, "T m C"]]:
        passed, layers = self.passed, self.passed.layers
        summed = [
            self._summed(index, total) if layer.weight_name in weights else None for index, layer in enumerate(layers)
        ]
        upward = self._delta_adjoints(weights, summed)
        z_adjoint: Tensor | None = None  # the outputs themselves do not enter the residual
        for index in reversed(range(1, len(layers))):
            input_adjoint = self._input_adjoint(index, z_adjoint, weights, summed[index])
            slope, delta = passed.slopes[index - 1], self.deltas[index - 1]
            bend = per_trial(passed.smoothing, slope) * upward[index - 1] * delta * (1 - slope)
            z_adjoint = bend if input_adjoint is None else input_adjoint * slope + bend
        x_adjoint = self._input_adjoint(0, z_adjoint, weights, summed[0])
        x_adjoint = torch.zeros_like(passed.inputs[0]) if x_adjoint is None else x_adjoint
        return x_adjoint.unflatten(2, passed.sample_shape), upward[-1]

    def _summed(self, index: int, total: Mapping[str, Tensor] | None) -> Summed:
        layer, a, delta = self.passed.layers[index], self.passed.inputs[index], self.deltas[index]
        if total is not None:
            bias = None if layer.bias_name is None else total[layer.bias_name]
            return Summed(a, delta, total[layer.weight_name], bias)
        bias = None if layer.bias_name is None else delta.sum(dim=1)
        m, width_in, width_out = a.shape[1], a.shape[2], delta.shape[2]
        few = 2 * m * (width_in + width_out) < 3 * width_in * width_out
        return Summed(a, delta, None if few else delta.transpose(1, 2) @ a, bias)

    def _delta_adjoints(self, weights: Mapping[str, float], summed: list[Summed | None]) -> list[Tensor]:
        adjoints: list[Tensor] = []
        for index, layer in enumerate(self.passed.layers):
            adjoint, own = None, summed[index]
            if own is not None:
                factor = 2 * weights[layer.weight_name]
                adjoint = own.times_inputs(self.passed.products[index], beta=-factor, alpha=factor)
                if layer.bias is not None and own.bias is not None:
                    adjoint = adjoint + factor * (own.bias - layer.bias).unsqueeze(1)
            if index > 0:
                carried = (adjoints[-1] * self.passed.slopes[index - 1]) @ layer.weight.T
                adjoint = carried if adjoint is None else adjoint + carried
            adjoints.append(torch.zeros_like(self.deltas[index]) if adjoint is None else adjoint)
        return adjoints

    def _input_adjoint(
        self, index: int, z_adjoint: Tensor | None, weights: Mapping[str, float], own: Summed | None
    ) -> Tensor | None:
        layer, delta = self.passed.layers[index], self.deltas[index]
        if own is None:
            return None if z_adjoint is None else z_adjoint @ layer.weight
        factor = 2 * weights[layer.weight_name]
        through = -factor * delta if z_adjoint is None else z_adjoint - factor * delta
        return own.times_deltas(through @ layer.weight, alpha=factor)


@dataclass(frozen=True)
class Summed:
    """A layer's ``G = delta^T a`` over all candidates, or the means to multiply by it without forming it."""

    a: Float[Tensor, "T m in"]
    delta: Float[Tensor, "T m out"]
    matrix: Float[Tensor, "T out in"] | None
    bias: Float[Tensor, "T out"] | None

    def times_inputs(self, start: Float[Tensor, "T m out"], beta: float, alpha: float) -> Float[Tensor, "T m out"]:
        """``beta start + alpha a G^T``"""
        if self.matrix is not None:
            return torch.baddbmm(start, self.a, self.matrix.transpose(1, 2), beta=beta, alpha=alpha)
        return torch.baddbmm(start, self.a @ self.a.transpose(1, 2), self.delta, beta=beta, alpha=alpha)

    def times_deltas(self, start: Float[Tensor, "T m in"], alpha: float) -> Float[Tensor, "T m in"]:
        """``start + alpha delta G``"""
        if self.matrix is not None:
            return torch.baddbmm(start, self.delta, self.matrix, alpha=alpha)
        return torch.baddbmm(start, self.delta @ self.delta.transpose(1, 2), self.a, alpha=alpha)
