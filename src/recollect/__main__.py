"""``recollect``, and ``python -m recollect``: an interrupt at any time is exit code 130 and no traceback."""

import os
import signal
import sys
from types import FrameType

INTERRUPTED = 130


def main() -> None:
    """Imports take seconds, and not all of them let an interrupt through: until they are done, it ends the process."""
    heeded = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if heeded:
        signal.signal(signal.SIGINT, _leave)
    from recollect.cli import main as command

    if heeded:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        command()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    finally:
        if heeded:
            signal.signal(signal.SIGINT, _leave)


def _leave(number: int, frame: FrameType | None) -> None:
    del number, frame
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
