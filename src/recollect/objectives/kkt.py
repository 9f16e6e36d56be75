"""Reconstruction from the stationarity condition of the margin problem (Haim 2022, section 3.2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor

from recollect.core import Pulled, RecollectError, Target, Terms, TrialRng, Variables
from recollect.memory import AtOnce
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
    loss, drops out, and so do the products it needs. ``free_sign`` is for multipliers that may be negative: they start
    as N(0, 1) and have no floor (Buzaglo 2023, section 5). ``at_once`` bounds how much is worked on at once; ``total``
    sums over processes, where several share the candidates.
    """

    candidates: int
    smoothing: Float[Tensor, " T"]
    dual_min: Float[Tensor, " T"]
    layer_weights: tuple[float, ...] | None = None
    floor_weight: float = 5.0
    direction: Direction = binary
    free_sign: bool = False
    at_once: AtOnce = field(default_factory=AtOnce)
    total: SumAcross = alone

    def init(self, rng: TrialRng) -> Variables:
        draw = rng.normal if self.free_sign else rng.uniform
        return {"duals": draw("duals", (self.candidates,))}

    def __call__(
        self, target: Target, x: Float[Tensor, "T m ..."], labels: Int[Tensor, " m"], variables: Variables
    ) -> Terms:
        groups = self._groups(len(x))
        if len(groups) > 1:
            own = [self.for_trials(group)(target, x[group], labels, _rows(variables, group)) for group in groups]
            return {name: torch.cat([terms[name] for terms in own]) for name in own[0]}
        duals, weights = variables["duals"], parameter_weights(target, self.layer_weights)
        parts = self._parts(x.shape[1])
        combined = self._summed(self._pull(target, x, labels, duals, part)[1].combined for part in parts)
        residuals = [
            weight * (target.params[name] - combined[name]).flatten(1).square().sum(dim=1)
            for name, weight in weights.items()
        ]
        terms = {"stationarity": torch.stack(residuals).sum(dim=0)}
        if self.free_sign:
            return terms
        return terms | {"dual_floor": self.floor_weight * self.total(dual_floor(duals, self.dual_min))}

    def gradient(
        self, target: Target, x: Float[Tensor, "T m ..."], labels: Int[Tensor, " m"], variables: Variables
    ) -> tuple[Float[Tensor, "T m ..."], Variables]:
        """The same without recording the residual, trials in groups."""
        groups = self._groups(len(x))
        if len(groups) == 1:
            x_gradient, duals_gradient = self._in_two_passes(target, x, labels, variables["duals"])
            return x_gradient, {"duals": duals_gradient}
        parts = [(self.for_trials(group), x[group], _rows(variables, group)) for group in groups]
        sent = [own.gradient(target, own_x, labels, own_variables) for own, own_x, own_variables in parts]
        return torch.cat([x_gradient for x_gradient, _ in sent]), _together([variables for _, variables in sent])

    def _in_two_passes(
        self, target: Target, x: Float[Tensor, "T m ..."], labels: Int[Tensor, " m"], duals: Float[Tensor, "T m"]
    ) -> tuple[Float[Tensor, "T m ..."], Float[Tensor, "T m"]]:
        """The first pass sums the candidates' gradients, the second sends what they leave of theta back to each.

        Memory is set by the chunk; with a single chunk nothing is computed twice.
        """
        weights, parts = parameter_weights(target, self.layer_weights), self._parts(x.shape[1])
        taken: list[Sequence[Tensor]] = [() for _ in parts]

        def sum_up(index: int) -> dict[str, Tensor]:
            _, pulled = self._pull(target, x, labels, duals, parts[index])
            if self.at_once.keep_products:
                taken[index] = pulled.taken
            return pulled.combined

        def send_back(index: int, total: dict[str, Tensor] | None) -> tuple[Tensor, Tensor]:
            direction, pulled = self._pull(target, x, labels, duals, parts[index], taken[index])
            x_gradient, cotangent_gradient = pulled.adjoint(weights, total)
            return x_gradient, (cotangent_gradient * direction).sum(dim=-1)

        several = len(parts) > 1 or x.shape[1] < self.candidates
        total = self._summed(sum_up(index) for index in range(len(parts))) if several else None
        sent = [send_back(index, total) for index in range(len(parts))]
        x_gradient, duals_gradient = (
            sent[0] if len(sent) == 1 else map(partial(torch.cat, dim=1), zip(*sent, strict=True))
        )
        if not self.free_sign:
            duals_gradient = duals_gradient + self.floor_weight * dual_floor_gradient(duals, self.dual_min)
        return x_gradient, duals_gradient

    def in_smaller_chunks(self) -> KKT | None:
        smaller = self.at_once.smaller(len(self.smoothing), self.candidates)
        return None if smaller is None else replace(self, at_once=smaller)

    def for_trials(self, chosen: Int[Tensor, " k"] | slice) -> KKT:
        return replace(self, smoothing=self.smoothing[chosen], dual_min=self.dual_min[chosen])

    def _groups(self, trials: int) -> list[slice]:
        return _slices(trials, self.at_once.trials or trials)

    def _parts(self, m: int) -> list[slice]:
        return _slices(m, self.at_once.candidates or m)

    def _pull(
        self, target: Target, x: Tensor, labels: Tensor, duals: Tensor, part: slice, taken: Sequence[Tensor] = ()
    ) -> tuple[Tensor, Pulled]:
        """Direction of each multiplier, divided by m, and the candidates' gradients pulled back along it."""
        names = parameter_weights(target, self.layer_weights).keys()
        outputs, pullback = target.linearise(x[:, part], self.smoothing, taken)
        direction = self.direction(labels[part], outputs.detach()) / self.candidates
        return direction, pullback(duals[:, part].unsqueeze(-1) * direction, names)

    def _summed(self, parts: Iterable[dict[str, Tensor]]) -> dict[str, Tensor]:
        total: dict[str, Tensor] = {}
        for part in parts:
            total = {name: total[name] + value if total else value for name, value in part.items()}
        return {name: self.total(value) for name, value in total.items()}


def _slices(count: int, size: int) -> list[slice]:
    return [slice(start, start + size) for start in range(0, count, size)]


def _rows(variables: Variables, group: slice) -> Variables:
    return {name: value[group] for name, value in variables.items()}


def _together(groups: Sequence[Variables]) -> Variables:
    return {name: torch.cat([group[name] for group in groups]) for name in groups[0]}


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
