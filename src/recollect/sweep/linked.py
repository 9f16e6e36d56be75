"""A process of its own for Ray: where a cluster goes away, Ray ends the process that is connected to it.

That process asks this one for trials and hands in what came of them, as if the run folder were its own.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from dataclasses import dataclass
from typing import IO, Any, Literal

from torch import Tensor

from recollect.core import RecollectError
from recollect.sweep.cluster import as_sent, gone, portion_size, run_on_cluster
from recollect.sweep.propose import Proposal
from recollect.sweep.record import Trial
from recollect.sweep.trials import Sweep
from recollect.sweep.work import Work

Asked = Literal["history", "take", "hand_in", "show"]
_PATIENCE = 30
"""Seconds in which Ray takes its leave."""


def run_linked(sweep: Sweep, work: Work, address: str | None, device: str) -> None:
    """All that there is to do, on a cluster; one that goes away is a sentence, and what it did is in the folder."""
    first = (as_sent(sweep), address, device, portion_size(sweep))
    other = subprocess.Popen(
        [sys.executable, "-m", "recollect.sweep.linked"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # Ray says there what it thinks; what matters comes as an error
    )
    assert other.stdin is not None
    assert other.stdout is not None
    try:
        _send(other.stdin, first)
        while (asked := pickle.load(other.stdout)) is not None:
            if isinstance(asked, Exception):
                raise asked
            _send(other.stdin, _answer(work, *asked))
    except (EOFError, BrokenPipeError, pickle.UnpicklingError):
        raise gone("Ray ended its process") from None
    finally:
        _leave(other)


def _answer(work: Work, asked: Asked, value: Any) -> Any:
    match asked:
        case "history":
            return list(work.history)
        case "take":
            return work.take(value)
        case "hand_in":
            return work.hand_in(value)
        case "show":
            return work.show(value)


def _leave(other: subprocess.Popen[bytes]) -> None:
    """It ends when nobody answers any more."""
    for stream in (other.stdin, other.stdout):
        assert stream is not None
        try:
            stream.close()
        except BrokenPipeError:
            continue
    try:
        other.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        other.kill()
        other.wait()


@dataclass(frozen=True)
class LinkedWork:
    """Trials that another process has."""

    asking: IO[bytes]
    answers: IO[bytes]

    @property
    def history(self) -> list[Trial]:
        return self._ask("history")

    def take(self, most: int) -> list[Proposal]:
        return self._ask("take", most)

    def hand_in(self, tensors: dict[str, Tensor]) -> None:
        self._ask("hand_in", tensors)

    def show(self, running: float) -> None:
        self._ask("show", running)

    def _ask(self, asked: Asked, value: Any = None) -> Any:
        _send(self.asking, (asked, value))
        return pickle.load(self.answers)


def _send(stream: IO[bytes], value: Any) -> None:
    pickle.dump(value, stream)
    stream.flush()


def _sendable(error: Exception) -> Exception:
    try:
        return pickle.loads(pickle.dumps(error))
    # An error of the user's own network may be anything.
    except Exception:
        return RecollectError(f"a batch of trials failed on the cluster: {type(error).__name__}: {error}")


def main() -> None:
    """What the process does: only messages go to where its output goes, not what Ray prints."""
    asking, answers = os.fdopen(os.dup(1), "wb"), sys.stdin.buffer
    os.dup2(2, 1)
    swept, address, device, size = pickle.load(answers)
    try:
        run_on_cluster(swept, LinkedWork(asking, answers), address, device, size)
    except (EOFError, BrokenPipeError):
        return  # whoever asked is gone
    except Exception as error:
        _send(asking, _sendable(error))
    else:
        _send(asking, None)


if __name__ == "__main__":
    main()
