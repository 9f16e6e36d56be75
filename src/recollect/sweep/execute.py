"""A sweep under way in this process, until there are as many trials as wanted."""

from __future__ import annotations

from collections.abc import Callable

from recollect.sweep.batches import run_batches
from recollect.sweep.halving import run_halving
from recollect.sweep.settings import Pruning
from recollect.sweep.trials import Sweep
from recollect.sweep.work import Work

RUNNERS: dict[Pruning, Callable[[Sweep, Work], None]] = {"none": run_batches, "halving": run_halving}


def run_trials(sweep: Sweep, work: Work) -> None:
    """All that there is to do, here; what is finished is handed in as it comes."""
    RUNNERS[sweep.pruning](sweep, work)
