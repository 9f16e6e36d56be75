"""What is swept, and trials of it as problems on devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from recollect.build import build_problems
from recollect.config import AttackConfig, TrialSettings
from recollect.given import NOTHING, Given
from recollect.problem import Problem
from recollect.sweep.propose import Proposal
from recollect.sweep.settings import Pruning


@dataclass(frozen=True)
class Sweep:
    """What is swept, and how."""

    net: nn.Module
    sample_shape: tuple[int, ...]
    attack: AttackConfig
    seed: int
    devices: Sequence[torch.device]
    batch: int
    score: str = "first_layer"
    pruning: Pruning = "none"
    given: Given = NOTHING
    """What is found, or read, once for all batches."""


def problems_of(sweep: Sweep, proposals: Sequence[Proposal], devices: Sequence[torch.device]) -> list[Problem]:
    """The trials on devices; a trial's random start follows from its number."""
    numbers = [proposal.number for proposal in proposals]
    listed = [TrialSettings()] * (max(numbers) + 1)  # those of other trials are not looked at
    for proposal in proposals:
        listed[proposal.number] = proposal.settings
    attack = sweep.attack.model_copy(update={"trials": tuple(listed), "search": None})
    return build_problems(sweep.net, sweep.sample_shape, attack, sweep.seed, devices, numbers, sweep.given)
