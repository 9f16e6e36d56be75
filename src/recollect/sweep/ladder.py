"""Successive halving: where trials are compared on their way, and which of them stop there.

Jamieson and Talwalkar 2016; here without waiting for a cohort (Li et al. 2020): a trial that comes to a rung is
compared with all that came there before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from recollect.slots import look_every
from recollect.sweep.record import Trial

SHARES = (1 / 8, 1 / 4, 1 / 2)
"""Of all steps. With a decaying rate only scores after equally many steps can be compared."""


def rungs_of(steps: int) -> tuple[int, ...]:
    """After how many steps trials are compared; at moments when trials are looked at anyway.

    >>> rungs_of(25_000), rungs_of(3)
    ((3100, 6250, 12500), (1,))
    """
    look = look_every(steps)
    places = sorted({max(look, int(share * steps) // look * look) for share in SHARES})
    return tuple(rung for rung in places if rung < steps)


@dataclass(frozen=True)
class Ladder:
    """Scores that trials had at each rung.

    >>> ladder = Ladder((10, 20), ([], []))
    >>> ladder.note(0, [0.3, 0.5, 0.4, 0.6])
    >>> [ladder.stops(0, score) for score in (0.3, 0.4, 0.5, 0.6)]
    [False, False, True, True]
    """

    rungs: tuple[int, ...]
    scores: tuple[list[float], ...]

    @classmethod
    def of(cls, rungs: tuple[int, ...], trials: Sequence[Trial]) -> Ladder:
        """With what trials that ended before had."""
        places = range(len(rungs))
        return cls(rungs, tuple([own.rungs[place] for own in trials if len(own.rungs) > place] for place in places))

    def note(self, place: int, scores: Iterable[float]) -> None:
        self.scores[place].extend(scores)

    def stops(self, place: int, score: float) -> bool:
        """Whether it is in the worse half of all that came here, itself among them; the first one goes on."""
        known = self.scores[place]
        return 2 * sum(other < score for other in known) >= len(known)
