"""A run killed at random moments ends, when it is gone on with, with the bytes of one that never was.

``python -m benchmarks.kill`` does the same many more times; tests/test_resume.py chooses the moments.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_random_kills(tmp_path: Path) -> None:
    """In a process of its own: forks of a process with threads may hang."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.kill", "--times", "2", "--seed", "7", "--steps", "300"],
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 kills" in done.stdout
    assert "0 with other results" in done.stdout
