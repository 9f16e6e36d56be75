"""What an interrupt does: it ends the process at once, unless work is under way that can say how to go on."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import Timer
from types import FrameType
from typing import Any

INTERRUPTED = 130
"""The exit code by which a shell knows of an interrupt."""

_LATER = 0.05


def leave_at_once() -> None:
    """From here on an interrupt ends the process; one that was told not to heed interrupts goes on not to."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)


@contextmanager
def raised() -> Iterator[None]:
    """Within this an interrupt is a KeyboardInterrupt.

    Elsewhere it must not be: imports and pydantic's compiled code swallow exceptions now and then.
    """
    if signal.getsignal(signal.SIGINT) is not _leave:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    hook = sys.unraisablehook
    sys.unraisablehook = partial(_send_again, hook)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, _leave)
        sys.unraisablehook = hook
        # A KeyboardInterrupt that passed through an exec of text ends Python by a signal, even if it was caught
        # afterwards, with the exit code lost. The next exec of text makes it forget that.
        exec("")


def _send_again(hook: Callable[[Any], None], lost: Any) -> None:
    """An interrupt that came in a destructor or the like, where Python drops exceptions, comes a little later."""
    if lost.exc_type is not None and issubclass(lost.exc_type, KeyboardInterrupt):
        Timer(_LATER, os.kill, (os.getpid(), signal.SIGINT)).start()
    else:
        hook(lost)


def _leave(number: int, frame: FrameType | None) -> None:
    del number, frame
    os._exit(INTERRUPTED)
