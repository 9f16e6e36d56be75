"""Members of a series in processes of their own, several at a time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event
from typing import NamedTuple

from recollect.core import RecollectError
from recollect.interrupts import INTERRUPTED
from recollect.runs import RunFolder

_LOOK_EVERY = 1.0
"""Seconds between two looks at the stages of runs."""


class News(NamedTuple):
    """Of the run in a folder: it is ``running``, and which of its stages; ``done``; or ``failed``, and why."""

    folder: Path
    state: str
    failure: str | None = None
    stage: str | None = None


@dataclass(frozen=True)
class Together:
    """Runs that have folders already are gone on with, ``jobs`` at a time, taking turns on ``devices``."""

    jobs: int
    devices: Sequence[str]
    _processes: dict[Path, subprocess.Popen[str]] = field(default_factory=dict)
    _stopping: Event = field(default_factory=Event)

    def go(self, folders: Sequence[Path]) -> Iterator[News]:
        """What becomes of each; an interrupt is passed on to all that are running."""
        news: SimpleQueue[News] = SimpleQueue()
        free: SimpleQueue[str] = SimpleQueue()
        for place in range(self.jobs):
            free.put(self.devices[place % len(self.devices)])
        with ThreadPoolExecutor(self.jobs) as pool:
            for folder in folders:
                pool.submit(self._go, folder, free, news)
            try:
                yield from self._until_all_ended(news, len(folders))
            finally:
                self._stop(pool)

    def _until_all_ended(self, news: SimpleQueue[News], left: int) -> Iterator[News]:
        stages: dict[Path, str | None] = {}
        while left:
            try:
                found = news.get(timeout=_LOOK_EVERY)
            except Empty:
                yield from self._entered(stages)
                continue
            left -= found.state != "running"
            yield found

    def _entered(self, known: dict[Path, str | None]) -> Iterator[News]:
        """Stages that have begun since the last look."""
        for folder in list(self._processes):
            stage = _stage(folder)
            if stage is not None and known.get(folder) != stage:
                known[folder] = stage
                yield News(folder, "running", stage=stage)

    def _stop(self, pool: ThreadPoolExecutor) -> None:
        pool.shutdown(wait=False, cancel_futures=True)
        self._stopping.set()
        for process in list(self._processes.values()):
            process.send_signal(signal.SIGINT)

    def _go(self, folder: Path, free: SimpleQueue[str], news: SimpleQueue[News]) -> None:
        news.put(News(folder, "running"))
        device = free.get()
        try:
            failure = self._outcome(folder, device)
        except OSError as error:
            failure = f"its process could not be started ({error.strerror})."
        free.put(device)
        news.put(News(folder, "done" if failure is None else "failed", failure))

    def _outcome(self, folder: Path, device: str) -> str | None:
        """Why the run failed, if it did."""
        words = [sys.executable, "-m", "recollect", "reproduce", "--json", "--resume", str(folder), "--device", device]
        # In a session of its own: an interrupt at the terminal reaches it once, by way of the series.
        options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "start_new_session": True}
        process = subprocess.Popen(words, env=self._environment(), text=True, **options)
        self._processes[folder] = process
        if self._stopping.is_set():
            process.send_signal(signal.SIGINT)
        said = process.communicate()[1]
        del self._processes[folder]
        return _reason(process.returncode, said)

    def _environment(self) -> dict[str, str]:
        """Processes share the cores: with all threads for each they would wait for one another."""
        threads = str(max(1, (os.cpu_count() or 1) // self.jobs))
        return {"OMP_NUM_THREADS": threads, **os.environ}


def _stage(folder: Path) -> str | None:
    """The stage that a run is in; None between stages, or where its folder cannot be read."""
    try:
        stages = RunFolder.open(folder).stages
    except RecollectError:
        return None
    return next((name for name, state in stages.items() if state == "running"), None)


def _reason(code: int, said: str) -> str | None:
    """Why a process failed, by its exit code and what it wrote to stderr; None where it did not.

    >>> _reason(2, "a warning\\nerror: the data are gone.\\n")
    'the data are gone.'
    >>> _reason(1, "Traceback\\n  File 'step.py'\\n    go()\\nRuntimeError: no such device\\nAsk its maker.\\n")
    'RuntimeError: no such device'
    """
    if code == 0:
        return None
    if code in (INTERRUPTED, -signal.SIGINT):
        return "it was interrupted."
    if code < 0:
        return f"its process was ended by {signal.Signals(-code).name}."
    lines = said.strip().splitlines() or ["it ended without a word."]
    if lines[-1].startswith("error: "):
        return lines[-1].removeprefix("error: ")
    # What went wrong stands where a traceback ends, and may go on for several lines.
    frames = [number for number, line in enumerate(lines) if line.startswith("  File ")]
    after = lines[frames[-1] :] if frames else []
    return next((line for line in after if line[:1].strip()), lines[-1])
