"""The few ideas everything else is built from: axes, protocols, randomness per trial, errors.

Axes, in this order wherever they occur: ``T`` trials (independent settings run together, one run is
T = 1), ``m`` candidates per trial, ``C`` network outputs, then the shape of one sample. What may differ
between trials is a ``[T]`` tensor; what shapes the computation (m, steps, architecture) is a plain number.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, Self

import torch
from jaxtyping import Float, Int
from torch import Tensor

Variables = dict[str, Tensor]
"""What the optimiser moves, each with a leading trial axis: ``{"x": [T, m, ...], "duals": [T, m]}``."""

Terms = dict[str, Tensor]
"""Named losses, each ``[T]``. Their sum is what a trial minimises."""


class Pulled(Protocol):
    """Cotangents sent back to the parameters, and the way from there to the candidates."""

    @property
    def combined(self) -> dict[str, Tensor]:
        """``G = sum_i <c_i, dPhi(x_i)/dtheta>`` per named parameter, ``[T, *parameter]``, differentiable."""
        ...

    @property
    def taken(self) -> list[Tensor]:
        """What `Target.linearise` need not compute again for the same candidates; empty where nothing is kept."""
        ...

    def adjoint(
        self, weights: Mapping[str, float], total: Mapping[str, Tensor] | None = None
    ) -> tuple[Float[Tensor, "T m ..."], Float[Tensor, "T m C"]]:
        """Gradients of ``sum_l w_l ||theta_l - total_l||^2`` with respect to these candidates and their cotangents.

        ``total`` is ``combined`` summed over all candidates, of which these are a part; None when these are all.
        """
        ...


class Pullback(Protocol):
    def __call__(self, cotangent: Float[Tensor, "T m C"], names: Collection[str] | None = None) -> Pulled:
        """Send one cotangent per candidate back to the named parameters, or to all."""
        ...


class RecollectError(Exception):
    """Something the user can put right. The message is one sentence: what we got, what is allowed, what next.

    The command line prints it without a traceback and exits with code 2.
    """


class Target(Protocol):
    """A trained network, seen from the attack: parameters, and derivatives with respect to them."""

    @property
    def params(self) -> Mapping[str, Tensor]: ...

    @property
    def sample_shape(self) -> tuple[int, ...]: ...

    @property
    def layers(self) -> Sequence[Sequence[str]]:
        """Parameter names grouped by layer, input side first: what per-layer weights refer to."""
        ...

    def linearise(
        self, x: Float[Tensor, "T m ..."], smoothing: Float[Tensor, " T"], taken: Sequence[Tensor] = ()
    ) -> tuple[Float[Tensor, "T m C"], Pullback]:
        """Outputs at the candidates, and the pullback of cotangents to the parameters.

        ``taken`` is what an earlier pass over the same candidates left in `Pulled.taken`, if anything. Outputs and
        pullback can be differentiated with respect to ``x``; the derivative of ReLU is
        ``sigmoid(smoothing * z)`` everywhere, its value is unchanged (Haim 2022, appendix B.2).
        """
        ...


class Objective(Protocol):
    """What a trial minimises, apart from priors on the candidates themselves."""

    def init(self, rng: TrialRng) -> Variables:
        """Variables of the objective's own (multipliers), before the first step."""
        ...

    def __call__(
        self, target: Target, x: Float[Tensor, "T m ..."], labels: Int[Tensor, " m"], variables: Variables
    ) -> Terms: ...

    def gradient(
        self, target: Target, x: Float[Tensor, "T m ..."], labels: Int[Tensor, " m"], variables: Variables
    ) -> tuple[Float[Tensor, "T m ..."], Variables]:
        """Gradients of the sum of all terms with respect to the candidates and to its own variables."""
        ...

    def in_smaller_chunks(self) -> Self | None:
        """The same objective with half the memory for a step; None when it cannot be done with less."""
        ...

    def for_trials(self, chosen: Int[Tensor, " k"]) -> Self:
        """The same objective with the settings of some trials only."""
        ...


