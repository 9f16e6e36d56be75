"""Multi-layer perceptrons by hand: forward and backward pass spelled out with the products they need."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from recollect.core import Pullback, RecollectError, per_trial
from recollect.products import matrix, product, rows
from recollect.targets.mlp_gradient import ForwardPass, Layer, MLPPulled


class MLPTarget:
    """Linear layers with ReLU between them, biases optional on each.

    ``layers_of`` lists ``(weight name, bias name or None)`` per layer, input side first; names are those of the
    network the parameters came from, so that both kinds of target speak of the same parameters. ``half`` takes the
    products of hidden layers from half-precision operands (`recollect.products`); without autograd only.
    """

    def __init__(
        self,
        params: dict[str, Tensor],
        layers_of: Sequence[tuple[str, str | None]],
        sample_shape: tuple[int, ...],
        half: bool = False,
    ) -> None:
        self.params = {name: p.detach().clone() for name, p in params.items()}
        self.sample_shape = tuple(sample_shape)
        self._names, self._half = tuple(layers_of), half
        halves = [half] * (len(layers_of) - 1) + [False]
        self._chain = tuple(
            Layer(weight, bias, matrix(self.params[weight], own), None if bias is None else self.params[bias], own)
            for (weight, bias), own in zip(layers_of, halves, strict=True)
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
        """Read the layers out of a module made of Flatten, Linear and ReLU, in the order they were defined."""
        leaves = [(name, part) for name, part in module.named_modules() if not list(part.children())]
        _require_alternation(leaves)
        params = {name: p.to(dtype=dtype, device=device) for name, p in module.named_parameters()}
        layers_of = [
            (f"{name}.weight".lstrip("."), f"{name}.bias".lstrip(".") if part.bias is not None else None)
            for name, part in leaves
            if isinstance(part, nn.Linear)
        ]
        return cls(params, layers_of, sample_shape, half)

    def in_subspace(self, basis: Float[Tensor, "d r"]) -> MLPTarget:
        """The same network on coefficients of ``basis``; the residual loses what the weights have outside of it."""
        first = self._names[0][0]
        params = self.params | {first: self.params[first] @ basis}
        return MLPTarget(params, self._names, (basis.shape[1],), self._half)

    @property
    def widths(self) -> tuple[int, ...]:
        """Inputs, hidden units of each layer, outputs."""
        return (self._chain[0].size[1], *(layer.size[0] for layer in self._chain))

    @property
    def first_weight(self) -> Float[Tensor, "h d"]:
        return self.params[self._names[0][0]]

    @property
    def layers(self) -> list[list[str]]:
        return [[name for name in pair if name is not None] for pair in self._names]

    def linearise(
        self, x: Float[Tensor, "T m ..."], smoothing: Float[Tensor, " T"]
    ) -> tuple[Float[Tensor, "T m C"], Pullback]:
        passed = ForwardPass(self._chain, smoothing, self.sample_shape, [], [], [])
        a, z = x.flatten(2), x
        for layer in self._chain:
            passed.inputs.append(rows(a, layer.half))
            passed.products.append(product(passed.inputs[-1], layer.weight.transposed))
            z = passed.products[-1] if layer.bias is None else passed.products[-1] + layer.bias
            if layer is not self._chain[-1]:
                passed.slopes.append(torch.sigmoid(per_trial(smoothing, z) * z))
                a = _relu_with_slope(z, passed.slopes[-1])

        def pullback(cotangent: Tensor, names: Collection[str] | None = None) -> MLPPulled:
            return MLPPulled(passed, passed.pull_back(cotangent), None if names is None else frozenset(names))

        return z, pullback


def is_mlp(module: nn.Module) -> bool:
    """Whether the hand-derived target computes what this module computes."""
    leaves = [(name, part) for name, part in module.named_modules() if not list(part.children())]
    try:
        _require_alternation(leaves)
    except RecollectError:
        return False
    # A forward method of the user's own may do anything with these layers; only known containers are plain chains.
    return all(
        type(part) is nn.Sequential or getattr(part, "is_plain_chain", False)
        for part in module.modules()
        if list(part.children())
    )


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


def _require_alternation(leaves: Sequence[tuple[str, nn.Module]]) -> None:
    allowed = (nn.Linear, nn.ReLU, nn.Flatten)
    for name, part in leaves:
        if not isinstance(part, allowed):
            raise RecollectError(
                f"the MLP target needs Flatten, Linear and ReLU layers, found {type(part).__name__} at '{name}'; "
                "use the module target instead (--set attack.target=module)."
            )
    kinds = [type(part) for _, part in leaves if not isinstance(part, nn.Flatten)]
    wanted = [nn.Linear if index % 2 == 0 else nn.ReLU for index in range(len(kinds))]
    flat_first = all(not isinstance(part, nn.Flatten) for _, part in leaves[1:])
    if kinds != wanted or kinds[-1:] != [nn.Linear] or not flat_first:
        raise RecollectError(
            "the MLP target needs Linear layers with one ReLU between each two, found "
            f"{', '.join(type(part).__name__ for _, part in leaves)}; use the module target instead "
            "(--set attack.target=module)."
        )
    widths = [(first.out_features, second.in_features) for first, second in pairwise(_linears(leaves))]
    if any(produced != consumed for produced, consumed in widths):
        raise RecollectError("the MLP target needs layers that fit together; use --set attack.target=module.")


def _linears(leaves: Sequence[tuple[str, nn.Module]]) -> list[nn.Linear]:
    return [part for _, part in leaves if isinstance(part, nn.Linear)]
