"""``recollect check`` from the command line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

Command = Callable[..., Any]

CODE = """
from torch import nn
def make():
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 1, bias=False))
"""


@pytest.fixture
def own(tmp_path: Path) -> list[str]:
    """A network and data of one's own, in files."""
    (tmp_path / "ownnets.py").write_text(CODE)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 1, bias=False))
    save_file(net.state_dict(), tmp_path / "net.safetensors")
    images = np.random.default_rng(0).integers(0, 256, (6, 4, 4), dtype=np.uint8)
    np.savez(tmp_path / "train.npz", images=images, labels=np.arange(6) % 2)
    return ["--module", "ownnets:make", "--weights", "net.safetensors", "--shape", "1,4,4", "--device", "cpu"]


def _json(ended: Any) -> dict[str, Any]:
    assert ended.code == 0, ended.err
    assert ended.err == ""
    return json.loads(ended.out)


def test_a_run_folder_is_checked_with_its_own_data(command: Command, finished: Path) -> None:
    found = _json(command("check", finished, "--json"))
    assert found["margins"]["samples"] == 4
    assert found["homogeneity"]["degree"] == pytest.approx(3)
    assert found["homogeneity"]["breaking"] == []
    assert found["task"] == {"kind": "binary", "outputs": 1, "loss": "logistic", "guessed": False}
    assert set(found["residual"]["all_layers"]["per_layer"]) == {"layers.1", "layers.3", "layers.5"}
    assert found["residual"]["samples"] == 4


def test_words_for_people(command: Command, finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    ended = command("check", finished)
    assert ended.code == 0, ended.err
    assert "inputs 1x28x28" in ended.out
    assert "Phi(a theta) = a^3 Phi(theta)" in ended.out
    assert "KKT residual, relative" in ended.out
    assert ended.out.strip().endswith("Nothing found here does not mean that nothing leaks.")


def test_the_model_folder_alone_has_no_data_until_they_are_given(command: Command, finished: Path) -> None:
    assert _json(command("check", finished / "model", "--json"))["margins"] is None
    options = ("--data", "sample", "--task", "odd_even", "--n", "4", "--json")
    given = _json(command("check", finished / "model", *options))
    assert given["margins"] == _json(command("check", finished, "--json"))["margins"]
    assert given["task"]["guessed"]


def test_other_data_than_those_of_the_run(command: Command, finished: Path) -> None:
    assert _json(command("check", finished, "--n", "10", "--json"))["margins"]["samples"] == 10


def test_a_network_of_ones_own(command: Command, own: list[str]) -> None:
    assert _json(command("check", *own, "--json"))["residual"] is None
    found = _json(command("check", *own, "--data", "train.npz", "--json"))
    assert found["margins"]["samples"] == 6
    assert found["homogeneity"]["degree"] == pytest.approx(2)
    kept = _json(command("check", *own, "--data", "train.npz", "--keep-mean", "--json"))
    assert kept["margins"]["largest"] != found["margins"]["largest"]
    free = _json(command("check", *own, "--data", "train.npz", "--free-sign", "--json"))
    assert free["residual"]["free_sign"]
    assert free["residual"]["all_layers"]["relative"] <= found["residual"]["all_layers"]["relative"] + 1e-12


def test_a_run_that_attacked_a_network_elsewhere(command: Command, own: list[str]) -> None:
    sizes = ("--set", "attack.candidates=4", "--set", "attack.steps=3")
    assert command("attack", *own, "--data", "train.npz", "--out", "attacked", "--json", *sizes).code == 0
    found = _json(command("check", "attacked", "--json"))
    assert found["margins"]["samples"] == 6
    assert found["task"]["guessed"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["check"], "an existing network is given by a folder, or by module, weights and sample_shape"),
        (["check", "absent"], "holds no network (no model.json)"),
        (["check", "run", "--module", "a:b"], "two networks were named"),
        (["check", "run", "--data", "train.npz"], "the network takes shape [1, 28, 28]"),
        (["check", "run/model", "--n", "4"], "--n says more about --data, which is not there"),
        (["check", "run", "--data", "absent.npz"], "there is no file or folder at 'absent.npz'"),
        (["check", "run", "--device", "tpu"], "there is no device 'tpu'"),
        (["check", "run", "--shape", "a"], "--shape needs whole numbers"),
    ],
)
def test_a_mistake_is_one_sentence(
    command: Command, finished: Path, own: list[str], tmp_path: Path, words: list[str], expected: str
) -> None:
    shutil.copytree(finished, tmp_path / "run")
    assert expected in command(*words).error
