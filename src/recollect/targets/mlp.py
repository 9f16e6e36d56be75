"""Multi-layer perceptrons by hand: forward and backward pass spelled out with the products they need."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from recollect.core import Pullback, per_trial
from recollect.products import Tape, matrix, product, rows
from recollect.targets.chain import Chain, read_chain
from recollect.targets.mlp_gradient import ForwardPass, Layer, MLPPulled
from recollect.targets.patches import Patches


class MLPTarget:
    """Linear layers with ReLU between them, biases optional on each; the first may be a convolution.

    ``half`` takes the products of hidden layers from half-precision operands (`recollect.products`); without autograd
    only. Names of parameters are those of the network they came from, so that all targets speak of the same ones.
    """

    def __init__(self, chain: Chain, half: bool = False) -> None:
        self.params = {name: p.detach().clone() for name, p in chain.params.items()}
        self.sample_shape = chain.patches.sample_shape
        self.patches, self.half, self._names = chain.patches, half, chain.layers_of
        halves = [half] * (len(self._names) - 1) + [False]
        self._layers = tuple(
            Layer(weight, bias, matrix(self.params[weight], own), None if bias is None else self.params[bias], own)
            for (weight, bias), own in zip(self._names, halves, strict=True)
        )

    @classmethod
    def from_module(
        cls,
        module: nn.Module,
        sample_shape: tuple[int, ...],
        dtype: torch.dtype | None = None,
        device: torch.device | None = None,
        half: bool = False,
    ) -> MLPTarget:
        chain = read_chain(module, sample_shape)
        params = {name: p.to(dtype=dtype, device=device) for name, p in chain.params.items()}
        return cls(replace(chain, params=params), half)

    def in_subspace(self, basis: Float[Tensor, "d r"]) -> MLPTarget:
        """The same network on coefficients of ``basis``; the residual loses what the weights have outside of it."""
        first = self._names[0][0]
        params = self.params | {first: self.params[first] @ basis}
        return MLPTarget(Chain(params, self._names, Patches((basis.shape[1],))), self.half)

    @property
    def widths(self) -> tuple[int, ...]:
        """Inputs, hidden units of each layer, outputs."""
        return (self._layers[0].size[1], *(layer.size[0] for layer in self._layers))

    @property
    def first_weight(self) -> Float[Tensor, "h d"]:
        return self.params[self._names[0][0]]

    @property
    def layers(self) -> list[list[str]]:
        return [[name for name in pair if name is not None] for pair in self._names]

    def linearise(
        self, x: Float[Tensor, "T m ..."], smoothing: Float[Tensor, " T"], taken: Sequence[Tensor] = ()
    ) -> tuple[Float[Tensor, "T m C"], Pullback]:
        tape = Tape(list(taken))
        passed = ForwardPass(self._layers, smoothing, self.patches, tape, [], [], [])
        a, z = self.patches.of(x), x
        for layer in self._layers:
            passed.inputs.append(rows(a, layer.half))
            passed.products.append(product(passed.inputs[-1], layer.weight.transposed, tape))
            z = passed.products[-1] if layer.bias is None else passed.products[-1] + layer.bias
            if layer is not self._layers[-1]:
                passed.slopes.append(torch.sigmoid(per_trial(smoothing, z) * z))
                a = _relu_with_slope(z, passed.slopes[-1])
            if layer is self._layers[0]:
                a = self.patches.gathered(a)

        def pullback(cotangent: Tensor, names: Collection[str] | None = None) -> MLPPulled:
            return MLPPulled(passed, passed.pull_back(cotangent), None if names is None else frozenset(names))

        return z, pullback


def _relu_with_slope(z: Tensor, slope: Tensor) -> Tensor:
    """``relu(z)`` with derivative ``slope``; to first order, which is all that a spelled-out backward pass needs."""
    if not torch.is_grad_enabled():
        return torch.relu(z)
    return _ReLUWithSlope.apply(z, slope)  # pyright: ignore[reportReturnType]


class _ReLUWithSlope(torch.autograd.Function):
    @staticmethod
    def forward(ctx, z: Tensor, slope: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx.save_for_backward(slope)
        return torch.relu(z)

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        (slope,) = ctx.saved_tensors
        return grad * slope, None
