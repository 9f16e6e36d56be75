"""The inversion loss between one generator and one classifier: what `recollect.problem` moves weights by."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Int
from torch import Tensor

from recollect.candidates.generator import Generator
from recollect.core import Terms, TrialRng, Variables
from recollect.objectives.inversion import Inversion
from recollect.targets.classifier import ClassifierTarget


@dataclass(frozen=True)
class Inverting:
    """A loss whose samples are drawn anew at every step, so that it needs the step instead of samples.

    ``trials_at_once`` generators are worked on together, all of them when None: they share nothing, so that fewer need
    less memory and give the same gradients.
    """

    loss: Inversion
    generator: Generator
    classifier: ClassifierTarget
    trials_at_once: int | None = None

    def init(self, rng: TrialRng) -> Variables:
        return self.loss.init(rng)

    def losses(self, variables: Variables) -> Terms:
        """Terms of a batch that no step sees, always the same one, so that curves show learning and no other noise."""
        return _together(
            [
                own.loss(own.classifier, own.generator.generate(weights, step), step)
                for own, weights, step in self._groups(variables, self.generator.unseen_step)
            ]
        )

    def gradient(self, variables: Variables, step: Int[Tensor, "*T"]) -> Variables:
        """Gradients of the generators' weights from the batch of this step; trials may be at steps of their own."""
        return _together(
            [
                own.loss.gradient(own.classifier, own.generator, weights, number)
                for own, weights, number in self._groups(variables, step)
            ]
        )

    def in_smaller_chunks(self) -> Inverting | None:
        """Fewer generators at once; the images of a batch meet in batch norm and cannot be taken apart."""
        together = min(self.trials_at_once or self._trials, self._trials)
        return None if together == 1 else replace(self, trials_at_once=together // 2)

    def for_trials(self, chosen: Int[Tensor, " k"]) -> Inverting:
        return replace(self, loss=self.loss.for_trials(chosen), generator=self.generator.for_trials(chosen))

    @property
    def _trials(self) -> int:
        return len(self.generator.streams.trials)

    def _groups(self, variables: Variables, step: Tensor) -> list[tuple[Inverting, Variables, Tensor]]:
        if self.trials_at_once is None or self.trials_at_once >= self._trials:
            return [(self, variables, step)]
        everyone = torch.arange(self._trials, device=self.generator.streams.trials.device)
        steps = step.expand(self._trials)
        return [
            (self.for_trials(some), {name: value[some] for name, value in variables.items()}, steps[some])
            for some in everyone.split(self.trials_at_once)
        ]


def _together(groups: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    if len(groups) == 1:
        return groups[0]
    return {name: torch.cat([group[name] for group in groups]) for name in groups[0]}
