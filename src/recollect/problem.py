"""What is fixed and what changes while trials run, and the losses and gradients that follow from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import prod
from typing import Literal

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from recollect.candidates.generator import Generator
from recollect.core import Candidates, Objective, Optimiser, Target, Terms, TrialRng, Variables
from recollect.objectives.inverting import Inverting
from recollect.priors import Prior
from recollect.sharing import SumAcross, alone

Precision = Literal["fp16", "tf32", "fp32", "fp64"]
Schedule = Literal["constant", "cosine"]

_VALUES_LOOKED_AT = 2**24
"""Values of samples whose losses are computed at once."""


@dataclass(frozen=True)
class Problem:
    """Everything that is fixed while T trials run: what to minimise, over what, and how."""

    target: Target
    objective: Objective | Inverting
    candidates: Candidates | Generator
    """`Inverting` goes with a `Generator`: its samples are new ones at every step."""
    optimiser: Optimiser
    labels: Int[Tensor, " m"]
    rng: TrialRng
    steps: int
    priors: Mapping[str, Prior]
    schedule: Schedule = "constant"
    precision: Precision = "fp32"
    compiled: bool = False
    stall: float = 0.0
    """Trials that would move by less than this share of their size in a fiftieth of all steps are over; 0: never."""
    memory_limit: int | None = None
    """Bytes that a step may have on a GPU; where they do not suffice, less is worked on at once."""
    total: SumAcross = alone

    def for_trials(self, chosen: Int[Tensor, " k"]) -> Problem:
        """The same problem for some of its trials."""
        return replace(
            self,
            objective=self.objective.for_trials(chosen),
            candidates=self.candidates.for_trials(chosen),
            optimiser=self.optimiser.for_trials(chosen),
            rng=replace(self.rng, trials=tuple(self.rng.trials[index] for index in chosen.tolist())),
        )


@dataclass(frozen=True)
class State:
    """Everything that changes. Saving it and going on later gives the same bits as never having stopped."""

    step: Int[Tensor, "*T"]
    """One for all, or one for each trial where they did not begin together."""
    variables: Variables
    optimiser: Variables
    alive: Bool[Tensor, " T"]
    """False for trials that stopped being finite."""
    stalled: Bool[Tensor, " T"]
    """True for trials that have come to rest."""

    @property
    def moving(self) -> Bool[Tensor, " T"]:
        return self.alive & ~self.stalled

    def for_trials(self, chosen: Int[Tensor, " k"]) -> State:
        """A copy of some trials."""
        return State(
            step=self.step[chosen] if self.step.ndim else self.step.clone(),
            variables={name: value[chosen] for name, value in self.variables.items()},
            optimiser={name: value[chosen] for name, value in self.optimiser.items()},
            alive=self.alive[chosen],
            stalled=self.stalled[chosen],
        )


def initial_state(problem: Problem) -> State:
    """Variables as drawn, no step taken."""
    variables = problem.candidates.init(problem.rng) | problem.objective.init(problem.rng)
    return State(
        step=torch.zeros((), dtype=torch.int64, device=problem.rng.device),
        variables=variables,
        optimiser=problem.optimiser.init(variables),
        alive=torch.ones(len(problem.rng.trials), dtype=torch.bool, device=problem.rng.device),
        stalled=torch.zeros(len(problem.rng.trials), dtype=torch.bool, device=problem.rng.device),
    )


def merged(states: Sequence[State]) -> State:
    """One state from the states of parts, trials in their order, on the first part's device."""
    if len(states) == 1:
        return states[0]
    first = states[0]

    def together(groups: Sequence[Variables]) -> Variables:
        return {name: torch.cat([group[name].to(first.step.device) for group in groups]) for name in groups[0]}

    return State(
        step=first.step,
        variables=together([state.variables for state in states]),
        optimiser=together([state.optimiser for state in states]),
        alive=torch.cat([state.alive.to(first.step.device) for state in states]),
        stalled=torch.cat([state.stalled.to(first.step.device) for state in states]),
    )


def split(state: State, parts: Sequence[Problem]) -> list[State]:
    """The inverse of `merged`: to every part its trials, on its device."""
    if len(parts) == 1:
        return [state]
    states, start = [], 0
    for part in parts:
        own, device = slice(start, start + len(part.rng.trials)), part.rng.device
        states.append(
            State(
                step=state.step.clone().to(device),
                variables={name: value[own].clone().to(device) for name, value in state.variables.items()},
                optimiser={name: value[own].clone().to(device) for name, value in state.optimiser.items()},
                alive=state.alive[own].clone().to(device),
                stalled=state.stalled[own].clone().to(device),
            )
        )
        start = own.stop
    return states


def losses(problem: Problem, variables: Variables) -> Terms:
    """Every term of the objective and every prior, each ``[T]``.

    Nothing is fused here as it is in a step, so a few trials at a time: looking must not need more than searching.
    """
    if isinstance(problem.objective, Inverting):
        return problem.objective.losses(variables)
    trials, values = len(problem.rng.trials), problem.candidates.candidates * prod(problem.candidates.sample_shape)
    together = max(1, _VALUES_LOOKED_AT // values)
    if together >= trials:
        return _losses(problem, variables)
    groups = torch.arange(trials, device=problem.rng.device).split(together)
    found = [_losses(problem.for_trials(own), {name: v[own] for name, v in variables.items()}) for own in groups]
    return {name: torch.cat([terms[name] for terms in found]) for name in found[0]}


def _losses(problem: Problem, variables: Variables) -> Terms:
    objective, candidates = problem.objective, problem.candidates
    assert not isinstance(objective, Inverting)
    assert not isinstance(candidates, Generator)
    inputs, samples = candidates.inputs(variables), candidates.decode(variables)
    terms = objective(problem.target, inputs, problem.labels, variables)
    return terms | {name: problem.total(prior(samples)) for name, prior in problem.priors.items()}


def gradient(problem: Problem, variables: Variables, step: Int[Tensor, "*T"] | None = None) -> Variables:
    """The gradient of the sum of all losses, for every variable; samples that are new at every step need the step.

    Trials share no variable, so the gradient of the sum over trials holds each trial's own gradient.
    """
    objective, candidates = problem.objective, problem.candidates
    if isinstance(objective, Inverting):
        assert step is not None
        return objective.gradient(variables, step)
    assert not isinstance(candidates, Generator)
    inputs = candidates.inputs(variables)
    inputs_gradient, own = objective.gradient(problem.target, inputs, problem.labels, variables)
    if not problem.priors:
        return candidates.pull(variables, inputs_gradient) | own
    samples, which = candidates.exposed(variables)
    sample_gradient = reduce(torch.add, (prior.gradient(samples) for prior in problem.priors.values()))
    return candidates.pull(variables, inputs_gradient, sample_gradient, which) | own
