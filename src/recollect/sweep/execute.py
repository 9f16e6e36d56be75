"""A sweep under way: batches of trials, each saved as soon as it is finished, until there are as many as wanted."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import nn

from recollect.api import as_reconstruction
from recollect.build import build_problems
from recollect.config import AttackConfig, TrialSettings
from recollect.problem import Problem, split
from recollect.runs import RunFolder
from recollect.solve import Callback, Snapshot, solve
from recollect.sweep.propose import Proposal, Proposer
from recollect.sweep.record import Trial, finished_trials, write_lines, write_piece
from recollect.sweep.score import SCORES

Watch = Callable[[float, float], None]
"""``watch(trials done, best score so far)``: the first counts the done share of a batch, the second may be nan."""


@dataclass(frozen=True)
class Sweep:
    """What is swept, and where it goes."""

    folder: RunFolder
    net: nn.Module
    sample_shape: tuple[int, ...]
    attack: AttackConfig
    seed: int
    devices: Sequence[torch.device]
    score: str = "first_layer"


def run_sweep(sweep: Sweep, proposer: Proposer, wanted: int, batch: int, watch: Watch) -> list[Trial]:
    """All finished trials, ``wanted`` of them or more; those that were finished before are not run again."""
    done = finished_trials(sweep.folder)
    write_lines(sweep.folder, done)
    for trial in done:
        proposer.tell(trial)
    while len(done) < wanted:
        watch(len(done), best_score(done))
        proposals = proposer.propose(min(batch, wanted - len(done)), {trial.number for trial in done})
        finished = _run_batch(sweep, proposals, _Moving(sweep.attack.steps, done, len(proposals), watch))
        done = sorted([*done, *finished], key=lambda trial: trial.number)
        write_lines(sweep.folder, done)
        for trial in finished:
            proposer.tell(trial)
    watch(len(done), best_score(done))
    return done


def best_score(trials: Sequence[Trial]) -> float:
    """nan while there is none."""
    return min((trial.score for trial in trials if not trial.diverged), default=math.nan)


def _run_batch(sweep: Sweep, proposals: Sequence[Proposal], moving: Callback) -> list[Trial]:
    started = time.monotonic()
    parts = _problems(sweep, proposals)
    state = solve(parts, [moving])
    scores = [SCORES[sweep.score](part, own).cpu() for part, own in zip(parts, split(state, parts), strict=True)]
    score, found = torch.cat(scores), as_reconstruction(parts, state)
    # A trial may end before its next step would have shown that it is lost.
    found = replace(found, diverged=found.diverged.cpu() | ~score.isfinite())
    return write_piece(
        sweep.folder,
        [proposal.number for proposal in proposals],
        [proposal.settings for proposal in proposals],
        found,
        score,
        time.monotonic() - started,
    )


def _problems(sweep: Sweep, proposals: Sequence[Proposal]) -> list[Problem]:
    """The batch on its devices; a trial's random start follows from its number."""
    numbers = [proposal.number for proposal in proposals]
    listed = [TrialSettings()] * (max(numbers) + 1)  # those of other batches are not looked at
    for proposal in proposals:
        listed[proposal.number] = proposal.settings
    attack = sweep.attack.model_copy(update={"trials": tuple(listed), "search": None})
    return build_problems(sweep.net, sweep.sample_shape, attack, sweep.seed, sweep.devices, numbers)


class _Moving:
    """Tells how far the batch is; reads nothing from the device."""

    def __init__(self, steps: int, done: Sequence[Trial], trials: int, watch: Watch) -> None:
        self.every = max(1, steps // 50)
        self._steps, self._done, self._trials, self._watch = steps, len(done), trials, watch
        self._best = best_score(done)

    def __call__(self, snapshot: Snapshot) -> None:
        self._watch(self._done + self._trials * snapshot.step / self._steps, self._best)
