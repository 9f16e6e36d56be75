"""Multi-layer perceptrons by hand: the same derivatives as autograd's, at the number of products they need.

``linearise`` spells out the forward and the backward pass with ordinary matrix products. Autograd then
differentiates that once, instead of differentiating its own backward pass: for ``d-h-h-1`` one step of the
attack costs ``2 m (5 d h + 7 h^2)`` operations per trial, and with the first layer alone ``2 m (5 d h + 4 h^2)``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from recollect.core import Pullback, RecollectError, per_trial


class MLPTarget:
    """Linear layers with ReLU between them, biases optional on each.

    ``layers_of`` lists ``(weight name, bias name or None)`` per layer, input side first; names are those of the
    network the parameters came from, so that both kinds of target speak of the same parameters.
    """

    def __init__(
        self,
        params: dict[str, Tensor],
        layers_of: Sequence[tuple[str, str | None]],
        sample_shape: tuple[int, ...],
    ) -> None:
        self.params = {name: p.detach().clone() for name, p in params.items()}
        self.sample_shape = tuple(sample_shape)
        self._layers_of = tuple(layers_of)

    @classmethod
    def from_module(
        cls,
        module: nn.Module,
        sample_shape: tuple[int, ...],
        dtype: torch.dtype | None = None,
        device: torch.device | None = None,
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
        return cls(params, layers_of, sample_shape)

    @property
    def layers(self) -> list[list[str]]:
        return [[name for name in pair if name is not None] for pair in self._layers_of]

    def linearise(
        self, x: Float[Tensor, "T m ..."], smoothing: Float[Tensor, " T"]
    ) -> tuple[Float[Tensor, "T m C"], Pullback]:
        inputs, slopes = [x.flatten(2)], []
        for layer in self._layers_of[:-1]:
            z = self._affine(layer, inputs[-1])
            slope = torch.sigmoid(per_trial(smoothing, z) * z)
            slopes.append(slope)
            inputs.append(_relu_with_slope(z, slope))
        outputs = self._affine(self._layers_of[-1], inputs[-1])

        def pullback(cotangent: Tensor, names: Collection[str] | None = None) -> dict[str, Tensor]:
            delta, grads = cotangent, {}
            for index in reversed(range(len(self._layers_of))):
                weight, bias = self._layers_of[index]
                if names is None or weight in names:
                    grads[weight] = delta.transpose(1, 2) @ inputs[index]
                if bias is not None and (names is None or bias in names):
                    grads[bias] = delta.sum(dim=1)
                if index > 0:
                    delta = (delta @ self.params[weight]) * slopes[index - 1]
            return grads

        return outputs, pullback

    def _affine(self, layer: tuple[str, str | None], x: Tensor) -> Tensor:
        weight, bias = layer
        z = x @ self.params[weight].T
        return z if bias is None else z + self.params[bias]


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
