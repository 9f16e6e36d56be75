"""A sweep in batches of trials, each of which runs to its last step."""

from __future__ import annotations

import math
import time

import torch

from recollect.api import as_reconstruction
from recollect.problem import split
from recollect.solve import Snapshot, solve
from recollect.sweep.pieces import Ended, as_tensors
from recollect.sweep.score import SCORES
from recollect.sweep.traces import Tracing, trace_every, traced_steps
from recollect.sweep.trials import Sweep, problems_of
from recollect.sweep.work import Work


def run_batches(sweep: Sweep, work: Work) -> None:
    """Every trial to its last step, a batch after the other; each is handed in as a whole."""
    while proposals := work.take(sweep.batch):
        started, tracing = time.monotonic(), Tracing(trace_every(sweep.attack.steps))
        parts = problems_of(sweep, proposals, sweep.devices)
        state = solve(parts, [tracing, _Moving(sweep.attack.steps, len(proposals), work)])
        scores = [SCORES[sweep.score](part, own).cpu() for part, own in zip(parts, split(state, parts), strict=True)]
        found, share = as_reconstruction(parts, state), (time.monotonic() - started) / len(proposals)
        noted = tracing.notes.read()
        ended = []
        for row, (proposal, score) in enumerate(zip(proposals, torch.cat(scores).tolist(), strict=True)):
            # A trial may end before its next step would have shown that it is lost.
            lost = bool(found.diverged[row]) or not math.isfinite(score)
            ended.append(
                Ended(
                    proposal.number,
                    proposal.settings,
                    score=math.nan if lost else score,
                    steps=sweep.attack.steps,
                    seconds=share,
                    diverged=lost,
                    stalled=bool(found.stalled[row]),
                    trace={name: values[:, row] for name, values in noted.items()},
                    candidates=None if lost else found.candidates[row],
                    duals=None if lost or found.duals is None else found.duals[row],
                )
            )
        work.hand_in(as_tensors(ended, found.labels, traced_steps(sweep.attack.steps)))
        work.show(0)


class _Moving:
    """Tells how far the batch is; reads nothing from the device."""

    def __init__(self, steps: int, trials: int, work: Work) -> None:
        self.every = max(1, steps // 50)
        self._steps, self._trials, self._work = steps, trials, work

    def __call__(self, snapshot: Snapshot) -> None:
        self._work.show(self._trials * snapshot.step / self._steps)
