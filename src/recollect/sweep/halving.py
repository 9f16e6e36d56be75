"""Successive halving on the device: hopeless trials stop at rungs, and new ones begin in their slots."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from recollect.core import next_pause
from recollect.slots import look_every
from recollect.stepping import matmul_precision
from recollect.sweep.ladder import Ladder, rungs_of
from recollect.sweep.pieces import Ended, as_tensors
from recollect.sweep.propose import Proposal
from recollect.sweep.refilled import RefilledSlots
from recollect.sweep.score import SCORES
from recollect.sweep.traces import Notes, is_traced, terms_of, traced_steps
from recollect.sweep.trials import Sweep, problems_of
from recollect.sweep.work import Work

_FREE_SHARE = 8
"""Newcomers begin when an eighth of the slots is free: building them takes a moment."""


@dataclass
class Occupant:
    """A trial in a slot, as the host knows it."""

    proposal: Proposal
    step: int = 0
    seconds: float = 0.0
    rungs: list[float] = field(default_factory=list)
    notes: Notes = field(default_factory=Notes)


@dataclass
class Pool:
    """The slots of one device and who is in them."""

    device: torch.device
    slots: RefilledSlots
    occupants: list[Occupant | None]

    @property
    def occupied(self) -> Bool[Tensor, " T"]:
        return torch.tensor([occupant is not None for occupant in self.occupants], device=self.device)

    @property
    def free(self) -> Int[Tensor, " k"]:
        return (~self.occupied).nonzero().flatten()

    def running(self) -> Iterator[tuple[int, Occupant]]:
        return ((row, occupant) for row, occupant in enumerate(self.occupants) if occupant is not None)


@dataclass
class _Seen:
    """A trial at a pause; ``score`` is nan where nobody needs it."""

    pool: Pool
    row: int
    occupant: Occupant
    score: float
    lost: bool
    resting: bool
    stopped: bool = False

    def over(self, steps: int) -> bool:
        return self.lost or self.stopped or self.resting or self.occupant.step >= steps


def run_halving(sweep: Sweep, work: Work) -> None:
    """Trials until there are no more, each to its last step or to the rung where it is in the worse half."""
    steps = sweep.attack.steps
    ladder = Ladder.of(rungs_of(steps), work.history)
    pools = _opened(sweep, work.take(sweep.batch))
    with matmul_precision(sweep.attack.precision, sweep.devices[0]):
        while running := [occupant for pool in pools for _, occupant in pool.running()]:
            started = time.monotonic()
            count = min(next_pause(one.step, steps, [look_every(steps)]) - one.step for one in running)
            for pool in pools:
                pool.slots.advance(count)
            seen = [one for pool in pools for one in _seen(sweep, pool, ladder.rungs, count)]
            for one in running:
                one.seconds += (time.monotonic() - started) / len(running)
            _compare(seen, ladder)
            ended = [_ended(one) for one in seen if one.over(steps)]
            if ended:
                work.hand_in(as_tensors(ended, pools[0].slots.problem.labels, traced_steps(steps)))
            pools = [_refilled(sweep, work, pool) for pool in pools]
            work.show(sum(one.step for pool in pools for _, one in pool.running()) / steps)


def _opened(sweep: Sweep, proposals: Sequence[Proposal]) -> list[Pool]:
    parts = problems_of(sweep, proposals, sweep.devices) if proposals else []
    waiting = iter(proposals)
    return [
        Pool(
            part.rng.device,
            RefilledSlots.opened(part),
            [Occupant(proposal) for _, proposal in zip(part.rng.trials, waiting, strict=False)],
        )
        for part in parts
    ]


def _seen(sweep: Sweep, pool: Pool, rungs: Sequence[int], count: int) -> list[_Seen]:
    """Every trial of a pool after so many steps more; scores are computed where somebody is at a rung or at the end."""
    pool.slots.look()
    state, running = pool.slots.state, list(pool.running())
    for _, occupant in running:
        occupant.step += count
    alive, stalled = torch.stack([state.alive, state.stalled]).tolist()
    due = any(one.step in rungs or one.step >= sweep.attack.steps or stalled[row] for row, one in running)
    scores = SCORES[sweep.score](pool.slots.problem, state).tolist() if due else [math.nan] * len(alive)
    seen = [
        # A trial may end before its next step would have shown that it is lost.
        _Seen(pool, row, one, scores[row], not alive[row] or (due and not math.isfinite(scores[row])), stalled[row])
        for row, one in running
    ]
    _trace(pool, [one for one in seen if not one.lost and is_traced(one.occupant.step, sweep.attack.steps)])
    return seen


def _trace(pool: Pool, seen: Sequence[_Seen]) -> None:
    if not seen:
        return
    rows = torch.tensor([one.row for one in seen], device=pool.device)
    terms = terms_of(pool.slots.problem, pool.slots.state, rows)
    for place, one in enumerate(seen):
        one.occupant.notes.add({name: values[place] for name, values in terms.items()})


def _compare(seen: Sequence[_Seen], ladder: Ladder) -> None:
    """Whoever came to a rung is noted there, then stops or goes on; what is at rest comes to all that are left."""
    for place, rung in enumerate(ladder.rungs):
        here = [
            one
            for one in seen
            if not (one.lost or one.stopped)
            and len(one.occupant.rungs) == place
            and (one.occupant.step >= rung or one.resting)
        ]
        ladder.note(place, [one.score for one in here])
        for one in here:
            one.occupant.rungs.append(one.score)
            one.stopped = ladder.stops(place, one.score)


def _ended(one: _Seen) -> Ended:
    """What is known of a trial that is over; it leaves its slot."""
    pool, occupant, complete = one.pool, one.occupant, not (one.lost or one.stopped)
    rows = torch.tensor([one.row], device=pool.device)
    state, candidates = pool.slots.state.for_trials(rows), pool.slots.problem.candidates.for_trials(rows)
    pool.slots.empty(rows)
    pool.occupants[one.row] = None
    return Ended(
        occupant.proposal.number,
        occupant.proposal.settings,
        score=math.nan if one.lost else one.score,
        steps=occupant.step,
        seconds=occupant.seconds,
        diverged=one.lost,
        stalled=one.resting,
        pruned=one.stopped,
        rungs=tuple(occupant.rungs),
        trace=occupant.notes.read(),
        candidates=candidates.decode(state.variables)[0].detach().cpu() if complete else None,
        duals=state.variables["duals"][0].cpu() if complete and "duals" in state.variables else None,
    )


def _refilled(sweep: Sweep, work: Work, pool: Pool) -> Pool:
    """New trials in free slots, once there are enough of these; without new trials, fewer slots."""
    free = pool.free
    if len(free) * _FREE_SHARE < len(pool.occupants) or not len(free):
        return pool
    proposals = work.take(len(free))
    if proposals:
        rows = free[: len(proposals)]
        pool.slots.refill(rows, problems_of(sweep, proposals, [pool.device])[0])
        for row, proposal in zip(rows.tolist(), proposals, strict=True):
            pool.occupants[row] = Occupant(proposal)
        return pool
    smaller = pool.slots.shrunk(pool.occupied)
    if smaller is None:
        return pool
    return Pool(pool.device, smaller, [occupant for _, occupant in pool.running()])
