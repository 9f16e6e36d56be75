"""An interrupt ends the process, and is an exception only where work is under way."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recollect import interrupts

Ended = Callable[[str], subprocess.CompletedProcess[str]]


@pytest.fixture
def ended(tmp_path: Path) -> Ended:
    """What becomes of a program that is started as a module, as ``python -m recollect`` is."""

    def run(code: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "program.py").write_text(f"import signal, sys\nfrom recollect import interrupts\n{code}")
        command = [sys.executable, "-m", "program"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)

    return run


def test_outside_of_work_it_ends_the_process_whatever_swallows_exceptions(ended: Ended) -> None:
    ran = ended(
        "interrupts.leave_at_once()\n"
        "try:\n    signal.raise_signal(signal.SIGINT)\nexcept BaseException:\n    pass\n"
        "print('went on')"
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (interrupts.INTERRUPTED, "", "")


@pytest.mark.parametrize("how", ["signal.raise_signal(signal.SIGINT)", "exec('signal.raise_signal(signal.SIGINT)')"])
def test_work_may_say_how_to_go_on(how: str, ended: Ended) -> None:
    """Also where the exception passed through an exec of text, by which Python else ends with a signal."""
    ran = ended(
        "interrupts.leave_at_once()\n"
        f"try:\n    with interrupts.raised():\n        {how}\n"
        "except KeyboardInterrupt:\n    print('go on so')\n    sys.exit(interrupts.INTERRUPTED)"
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (interrupts.INTERRUPTED, "go on so\n", "")


def test_after_work_it_ends_the_process_again(ended: Ended) -> None:
    ran = ended(
        "interrupts.leave_at_once()\n"
        "with interrupts.raised():\n    pass\n"
        "try:\n    signal.raise_signal(signal.SIGINT)\nexcept KeyboardInterrupt:\n    print('went on')"
    )
    assert (ran.returncode, ran.stdout) == (interrupts.INTERRUPTED, "")


@pytest.mark.parametrize("handler", [signal.default_int_handler, signal.SIG_IGN])
def test_who_calls_the_library_keeps_the_handler(handler: Any) -> None:
    before = signal.signal(signal.SIGINT, handler)
    try:
        with interrupts.raised():
            assert signal.getsignal(signal.SIGINT) is handler
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_interrupt_that_python_drops_comes_again(ended: Ended) -> None:
    """As in a destructor, or in what a weak reference calls."""
    ran = ended(
        "import time\n"
        "class Dropping:\n    def __del__(self):\n        signal.raise_signal(signal.SIGINT)\n"
        "interrupts.leave_at_once()\n"
        "try:\n    with interrupts.raised():\n        made = Dropping()\n        del made\n"
        "        print('dropped', flush=True)\n        time.sleep(30)\n"
        "except KeyboardInterrupt:\n    sys.exit(interrupts.INTERRUPTED)"
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (interrupts.INTERRUPTED, "dropped\n", "")
