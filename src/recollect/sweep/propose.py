"""Which settings to try next: the protocol, and random ones that need nothing but the seed and a trial's number."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import count, islice
from typing import Protocol

from recollect.config import SearchConfig, TrialSettings
from recollect.sweep.record import Trial


@dataclass(frozen=True)
class Proposal:
    number: int
    settings: TrialSettings


class Proposer(Protocol):
    def propose(self, wanted: int, finished: Collection[int]) -> list[Proposal]:
        """So many trials to run next, none of which is finished; after a kill, those that it stopped come first."""
        ...

    def tell(self, trial: Trial) -> None:
        """A trial has finished; telling it again does nothing."""
        ...


@dataclass(frozen=True)
class RandomProposer:
    """Trial k of a sweep has the settings of trial k of ``attack.search``, however many there are.

    >>> proposer = RandomProposer(SearchConfig(trials=3), seed=0)
    >>> [proposal.number for proposal in proposer.propose(2, finished={0, 2})]
    [1, 3]
    """

    search: SearchConfig
    seed: int

    def propose(self, wanted: int, finished: Collection[int]) -> list[Proposal]:
        numbers = list(islice((number for number in count() if number not in finished), wanted))
        drawn = self.search.model_copy(update={"trials": numbers[-1] + 1}).draw(self.seed)
        return [Proposal(number, drawn[number]) for number in numbers]

    def tell(self, trial: Trial) -> None:
        del trial
