"""The search of an audit: rounds of a sweep, each as large as the time that is left allows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from recollect.audit.budget import Ledger
from recollect.audit.plan import kept_free
from recollect.config import to_toml, with_settings
from recollect.core import RecollectError
from recollect.stages.run import Run
from recollect.stages.sweeping import sections, sweep_stage

_CARE = 0.9
"""Share of the time left that a round may plan for: batches differ, and other programs want the machine too."""
_SMALLER = 0.03
"""Factor on both rates where all trials diverged."""


def search(run: Run, ledger: Ledger) -> Run:
    """Batches of trials until no further one fits; at least one. The run afterwards, which has all of its trials.

    The wanted number of trials stands in ``config.toml`` before a round begins, so that an interrupted one is
    finished as it was planned, and the time it had taken is not lost.
    """
    while True:
        lost = _round(run)
        ledger.note(run.folder)
        sweep, searched = sections(run.config)
        left = ledger.left - kept_free(ledger.budget)
        more = int(_CARE * left / (_seconds_per_trial(run) * sweep.batch))
        if more < 1 and lost is not None:
            raise lost
        if more < 1:
            return run
        more = more if lost is None else 1
        changes: dict[str, object] = {"attack.search.trials": searched.trials + more * sweep.batch}
        if lost is not None:
            run.narrator.say("Every trial diverged; the next ones take smaller steps")
            changes |= {f"attack.search.{name}": _smaller(getattr(searched, name)) for name in ("lr_x", "lr_duals")}
        run = replace(run, config=with_settings(run.config, changes, "the plan of the audit"))
        run.folder.write_text("config.toml", to_toml(run.config))


def _round(run: Run) -> RecollectError | None:
    """The trials that are wanted and not yet done; what there is to say where all of them diverged, or None."""
    try:
        sweep_stage(run)
    except RecollectError as error:
        if not all(line.get("diverged") for line in _lines(run)):
            raise
        return error
    return None


def _lines(run: Run) -> list[dict[str, Any]]:
    return run.folder.read_lines("trials.jsonl") if run.folder.has("trials.jsonl") else []


def _smaller(bounds: tuple[float, float]) -> tuple[float, float]:
    return bounds[0] * _SMALLER, bounds[1] * _SMALLER


def _seconds_per_trial(run: Run) -> float:
    """Of all that ended; trials of a batch share what it took."""
    taken = [line["seconds"] for line in _lines(run) if isinstance(line.get("seconds"), int | float)]
    return max(1e-3, sum(taken) / max(1, len(taken)))
