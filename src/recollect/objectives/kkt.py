"""Reconstruction from the stationarity condition of the margin problem (Haim 2022, section 3.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from recollect.compilation import kept_out
from recollect.core import Pulled, RecollectError, Target, Terms, TrialRng, Variables
from recollect.memory import AtOnce
from recollect.objectives.cotangents import Direction, binary
from recollect.priors import dual_floor, dual_floor_gradient
from recollect.sharing import SumAcross, alone

_Part = tuple[Tensor, Tensor, Tensor]
"""Some candidates: themselves, their labels, their multipliers."""


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
        combined, _ = self._first_pass(target, self._parts(x, labels, duals), keep=False)
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
        """The same without recording the residual.

        Trials go in groups. Candidates go in chunks, twice: the first pass sums their gradients, the second sends what
        they leave of theta back to each. With a single chunk nothing is computed twice.
        """
        duals, groups = variables["duals"], self._groups(len(x))
        if len(groups) > 1:
            x_gradient, duals_gradient = self._by_groups(target, x, labels, duals, groups)
        else:
            parts = self._parts(x, labels, duals)
            total, taken = None, [()]
            if len(parts) > 1 or x.shape[1] < self.candidates:
                total, taken = self._first_pass(target, parts, self.at_once.keep_products)
            x_gradient, duals_gradient = self._second_pass(target, parts, taken, total)
        if not self.free_sign:
            duals_gradient = duals_gradient + self.floor_weight * dual_floor_gradient(duals, self.dual_min)
        return x_gradient, {"duals": duals_gradient}

    # A compiler would write out every turn of these loops. It is kept out of them, and compiles one turn.

    @kept_out(recursive=False)
    def _by_groups(
        self, target: Target, x: Tensor, labels: Tensor, duals: Tensor, groups: Sequence[slice]
    ) -> tuple[Tensor, Tensor]:
        found: list[tuple[Tensor, Tensor]] = []
        for group, own in zip(groups, self._for_groups(groups), strict=True):
            x_gradient, variables = own.gradient(target, x[group], labels, {"duals": duals[group]})
            found.append((x_gradient, variables["duals"]))
        return torch.cat([own for own, _ in found]), torch.cat([own for _, own in found])

    @kept_out(recursive=True)
    def _for_groups(self, groups: Sequence[slice]) -> list[KKT]:
        without_floor = replace(self, free_sign=True)
        return [without_floor.for_trials(group) for group in groups]

    @kept_out(recursive=False)
    def _first_pass(self, target: Target, parts: Sequence[_Part], keep: bool) -> tuple[Terms, list[Sequence[Tensor]]]:
        total: dict[str, Tensor] = {}
        taken: list[Sequence[Tensor]] = []
        for part in parts:
            combined, products = self._sum_up(target, *part)
            total = {name: total[name] + value if total else value for name, value in combined.items()}
            taken.append(products if keep else ())
        return {name: self.total(value) for name, value in total.items()}, taken

    def _second_pass(
        self, target: Target, parts: Sequence[_Part], taken: Sequence[Sequence[Tensor]], total: Terms | None
    ) -> tuple[Tensor, Tensor]:
        if len(parts) == 1:
            return self._send_back(target, *parts[0], taken[0], total)
        return self._send_all_back(target, parts, taken, total)

    @kept_out(recursive=False)
    def _send_all_back(
        self, target: Target, parts: Sequence[_Part], taken: Sequence[Sequence[Tensor]], total: Terms | None
    ) -> tuple[Tensor, Tensor]:
        found: list[tuple[Tensor, Tensor]] = []
        for part, products in zip(parts, taken, strict=True):
            found.append(self._send_back(target, *part, products, total))
        return torch.cat([own for own, _ in found], dim=1), torch.cat([own for _, own in found], dim=1)

    def _sum_up(
        self, target: Target, x: Tensor, labels: Tensor, duals: Tensor
    ) -> tuple[dict[str, Tensor], list[Tensor]]:
        _, pulled = self._pull(target, x, labels, duals)
        return pulled.combined, pulled.taken

    def _send_back(
        self, target: Target, x: Tensor, labels: Tensor, duals: Tensor, taken: Sequence[Tensor], total: Terms | None
    ) -> tuple[Tensor, Tensor]:
        direction, pulled = self._pull(target, x, labels, duals, taken)
        x_gradient, cotangent_gradient = pulled.adjoint(parameter_weights(target, self.layer_weights), total)
        return x_gradient, (cotangent_gradient * direction).sum(dim=-1)

    def in_smaller_chunks(self) -> KKT | None:
        smaller = self.at_once.smaller(len(self.smoothing), self.candidates)
        return None if smaller is None else replace(self, at_once=smaller)

    def for_trials(self, chosen: Int[Tensor, " k"] | slice) -> KKT:
        return replace(self, smoothing=self.smoothing[chosen], dual_min=self.dual_min[chosen])

    def _groups(self, trials: int) -> list[slice]:
        return _slices(trials, self.at_once.trials or trials)

    def _parts(self, x: Tensor, labels: Tensor, duals: Tensor) -> list[_Part]:
        parts = _slices(x.shape[1], self.at_once.candidates or x.shape[1])
        return [(x[:, part], labels[part], duals[:, part]) for part in parts]

    def _pull(
        self, target: Target, x: Tensor, labels: Tensor, duals: Tensor, taken: Sequence[Tensor] = ()
    ) -> tuple[Tensor, Pulled]:
        """Direction of each multiplier, divided by m, and the candidates' gradients pulled back along it."""
        names = parameter_weights(target, self.layer_weights).keys()
        outputs, pullback = target.linearise(x, self.smoothing, taken)
        direction = self.direction(labels, outputs.detach()) / self.candidates
        return direction, pullback(duals.unsqueeze(-1) * direction, names)


def _slices(count: int, size: int) -> list[slice]:
    return [slice(start, start + size) for start in range(0, count, size)]


def _rows(variables: Variables, group: slice) -> Variables:
    return {name: value[group] for name, value in variables.items()}


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
