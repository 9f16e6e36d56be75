"""What a person sees while something long runs. Everything goes to stderr; stdout is for results."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from recollect.readable import readable_duration
from recollect.solve import Snapshot
from recollect.zoo.training import Progress as TrainingProgress

Advance = Callable[[int, str], None]
"""``advance(done, detail)``"""

LINE_EVERY = 60.0
"""Seconds between lines where no bar can move."""


class Narrator:
    """Says what is being done, with a bar for what takes long; silent when asked to be."""

    def __init__(self, quiet: bool = False) -> None:
        self.console = Console(stderr=True, quiet=quiet, highlight=False)

    def say(self, text: str) -> None:
        self.console.print(text, markup=False, soft_wrap=True)

    @contextmanager
    def bar(self, description: str, total: int, done: int = 0) -> Iterator[Advance]:
        if self.console.is_interactive or self.console.quiet:
            with self._moving(description, total, done) as advance:
                yield advance
        else:
            lines = _Lines(self, description, total, done)
            try:
                yield lines.advance
            finally:
                lines.end()

    @contextmanager
    def _moving(self, description: str, total: int, done: int) -> Iterator[Advance]:
        columns = (
            TextColumn("  {task.description}"),
            BarColumn(bar_width=20),
            TaskProgressColumn(),
            TextColumn("{task.completed:.0f} of {task.total:.0f}"),
            TimeRemainingColumn(compact=True, elapsed_when_finished=True),
            TextColumn("{task.fields[detail]}"),
        )
        # Trials on a cluster end minutes apart; rich would forget all but the last half minute.
        shown = Progress(*columns, console=self.console, disable=self.console.quiet, speed_estimate_period=3600)
        with shown as progress:
            task = progress.add_task(description, total=total, completed=done, detail="")
            yield lambda done, detail: progress.update(task, completed=done, detail=detail)


class _Lines:
    """In place of a bar where nothing can move, as in a job's log: a line now and then, and one at the end."""

    def __init__(self, narrator: Narrator, description: str, total: int, done: int) -> None:
        self.narrator, self.description, self.total = narrator, description, total
        self.first, self.done, self.detail = done, done, ""
        self.began = self.said = time.monotonic()

    def advance(self, done: int, detail: str) -> None:
        self.done, self.detail = done, detail
        now = time.monotonic()
        if now - self.said >= LINE_EVERY and done < self.total:
            self.said = now
            self._say(f"{readable_duration(self._seconds_left(now))} left" if done > self.first else "")

    def end(self) -> None:
        self._say(f"after {readable_duration(time.monotonic() - self.began)}")

    def _seconds_left(self, now: float) -> float:
        return (now - self.began) * (self.total - self.done) / (self.done - self.first)

    def _say(self, when: str) -> None:
        share = self.done / self.total if self.total else 1.0
        parts = [f"{self.description} {share:.0%}", f"{self.done} of {self.total}", when, self.detail.strip()]
        self.narrator.say("  " + "  ".join(part for part in parts if part))


@dataclass(frozen=True)
class SearchBar:
    """Moves the bar of an attack; shows the smallest loss of all trials that did not diverge."""

    advance: Advance
    every: int

    def __call__(self, snapshot: Snapshot) -> None:
        total = torch.stack(list(snapshot.terms.values())).sum(dim=0)
        diverged = int((~snapshot.state.alive).sum())
        note = f"  {diverged} diverged" if diverged else ""
        least = total.nan_to_num(nan=math.inf, posinf=math.inf).min()
        self.advance(snapshot.step, f"loss {float(least):.4g}{note}")


@dataclass(frozen=True)
class TrainingBar:
    """Moves the bar of training; shows loss and error."""

    advance: Advance
    every: int

    def __call__(self, progress: TrainingProgress) -> None:
        self.advance(progress.epoch, f"loss {progress.loss:.2e}  error {progress.error:.1%}")