class Candidates(Protocol):
    """How candidates are parametrised: as pixels, as coefficients, as the output of a network, ..."""

    @property
    def candidates(self) -> int:
        """m, over all processes."""
        ...

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """Of one decoded candidate."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """Its variables."""
        ...

    def init(self, rng: TrialRng) -> Variables: ...

    def inputs(self, variables: Variables) -> Float[Tensor, "T m ..."]:
        """What the target is evaluated on."""
        ...

    def decode(self, variables: Variables) -> Float[Tensor, "T m ..."]:
        """The candidates as samples: what priors and people look at."""
        ...

    def exposed(self, variables: Variables) -> tuple[Float[Tensor, "T k ..."], Int[Tensor, "T k"] | None]:
        """The samples on which a prior can act, and which of the candidates they are; None means all."""
        ...

    def pull(
        self,
        variables: Variables,
        inputs_gradient: Tensor,
        sample_gradient: Tensor | None = None,
        which: Int[Tensor, "T k"] | None = None,
    ) -> Variables:
        """Gradients of its variables at their values, from those with respect to inputs and to exposed samples.

        The latter are given where a prior acts.
        """
        ...

    def for_trials(self, chosen: Int[Tensor, " k"]) -> Self: ...


class Copies(NamedTuple):
    """How many times all candidates are in memory; by default, as many as momentum needs."""

    kept: int = 2
    """From step to step, the candidates themselves among them."""
    made: int = 4
    """At the peak of an update, beside those; a compiled one makes none."""


class Optimiser(Protocol):
    """One update of the variables from their gradients."""

    @property
    def copies(self) -> Copies: ...

    def init(self, variables: Variables) -> Variables: ...

    def update(
        self, variables: Variables, grads: Variables, state: Variables, rate: Tensor
    ) -> tuple[Variables, Variables]:
        """New variables and new state; ``rate`` is the schedule's factor at this step, one or one for each trial."""
        ...

    def displacement(self, state: Variables, rate: Tensor) -> Variables:
        """How far each variable is going to move in one step, as far as the state tells."""
        ...

    def for_trials(self, chosen: Int[Tensor, " k"]) -> Self: ...


@dataclass(frozen=True)
class TrialRng:
    """Random draws that belong to one trial each, so that a trial alone equals the same trial in a batch.

    Draws are made on the CPU in float64 and then moved: the start of a run does not depend on the device.

    >>> rng = TrialRng(seed=0, trials=(0, 1, 2), dtype=torch.float64, device=torch.device("cpu"))
    >>> alone = TrialRng(seed=0, trials=(2,), dtype=torch.float64, device=torch.device("cpu"))
    >>> bool((rng.normal("x", (4,))[2] == alone.normal("x", (4,))[0]).all())
    True
    """

    seed: int
    trials: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    part: slice = field(default_factory=lambda: slice(None))
    """Which candidates are kept, when several processes share a trial: each draws all and keeps its own."""

    def normal(self, purpose: str, shape: Sequence[int]) -> Float[Tensor, "T ..."]:
        return self._draw(torch.randn, purpose, shape)

    def uniform(self, purpose: str, shape: Sequence[int]) -> Float[Tensor, "T ..."]:
        return self._draw(torch.rand, purpose, shape)

    def _draw(self, sampler: Callable[..., Tensor], purpose: str, shape: Sequence[int]) -> Tensor:
        draws = [
            sampler(tuple(shape), generator=_generator(self.seed, trial, purpose), dtype=torch.float64)
            for trial in self.trials
        ]
        return torch.stack(draws)[:, self.part].to(device=self.device, dtype=self.dtype)


def _generator(seed: int, trial: int, purpose: str) -> torch.Generator:
    mixed = seed
    for number in (trial, *purpose.encode()):
        mixed = (mixed * 6364136223846793005 + number + 1442695040888963407) % 2**63
    return torch.Generator().manual_seed(mixed)


def per_trial(values: Tensor, like: Tensor) -> Tensor:
    """``[T]`` reshaped to broadcast against ``[T, ...]``."""
    return values.reshape(-1, *(1,) * (like.ndim - 1))


def next_pause(done: int, last: int, cadences: Iterable[int]) -> int:
    """Where a loop that stands at ``done`` next has to stop: at a multiple of some cadence, or at the end.

    >>> next_pause(8, 25, [10, 4]), next_pause(24, 25, [10, 4])
    (10, 25)
    """
    return min([last, *((done // every + 1) * every for every in cadences)])
