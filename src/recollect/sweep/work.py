"""Where trials come from and where they go: whoever runs them asks for some, and hands in those that ended."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor

from recollect.runs import RunFolder
from recollect.sweep.propose import Proposal, Proposer
from recollect.sweep.record import Trial, finished_trials, write_lines, write_piece

Watch = Callable[[float, float], None]
"""``watch(trials done, best score so far)``: the first counts the done share of running ones, the second may be nan."""

Notice = Callable[[Sequence[Trial]], None]
"""Told of trials that have just been saved."""


class Work(Protocol):
    @property
    def history(self) -> Sequence[Trial]:
        """Trials that ended before."""
        ...

    def take(self, most: int) -> list[Proposal]:
        """Trials to run next, at most so many; none when all are done or running."""
        ...

    def hand_in(self, tensors: dict[str, Tensor]) -> None:
        """A piece: trials that ended, and what they found."""
        ...

    def show(self, running: float) -> None:
        """How much of the trials that were taken is done, counted in trials."""
        ...


def nobody(trials: Sequence[Trial]) -> None:
    del trials


@dataclass
class Ledger:
    """The sweep of a run folder: saves what is handed in before it asks for more, and never gives a trial twice."""

    folder: RunFolder
    proposer: Proposer
    wanted: int
    watch: Watch
    notice: Notice = nobody
    done: dict[int, Trial] = field(default_factory=dict)
    taken: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._saved(finished_trials(self.folder))
        self.show(0)

    @property
    def history(self) -> list[Trial]:
        return [self.done[number] for number in sorted(self.done)]

    def take(self, most: int) -> list[Proposal]:
        wanted = min(most, self.wanted - len(self.done) - len(self.taken))
        proposals = self.proposer.propose(wanted, self.done.keys() | self.taken) if wanted > 0 else []
        self.taken |= {proposal.number for proposal in proposals}
        return proposals

    def hand_in(self, tensors: dict[str, Tensor]) -> None:
        self._saved(write_piece(self.folder, tensors))

    def show(self, running: float) -> None:
        self.watch(len(self.done) + running, best_score(self.done.values()))

    def _saved(self, trials: Sequence[Trial]) -> None:
        self.done |= {trial.number: trial for trial in trials}
        self.taken -= self.done.keys()
        write_lines(self.folder, self.history)
        for trial in trials:
            self.proposer.tell(trial)
        self.notice(trials)


@dataclass
class Portion:
    """Trials that were given away together, and what came of them so far."""

    waiting: list[Proposal]
    history: Sequence[Trial] = ()
    pieces: list[dict[str, Tensor]] = field(default_factory=list)

    def take(self, most: int) -> list[Proposal]:
        taken, self.waiting = self.waiting[:most], self.waiting[most:]
        return taken

    def hand_in(self, tensors: dict[str, Tensor]) -> None:
        self.pieces.append(tensors)

    def show(self, running: float) -> None:
        del running


def best_score(trials: Iterable[Trial]) -> float:
    """Of the trials that came to their end; nan while there is none."""
    return min((trial.score for trial in trials if trial.complete), default=math.nan)
