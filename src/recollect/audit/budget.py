"""Time that an audit may take, and how much of it has been spent, interruptions or not."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from recollect.core import RecollectError
from recollect.readable import readable_duration
from recollect.runs import RunFolder

LEDGER = "audit_time.json"
_UNITS = {"s": 1, "m": 60, "h": 3600}
_NOTE_SECONDS = 2.0
"""A kill loses at most so much of the record."""


def parse_budget(text: str) -> float:
    """Seconds.

    >>> parse_budget("90s"), parse_budget("10m"), parse_budget("1.5h")
    (90.0, 600.0, 5400.0)
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh])", text.strip().lower())
    if found is None or float(found[1]) == 0:
        raise RecollectError(f"--budget needs a time such as 90s, 10m or 2h, got '{text}'.")
    return float(found[1]) * _UNITS[found[2]]


class Ledger:
    """Seconds spent on an audit, by this process and by those before it; kept in its run folder."""

    def __init__(self, budget: float, spent: float = 0.0) -> None:
        self.budget = budget
        self._before = spent
        self._started = time.monotonic()
        self._writing = threading.Lock()

    @classmethod
    def of(cls, folder: RunFolder, budget: float) -> Ledger:
        """What the folder says was spent; a folder without a record is new."""
        spent = folder.read_json(LEDGER).get("seconds", 0.0) if folder.has(LEDGER) else 0.0
        return cls(budget, float(spent) if isinstance(spent, int | float) else 0.0)

    @property
    def spent(self) -> float:
        return self._before + time.monotonic() - self._started

    @property
    def left(self) -> float:
        return self.budget - self.spent

    @property
    def words(self) -> str:
        """How the budget stands, for whoever goes on with an audit."""
        used = f"{readable_duration(self.spent)} of {readable_duration(self.budget)} are used"
        return f"{used}." if self.left > 0 else f"{used}: what was begun is finished and judged, nothing more is tried."

    def note(self, folder: RunFolder) -> None:
        with self._writing:  # two at once would take each other's temporary file away
            folder.write_json(LEDGER, {"seconds": self.spent, "budget": self.budget})

    @contextmanager
    def noting(self, folder: RunFolder) -> Iterator[None]:
        """While work goes on, what it takes is written down every few seconds."""
        over = threading.Event()

        def write() -> None:
            while not over.wait(_NOTE_SECONDS):
                try:
                    self.note(folder)
                except RecollectError:
                    return  # a full disk: the work itself will say so

        writer = threading.Thread(target=write, daemon=True)
        writer.start()
        try:
            yield
        finally:
            over.set()
            writer.join()
            with suppress(RecollectError):  # what ends the work is worth more than a note of its time
                self.note(folder)
