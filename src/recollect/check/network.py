"""A network held still for questions: a float64 copy in evaluation mode, whose parameters can be replaced."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from recollect.calling import Functional
from recollect.core import RecollectError

_CHUNK = 512
"""Samples evaluated at once."""


@dataclass(frozen=True)
class Network:
    """The copy, its parameters by name, and the shape of one input.

    >>> network = Network.of(nn.Linear(3, 1, bias=False), (3,))
    >>> network.outputs(torch.zeros(5, 3)).shape, network.layers
    (torch.Size([5, 1]), {'': ['weight']})
    """

    functional: Functional
    params: dict[str, Tensor]
    sample_shape: tuple[int, ...]

    @classmethod
    def of(cls, module: nn.Module, sample_shape: tuple[int, ...], device: torch.device | None = None) -> Network:
        bad = [name for name, parameter in module.named_parameters() if not bool(parameter.isfinite().all())]
        if bad:
            raise RecollectError(
                f"the weights in '{bad[0]}' are not finite; the checkpoint is damaged or training diverged."
            )
        own = copy.deepcopy(module).eval().to(device=device, dtype=torch.float64)
        params = {name: parameter.detach() for name, parameter in own.named_parameters()}
        if not params:
            raise RecollectError("the network has no parameters, so there is nothing to check; give a trained network.")
        network = cls(Functional.of(own), params, tuple(sample_shape))
        network._require_rows()
        return network

    @property
    def module(self) -> nn.Module:
        return self.functional.net

    @property
    def device(self) -> torch.device:
        return next(iter(self.params.values())).device

    @property
    def layers(self) -> dict[str, list[str]]:
        """Parameters of one submodule form a layer, in the order of definition, as per-layer weights count them."""
        grouped: dict[str, list[str]] = {}
        for name in self.params:
            grouped.setdefault(name.rpartition(".")[0], []).append(name)
        return grouped

    def __call__(self, params: Mapping[str, Tensor], x: Float[Tensor, "n ..."]) -> Float[Tensor, "n C"]:
        """Outputs with some of the parameters replaced; they can be differentiated."""
        outputs = self.functional({**self.params, **params}, x)
        return outputs.unsqueeze(-1) if outputs.ndim == 1 else outputs

    @torch.no_grad()
    def outputs(self, x: Float[Tensor, "n ..."], params: Mapping[str, Tensor] | None = None) -> Float[Tensor, "n C"]:
        parts = x.to(self.device, torch.float64).split(_CHUNK)
        return torch.cat([self(params or {}, part) for part in parts])

    def _require_rows(self) -> None:
        shape = list(self.sample_shape)
        try:
            outputs = self.outputs(torch.zeros(2, *shape))
        # A network of the user's own may raise anything.
        except Exception as error:
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise RecollectError(
                f"the network cannot be evaluated on inputs of shape {shape} ({reason}); check --shape."
            ) from error
        if outputs.ndim != 2 or len(outputs) != 2:
            raise RecollectError(
                f"the network returns {list(outputs.shape)} for 2 inputs; it must return one row of outputs per input."
            )
