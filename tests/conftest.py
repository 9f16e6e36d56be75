"""The command line inside the test's own process, and small runs to try it on."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from recollect.cli import main

settings.register_profile("recollect", deadline=None)  # a busy machine is no failure
settings.load_profile("recollect")

_SETTINGS = {
    "data.n": "4",
    "data.holdout_count": "20",
    "model.hidden": "[16, 16]",
    "training.epochs": "60",
    "attack.candidates": "8",
    "attack.steps": "60",
    "attack.trials": "[{lr_x = 0.6, lr_duals = 0.01, init_scale = 0.01}]",
    "baselines": "{}",
}


@dataclass(frozen=True)
class Outcome:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The one sentence of a refused command."""
        lines = self.err.strip().splitlines()
        assert self.code == 2, self.err
        assert len(lines) == 1, self.err
        assert self.out == ""
        return lines[0]


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> Iterator[None]:
    """Small matrices gain nothing from threads, and test processes that run side by side lose much."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def tiny() -> list[str]:
    """Options that shrink the demo to a second."""
    return _options(_SETTINGS)


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Outcome]:
    """``command("demo", "--json")`` runs the command in an empty folder and tells how it ended."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])

    def run(*words: str | Path) -> Outcome:
        code = _run(words, monkeypatch)
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run


@pytest.fixture(scope="session")
def _finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished") / "run"
    with pytest.MonkeyPatch.context() as monkeypatch:
        assert _run(["demo", "--json", "--out", folder, *_options(_SETTINGS)], monkeypatch) == 0
    return folder


@pytest.fixture
def finished(_finished: Path, tmp_path: Path) -> Path:
    """A copy of a small run that went well; the test may damage it."""
    return shutil.copytree(_finished, tmp_path / "finished")


def _options(settings: dict[str, str]) -> list[str]:
    return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]


def _run(words: Sequence[str | Path], monkeypatch: pytest.MonkeyPatch) -> int:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "argv", ["recollect", *(str(word) for word in words)])
        try:
            main()
        except SystemExit as ended:
            return ended.code if isinstance(ended.code, int) else 0
    return 0
