"""``recollect``, and ``python -m recollect``: an interrupt at any time is exit code 130 and no traceback."""

import sys

from recollect.interrupts import INTERRUPTED, leave_at_once


def main() -> None:
    """Imports take seconds, and not all of them let an interrupt through: the handler comes before them."""
    leave_at_once()
    from recollect.allocator import let_segments_grow
    from recollect.cli import main as command

    let_segments_grow()
    try:
        command()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
