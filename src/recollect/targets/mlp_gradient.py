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
per trial, and ``2 m (5 d h + 4 h^2)`` when the first layer alone counts.
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
    combined: dict[str, Tensor]

    def adjoint(
        self, total: Mapping[str, Tensor], weights: Mapping[str, float]
    ) -> tuple[Float[Tensor, "T m ..."], Float[Tensor, "T m C"]]:
        passed, layers = self.passed, self.passed.layers
        upward = self._delta_adjoints(total, weights)
        z_adjoint: Tensor | None = None  # the outputs themselves do not enter the residual
        for index in reversed(range(1, len(layers))):
            input_adjoint = self._input_adjoint(index, z_adjoint, total, weights)
            slope, delta = passed.slopes[index - 1], self.deltas[index - 1]
            bend = per_trial(passed.smoothing, slope) * upward[index - 1] * delta * (1 - slope)
            z_adjoint = bend if input_adjoint is None else input_adjoint * slope + bend
        x_adjoint = self._input_adjoint(0, z_adjoint, total, weights)
        x_adjoint = torch.zeros_like(passed.inputs[0]) if x_adjoint is None else x_adjoint
        return x_adjoint.unflatten(2, passed.sample_shape), upward[-1]

    def _delta_adjoints(self, total: Mapping[str, Tensor], weights: Mapping[str, float]) -> list[Tensor]:
        adjoints: list[Tensor] = []
        for index, layer in enumerate(self.passed.layers):
            adjoint = self._direct(index, total, weights)
            if index > 0:
                carried = (adjoints[-1] * self.passed.slopes[index - 1]) @ layer.weight.T
                adjoint = carried if adjoint is None else adjoint + carried
            adjoints.append(torch.zeros_like(self.deltas[index]) if adjoint is None else adjoint)
        return adjoints

    def _direct(self, index: int, total: Mapping[str, Tensor], weights: Mapping[str, float]) -> Tensor | None:
        """What a layer's own residual sends to its delta."""
        layer, a, product = self.passed.layers[index], self.passed.inputs[index], self.passed.products[index]
        if layer.weight_name not in weights:
            return None
        factor = 2 * weights[layer.weight_name]
        adjoint = torch.baddbmm(product, a, total[layer.weight_name].transpose(1, 2), beta=-factor, alpha=factor)
        if layer.bias_name is None or layer.bias is None:
            return adjoint
        return adjoint + factor * (total[layer.bias_name] - layer.bias).unsqueeze(1)

    def _input_adjoint(
        self, index: int, z_adjoint: Tensor | None, total: Mapping[str, Tensor], weights: Mapping[str, float]
    ) -> Tensor | None:
        layer, delta = self.passed.layers[index], self.deltas[index]
        if layer.weight_name not in weights:
            return None if z_adjoint is None else z_adjoint @ layer.weight
        factor = 2 * weights[layer.weight_name]
        through = -factor * delta if z_adjoint is None else z_adjoint - factor * delta
        return torch.baddbmm(through @ layer.weight, delta, total[layer.weight_name], alpha=factor)
