"""A sweep that goes on elsewhere: what cannot be used is refused before the folder changes, by a dry run too."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from sqlalchemy import make_url
from torch import nn

from recollect.config import read_run_config
from recollect.core import RecollectError
from recollect.sweep.cluster import require_sendable
from recollect.sweep.settings import SweepConfig
from recollect.sweep.storage import anchored

Command = Callable[..., Any]
SMALL = ("--trials", "2", "--batch", "2", "--set", "attack.candidates=8", "--set", "attack.steps=20", "--json")
NOBODY = "127.0.0.1:1"


@pytest.fixture
def swept(command: Command, finished: Path, tmp_path: Path) -> Path:
    ended = command("sweep", finished, *SMALL, "--out", tmp_path / "swept")
    assert ended.code == 0, ended.err
    return tmp_path / "swept"


@pytest.fixture
def answering() -> Iterator[str]:
    """An address at which somebody answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def stored(run: Path) -> SweepConfig:
    sweep = read_run_config(run / "config.toml").sweep
    assert sweep is not None
    return sweep


def test_a_refused_sweep_stays_as_it_was(command: Command, swept: Path) -> None:
    before = (swept / "config.toml").read_bytes()
    for words, sentence in [
        (("--sampler", "tpe"), "--sampler cannot change it"),
        (("--batch", "0"), "--batch cannot change it"),
        (("--out", "elsewhere"), "--out cannot change it"),
        (("--set", "seed=9"), "--set cannot change it"),
        (("--trials", "1"), "would take some away"),
        (("--device", "abacus"), "abacus"),
        (("--executor", "ray", "--address", NOBODY), "cannot be used"),
    ]:
        assert sentence in command("sweep", "--resume", swept, "--tracker", "tensorboard", *words).error
        assert (swept / "config.toml").read_bytes() == before, words


def test_an_executor_without_an_address_forgets_that_of_another(command: Command, swept: Path, answering: str) -> None:
    moved = command("sweep", "--resume", swept, "--executor", "ray", "--address", answering, "--json")
    assert moved.code == 0, moved.err
    assert stored(swept).address == answering
    assert command("sweep", "--resume", swept, "--tracker", "tensorboard", "--json").code == 0
    assert stored(swept).address == answering
    assert command("sweep", "--resume", swept, "--executor", "ray", "--json").code == 0
    assert (stored(swept).executor, stored(swept).address) == ("ray", None)


def test_a_dry_run_looks_at_where_a_sweep_would_go_on(command: Command, swept: Path) -> None:
    before = (swept / "config.toml").read_bytes()
    for words, sentence in [
        (("--tracker", "bogus"), "sweep.tracker"),
        (("--executor", "ray", "--address", NOBODY), "cannot be used"),
        (("--address", "auto"), "is that of a Ray cluster"),
    ]:
        assert sentence in command("sweep", "--resume", swept, "--dry-run", *words).error
    shown = command("sweep", "--resume", swept, "--dry-run", "--tracker", "tensorboard", "--trials", "3", "--json")
    assert shown.code == 0, shown.err
    config = json.loads(shown.out)["config"]
    assert (config["sweep"]["tracker"], config["attack"]["search"]["trials"]) == ("tensorboard", 3)
    assert (swept / "config.toml").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--storage", "foo"), "the storage 'foo' cannot be used"),
        (("--storage", "sqlite:///nowhere/study.db"), "no file can be written in"),
        (("--storage", "sqlite:///text.db"), "file is not a database"),
        (("--executor", "ray", "--address", "foo"), "no host and port"),
        (("--tracker", "wandb"), "pip install 'recollect[wandb]'"),
    ],
)
def test_a_dry_run_refuses_what_a_sweep_would(
    words: tuple[str, ...], sentence: str, command: Command, tiny: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    Path("text.db").write_text("no database, whatever its name says" * 9)
    assert sentence in command("sweep", "--preset", "demo", *tiny, *words, "--dry-run").error


def test_a_dry_run_makes_no_database(command: Command, tiny: list[str], tmp_path: Path) -> None:
    shown = command("sweep", "--preset", "demo", *tiny, "--storage", "sqlite:///study.db", "--dry-run", "--json")
    assert shown.code == 0, shown.err
    assert not list(tmp_path.iterdir())


@pytest.mark.filterwarnings("ignore")  # PyTorch's own, while it exports
def test_a_network_that_cannot_be_sent_is_one_sentence(command: Command) -> None:
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)).eval()
    batch = torch.export.Dim("batch")
    torch.export.save(torch.export.export(net, (torch.zeros(2, 4),), dynamic_shapes=({0: batch},)), "net.pt2")
    refused = command("sweep", "--weights", "net.pt2", *SMALL, "--executor", "ray", "--out", "run").error
    assert "a torch.export program cannot be sent to other processes" in refused
    assert "--executor local" in refused
    assert not Path("run").exists()
    assert command("sweep", "--weights", "net.pt2", *SMALL, "--out", "run").code == 0
    before = Path("run/config.toml").read_bytes()
    assert "cannot be sent" in command("sweep", "--resume", "run", "--executor", "ray", "--trials", "3").error
    assert Path("run/config.toml").read_bytes() == before


class Closed(nn.Linear):
    def __reduce__(self) -> str:
        raise TypeError("it has a lock")


def test_why_a_network_of_the_users_own_cannot_be_sent() -> None:
    with pytest.raises(RecollectError, match=r"this network \(it has a lock\) cannot be sent .* use --executor local"):
        require_sendable(nn.Sequential(Closed(2, 2)))


def test_a_relative_database_is_found_from_any_folder(
    command: Command, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = command("sweep", finished, *SMALL, "--storage", "sqlite:///two.db", "--out", tmp_path / "run")
    assert ended.code == 0, ended.err
    assert stored(tmp_path / "run").storage == f"sqlite:///{tmp_path / 'two.db'}"
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    again = command("sweep", "--resume", tmp_path / "run", "--trials", "3", "--json")
    assert again.code == 0, again.err
    assert not list((tmp_path / "other").iterdir())


@pytest.mark.parametrize(
    "url", ["sqlite://", "sqlite:///file:study.db?uri=true", "postgresql://me:secret@host/db", "foo"]
)
def test_other_storages_stay_as_they_are(url: str) -> None:
    assert anchored(url) == url


def test_a_folder_of_odd_characters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = tmp_path / "100%25 ?"
    odd.mkdir()
    monkeypatch.chdir(odd)
    url = anchored("sqlite:///two.db?timeout=5")
    assert url.endswith("?timeout=5")
    assert make_url(url).database == str(odd / "two.db")
