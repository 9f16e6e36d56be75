"""How much of a step is worked on at once, how much memory that takes, and which choice fits a limit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from recollect.core import Copies, RecollectError
from recollect.products import few


@dataclass(frozen=True)
class AtOnce:
    """Trials and candidates of a trial that are worked on together; None is all.

    Trials do not interact: in groups they cost no more. Candidates do: in chunks each is passed over twice. With
    ``keep_products`` the second pass finds the matrix products of the first one; without, it takes them again.
    """

    trials: int | None = None
    candidates: int | None = None
    keep_products: bool = True

    def smaller(self, trials: int, candidates: int) -> AtOnce | None:
        """The next choice that needs less memory, cheapest first; None when there is none."""
        if (self.trials or trials) > 1:
            return replace(self, trials=(self.trials or trials) // 2)
        chunk = self.candidates or candidates
        if self.keep_products and chunk <= max(1, candidates // _CHUNKS_KEPT):
            return replace(self, keep_products=False)
        return replace(self, candidates=chunk // 2) if chunk > 1 else None


_CHUNKS_KEPT = 8
"""So many chunks, then products are no longer kept: smaller ones would save little beside what is kept."""


@dataclass(frozen=True)
class Footprint:
    """Bytes that a step holds at its peak for each hidden unit and each value of a candidate, and per number."""

    unit: float
    value: float
    number: int
    copies: Copies = field(default_factory=Copies)
    """Of all candidates, by the optimiser."""


EAGER = Footprint(unit=25.6, value=9.6, number=4)
"""Fitted to peaks measured on the CPU, where tests hold it."""

_COMPILED = Footprint(unit=17.7, value=10.4, number=4)
_COMPILED_HALF = Footprint(unit=16.0, value=2.0, number=2)
"""Fitted to peaks of compiled steps on an NVIDIA H200."""


def footprint_of(bytes_per_value: int, half: bool, compiled: bool, copies: Copies) -> Footprint:
    """Of a step in this precision; ``half``: products of half-precision operands; ``compiled``: fused, on a GPU."""
    copies = copies._replace(made=0) if compiled else copies
    if half:
        return replace(_COMPILED_HALF if compiled else EAGER, copies=copies)
    chosen, times = _COMPILED if compiled else EAGER, bytes_per_value // 4
    return Footprint(times * chosen.unit, times * chosen.value, times * chosen.number, copies)


def step_bytes(
    widths: Sequence[int],
    trials: int,
    candidates: int,
    at_once: AtOnce | None = None,
    footprint: Footprint = EAGER,
    moves: int = 1,
) -> int:
    """Peak of one step: weights, candidates and what the optimiser keeps, and the larger of gradient and update.

    The gradient holds what its chunk needs, and summed gradients or the m x m products that stand in for them. The
    average over a group sends ``moves`` rows through the network for each candidate.

    >>> step_bytes((784, 256, 256, 1), trials=2, candidates=60) // 2**20
    4
    """
    at_once = AtOnce() if at_once is None else at_once
    together = min(at_once.trials or trials, trials)
    chunk = min(at_once.candidates or candidates, candidates)
    values, hidden = widths[0], sum(widths[1:-1])
    word = max(4, footprint.number)
    weights = sum(a * b for a, b in pairwise(widths))
    samples = trials * candidates * values
    gradient = together * moves * chunk * (footprint.unit * hidden + footprint.value * values)
    gradient += together * _coupling(widths, moves * candidates, moves * chunk, footprint)
    if moves > 1:  # the orbits, and what comes back along them
        gradient += 2 * word * together * moves * chunk * values
    if chunk < candidates:
        gradient += word * together * candidates * values / 2  # of the chunks that are done, on average
        if at_once.keep_products:
            # Products with a single output are sums, and never kept.
            kept = hidden + sum(widths[1:-2]) + (widths[-2] if widths[-1] > 1 else 0)
            gradient += footprint.number * together * moves * candidates * kept
    if together < trials:
        gradient += word * samples / 2
    stored = word * weights + (footprint.number * weights if footprint.number < 4 else 0)
    kept, made = (copies * word * samples for copies in footprint.copies)
    return int(stored + kept + max(made, gradient))


def _coupling(widths: Sequence[int], candidates: int, chunk: int, footprint: Footprint) -> float:
    """Bytes of what couples the candidates of a trial."""
    sizes = [(a, b) for a, b in pairwise(widths)]
    if chunk < candidates:
        return 3 * max(4, footprint.number) * sum(a * b for a, b in sizes)
    return footprint.number * sum(2 * candidates**2 if few(candidates, a, b) else a * b for a, b in sizes)


def within(
    limit: int, widths: Sequence[int], trials: int, candidates: int, footprint: Footprint = EAGER, moves: int = 1
) -> AtOnce:
    """The cheapest choice whose step fits."""
    needs = {
        choice: step_bytes(widths, trials, candidates, choice, footprint, moves)
        for choice in _choices(trials, candidates)
    }
    least = min(needs.values())
    if least > limit:
        raise RecollectError(
            f"{trials} trials of {candidates} candidates need at least {least / 2**20:.1f} MiB, the limit is "
            f"{limit / 2**20:.1f} MiB; use fewer trials or candidates, or a higher attack.memory_limit."
        )
    return next(choice for choice, need in needs.items() if need <= limit)


def _choices(trials: int, candidates: int) -> Iterator[AtOnce]:
    choice: AtOnce | None = AtOnce()
    while choice is not None:
        yield choice
        choice = choice.smaller(trials, candidates)
