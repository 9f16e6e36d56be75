"""An interrupt at any time, also while Python is still importing, is exit code 130 and no traceback."""

from __future__ import annotations

import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import recollect


def script() -> list[str]:
    """What pip makes of the entry in pyproject.toml."""
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())
    module, _, function = project["project"]["scripts"]["recollect"].partition(":")
    return ["-c", f"import sys; from {module} import {function}; sys.exit({function}())"]


PROGRAMS = {"module": ["-m", "recollect"], "script": script()}


def started(program: str, *words: str, **options: object) -> subprocess.Popen[str]:
    """Says on stderr what it has imported."""
    return subprocess.Popen(
        [sys.executable, "-X", "importtime", *PROGRAMS[program], *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,  # pyright: ignore[reportArgumentType, reportCallIssue]
    )


def wait_until_imported(module: str, running: subprocess.Popen[str]) -> None:
    assert running.stderr is not None
    while (line := running.stderr.readline()).rpartition("|")[2].strip() != module:
        assert line, f"it ended before {module} was imported"


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("module", ["torch.types", "numpy", "torch", "recollect.core", "recollect.cli"])
def test_interrupted_while_importing(program: str, module: str, tmp_path: Path) -> None:
    running = started(program, "demo", "--out", str(tmp_path / "run"))
    wait_until_imported(module, running)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 130, err
    assert out == ""
    assert "Traceback" not in err
    assert "KeyboardInterrupt" not in err


def test_who_does_not_heed_interrupts_is_left_alone() -> None:
    """As in the background of a shell script."""
    running = started("module", "presets", preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    wait_until_imported("torch.types", running)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 0, err
    assert "demo" in out


def test_what_the_package_offers_is_there_when_asked_for() -> None:
    code = "import sys, recollect; assert 'torch' not in sys.modules; print(recollect.attack.__name__, dir(recollect))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.startswith("attack [")
    assert all(f"'{name}'" in out for name in recollect.__all__)
    assert all(getattr(recollect, name).__name__ == name for name in recollect.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        recollect.nothing  # noqa: B018
