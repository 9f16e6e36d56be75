"""Candidates as plain pixels: every value of every sample is a variable."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from jaxtyping import Float, Int
from torch import Tensor

from recollect.core import TrialRng, Variables, per_trial
from recollect.groups import Group


@dataclass(frozen=True)
class Pixels:
    """``x ~ sigma_x N(0, I)`` at the start (Haim 2022, section 5.2), one scale per trial.

    ``asymmetry`` is a group and a factor on what of the noise lies outside of the space that the group leaves fixed.
    """

    candidates: int
    sample_shape: tuple[int, ...]
    init_scale: Float[Tensor, " T"]
    asymmetry: tuple[Group, float] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return ("x",)

    def init(self, rng: TrialRng) -> Variables:
        noise = rng.normal("x", (self.candidates, *self.sample_shape))
        if self.asymmetry is not None:
            group, factor = self.asymmetry
            noise = noise + (factor - 1) * group.asymmetric(noise)
        return {"x": per_trial(self.init_scale, noise) * noise}

    def inputs(self, variables: Variables) -> Float[Tensor, "T m ..."]:
        return self.decode(variables)

    def decode(self, variables: Variables) -> Float[Tensor, "T m ..."]:
        return variables["x"]

    def exposed(self, variables: Variables) -> tuple[Float[Tensor, "T m ..."], None]:
        return self.decode(variables), None

    def pull(
        self,
        variables: Variables,
        inputs_gradient: Tensor,
        sample_gradient: Tensor | None = None,
        which: Tensor | None = None,
    ) -> Variables:
        del variables, which
        return {"x": inputs_gradient if sample_gradient is None else inputs_gradient + sample_gradient}

    def for_trials(self, chosen: Int[Tensor, " k"]) -> Self:
        return replace(self, init_scale=self.init_scale[chosen])
