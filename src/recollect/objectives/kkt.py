"""Reconstruction from the stationarity condition of the margin problem (Haim 2022, section 3.2)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from recollect.core import Pulled, RecollectError, Target, Terms, TrialRng, Variables
from recollect.objectives.cotangents import Direction, binary
from recollect.priors import dual_floor, dual_floor_gradient
from recollect.sharing import SumAcross, alone


@dataclass(frozen=True)
class KKT:
    """A trained network's parameters are a combination of its own gradients at the training samples.

    ``stationarity = sum_l w_l || theta_l - (1/m) sum_i <c_i, dPhi(x_i)/dtheta_l> ||^2``  (Haim 2022, Eq. 6)

    plus ``floor_weight * sum_i relu(lambda_min - lambda_i)^2``, as in the published code (the paper prints it
    without the square). The division by m is the published code's: it only rescales the multipliers.
    ``layer_weights`` of 1 is the published choice; with 1, 0, 0 the second layer's initial noise, most of the
    loss, drops out, and so do the products it needs. ``chunk`` bounds how many candidates are worked on at once;
    ``total`` sums over processes, where several share the candidates.
    """

    candidates: int
    smoothing: Float[Tensor, " T"]
    dual_min: Float[Tensor, " T"]
    layer_weights: tuple[float, ...] | None = None
    floor_weight: float = 5.0
    direction: Direction = binary
    chunk: int | None = None
    total: SumAcross = alone

    def init(self, rng: TrialRng) -> Variables:
        return {"duals": rng.uniform("duals", (self.candidates,))}

    def __call__(
        self, target: Target, x: Float[Tensor, "T m ..."], labels: Int[Tensor, " m"], variables: Variables
    ) -> Terms:
        duals = variables["duals"]
        weights = parameter_weights(target, self.layer_weights)
        outputs, pullback = target.linearise(x, self.smoothing)
        direction = self.direction(labels, outputs.detach())
        combined = pullback(duals.unsqueeze(-1) * direction / self.candidates, weights.keys()).combined
        residuals = [
            weight * (target.params[name] - self.total(combined[name])).flatten(1).square().sum(dim=1)
            for name, weight in weights.items()
        ]
        stationarity = torch.stack(residuals).sum(dim=0)
        return {
            "stationarity": stationarity,
            "dual_floor": self.floor_weight * self.total(dual_floor(duals, self.dual_min)),
        }

    def gradient(
        self, target: Target, x: Float[Tensor, "T m ..."], labels: Int[Tensor, " m"], variables: Variables
    ) -> tuple[Float[Tensor, "T m ..."], Variables]:
        """The same without recording the residual, in two passes over chunks of candidates.

        The first pass sums the candidates' gradients, the second sends what they leave of theta back to each
        candidate. Memory is set by the chunk; with a single chunk nothing is computed twice.
        """
        duals, m = variables["duals"], x.shape[1]
        weights = parameter_weights(target, self.layer_weights)

        def pull(part: slice) -> tuple[Tensor, Pulled]:
            outputs, pullback = target.linearise(x[:, part], self.smoothing)
            direction = self.direction(labels[part], outputs) / self.candidates
            return direction, pullback(duals[:, part].unsqueeze(-1) * direction, weights.keys())

        def send_back(
            direction: Tensor, pulled: Pulled, total: dict[str, Tensor] | None = None
        ) -> tuple[Tensor, Tensor]:
            x_gradient, cotangent_gradient = pulled.adjoint(weights, total)
            return x_gradient, (cotangent_gradient * direction).sum(dim=-1)

        if m == self.candidates and not self.chunk:
            x_gradient, duals_gradient = send_back(*pull(slice(0, m)))
        else:
            parts = [slice(start, start + (self.chunk or m)) for start in range(0, m, self.chunk or m)]
            total = self._summed(pull(part)[1].combined for part in parts)
            sent = [send_back(*pull(part), total) for part in parts]
            x_gradient, duals_gradient = (torch.cat(pieces, dim=1) for pieces in zip(*sent, strict=True))
        return x_gradient, {"duals": duals_gradient + self.floor_weight * dual_floor_gradient(duals, self.dual_min)}

    def in_smaller_chunks(self) -> KKT | None:
        chunk = (self.chunk or self.candidates) // 2
        return replace(self, chunk=chunk) if chunk else None

    def _summed(self, parts: Iterable[dict[str, Tensor]]) -> dict[str, Tensor]:
        total: dict[str, Tensor] = {}
        for part in parts:
            total = {name: value.detach() + total[name] if total else value.detach() for name, value in part.items()}
        return {name: self.total(value) for name, value in total.items()}


def parameter_weights(target: Target, layer_weights: tuple[float, ...] | None) -> dict[str, float]:
    """Weight of each parameter that counts; layers with weight 0 are left out and never computed."""
    if layer_weights is None:
        return dict.fromkeys(target.params, 1.0)
    if len(layer_weights) != len(target.layers):
        raise RecollectError(
            f"layer_weights has {len(layer_weights)} values, but the network has {len(target.layers)} layers "
            "with parameters; give one weight per layer, input side first."
        )
    if not any(weight > 0 for weight in layer_weights):
        raise RecollectError("layer_weights are all zero; at least one layer must count.")
    pairs = zip(target.layers, layer_weights, strict=True)
    return {name: weight for names, weight in pairs if weight > 0 for name in names}
