"""The only loop. It moves variables, and reads nothing back to the host between two callbacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch

from recollect.core import Terms, next_pause
from recollect.problem import Problem, State, initial_state, losses, merged, split
from recollect.slots import Slots, look_every
from recollect.stepping import matmul_precision


@dataclass(frozen=True)
class Snapshot:
    """What a callback sees. Tensors are on the devices; reading them is what costs."""

    step: int
    parts: Sequence[Problem]
    states: Sequence[State]

    @cached_property
    def state(self) -> State:
        """All trials together."""
        return merged(self.states)

    @cached_property
    def terms(self) -> Terms:
        """Losses at this moment, each ``[T]``; the search itself needs only their gradients."""
        with torch.no_grad():
            own = [losses(part, state.variables) for part, state in zip(self.parts, self.states, strict=True)]
        device = self.states[0].step.device
        return {name: torch.cat([terms[name].detach().to(device) for terms in own]) for name in own[0]}


class Callback(Protocol):
    """Called after every ``every`` steps and after the last one."""

    every: int

    def __call__(self, snapshot: Snapshot) -> None: ...


def solve(
    problem: Problem | Sequence[Problem], callbacks: Sequence[Callback] = (), state: State | None = None
) -> State:
    """Run all trials to the last step, from the start or from a saved state.

    Several problems are parts of one run, each with its own trials on its own device. Work on a GPU is only queued
    here, so one loop keeps all of them busy.
    """
    parts = [problem] if isinstance(problem, Problem) else list(problem)
    steps, look = parts[0].steps, look_every(parts[0].steps)
    with matmul_precision(parts[0].precision, parts[0].rng.device):
        states = [initial_state(part) for part in parts] if state is None else split(state, parts)
        slots = [Slots(part, own) for part, own in zip(parts, states, strict=True)]
        done = int(states[0].step)
        while done < steps:
            pause = next_pause(done, steps, [look, *(callback.every for callback in callbacks)])
            for own in slots:
                own.advance(pause - done)
            done = pause
            if done % look == 0:
                for own in slots:
                    own.look()
            due = [callback for callback in callbacks if done % callback.every == 0 or done == steps]
            if due or done == steps:
                states = [own.collected(done) for own in slots]
                snapshot = Snapshot(done, [own.problem for own in slots], states)
                for callback in due:
                    callback(snapshot)
    return merged(states)
