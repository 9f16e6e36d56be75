"""Judges never see what the attacked network saw, and nothing that generated images are compared with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from recollect.config import Config, parse_config
from recollect.datasets import training_data, unseen_data
from recollect.stages.independent import appointed, divided

CPU = torch.device("cpu")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """60 training and 40 test images of two labels, sorted by label; the first pixel of each is its name."""
    monkeypatch.chdir(tmp_path)
    for name, n, first in (("train", 60, 0), ("test", 40, 100)):
        labels = (np.arange(n) >= n // 2).astype(np.int64) + 3
        images = np.zeros((n, 1, 4, 4), dtype=np.uint8)
        images[:, 0, 0, 0] = first + np.arange(n)
        images[:, 0, 2, 2] = 200 * (labels == 4)
        np.savez(tmp_path / f"{name}.npz", images=images, labels=labels)
    return tmp_path


def config(n: int | None, settings: str = "") -> Config:
    text = "[data]\nname = 'train.npz'\ntask = 'classes'\n" + (f"n = {n}\n" if n else "")
    return parse_config(text + settings + "[attack]\nmethod = 'generator'\n[match.independent]\nepochs = 3\n", "test")


def names(data) -> set[int]:
    return set((255 * data.images[:, 0, 0, 0]).round().int().tolist())


HOLDOUT = "holdout = 'test.npz'\n"


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("n", "holdout", "judges", "compared"),
    [(20, HOLDOUT, 40, 40), (50, HOLDOUT, 20, 20), (None, HOLDOUT, 20, 20), (20, "", 20, 20)],
)
def test_nobody_sees_what_another_has(n: int | None, holdout: str, judges: int, compared: int) -> None:
    """What is left of the training file, or half of the held-out images where that is too little."""
    own = config(n, holdout)
    data = training_data(own)
    unseen, heldout = divided(own, data)
    assert unseen is not None
    assert heldout is not None
    assert (len(unseen.x), len(heldout.x)) == (judges, compared)
    sets = [names(data), names(unseen), names(heldout)]
    assert sum(map(len, sets)) == len(set().union(*sets))
    for part in (unseen, heldout):
        assert torch.bincount(part.y).tolist() == [len(part.y) // 2] * 2


@pytest.mark.usefixtures("files")
def test_without_other_images_there_are_no_judges() -> None:
    own = config(None)
    data = training_data(own)
    assert unseen_data(own, data) is None
    assert divided(own, data) == (None, None)
    panel = appointed(own, data, CPU, print)
    assert (panel.judges, panel.unseen, panel.held_out) == ({}, None, None)


@pytest.mark.usefixtures("files")
def test_a_judge_is_no_copy_of_anything_and_says_how_good_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    own = config(20, HOLDOUT)
    panel = appointed(own, training_data(own), CPU, print)
    assert list(panel.judges) == ["perceptron"]  # images of 4 x 4 are too small for convolutions
    assert panel.judges["perceptron"].held_out_accuracy == 1.0
    assert "trained on 40 other images, right about 100.0% of held-out ones" in capsys.readouterr().out
    again = appointed(own, training_data(own), CPU, print)
    weights = [one.judges["perceptron"].net.state_dict() for one in (panel, again)]
    assert all(torch.equal(weights[0][name], value) for name, value in weights[1].items())


@pytest.mark.usefixtures("files")
def test_the_first_samples_whatever_their_class() -> None:
    own = config(40, "balanced = false\n")
    data = training_data(own)
    assert names(data) == set(range(40))
    assert torch.bincount(data.y).tolist() == [30, 10]
    left = unseen_data(own, data)
    assert left is None  # of label 3 nothing is left
    assert torch.equal(data.x, data.images)
    centred = training_data(config(40, "balanced = false\ncentred = true\n"))
    assert torch.allclose(centred.x, data.images - data.images.mean(dim=0))
