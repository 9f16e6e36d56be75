"""Training and judging networks of every kind, and what is refused before anything is written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from recollect.config import Config, parse_config
from recollect.core import RecollectError
from recollect.datasets import heldout_data, training_data
from recollect.dry_run import rehearse
from recollect.networks import load_network
from recollect.progress import Narrator
from recollect.report import write_report
from recollect.runs import RunFolder
from recollect.stages.judging import judge_run
from recollect.stages.run import Run
from recollect.stages.training import UNFINISHED, _Curve, train_stage
from recollect.zoo.training import Progress

NETWORKS = {
    "mlp": "[model]\nhidden = [16, 16]\nfirst_layer_scale = 'standard'\n",
    "conv": "[model]\nkind = 'conv'\nkernel = 3\nchannels = 4\nhidden = [16]\n",
    "symmetrised": "[model]\nhidden = [16, 16]\ngroup = 'flip'\n",
    "group_conv": "[model]\nkind = 'group_conv'\n",
}
CLASSES = "task = 'classes'\n"
SIGNS = "task = 'odd_even'\n"
TRAINING = "[training]\nlr = 0.3\nepochs = 600\ndtype = 'tf32'\nloss = "
LABELS = (2, 5, 7)


@pytest.fixture
def own(tmp_path: Path) -> str:
    """Images of three labels, each with a bright pixel of its own, and some that were never trained on."""
    random = np.random.default_rng(0)
    for name, n in (("train", 12), ("test", 9)):
        labels = np.array(LABELS * (n // 3))
        images = random.random((n, 1, 5, 5)) * 0.2
        images[np.arange(n), 0, labels // 3, labels % 3] += 0.8
        np.savez(tmp_path / f"{name}.npz", images=images.astype(np.float32), labels=labels)
    return f"device = 'cpu'\n[data]\nname = '{tmp_path / 'train.npz'}'\nholdout = '{tmp_path / 'test.npz'}'\n"


def trained(config: Config, path: Path) -> RunFolder:
    folder = RunFolder.create(path, "test", ("train",))
    folder.write_text("config.toml", "")
    train_stage(Run(folder, config, Narrator(), "test"))
    return folder


@pytest.mark.parametrize(
    ("kind", "loss", "shape"),
    [
        ("mlp", "cross_entropy", "25-16-16-3"),
        ("conv", "cross_entropy", "conv 3x3 x4 - 16 - 3"),
        ("conv", "huber", "conv 3x3 x4 - 16 - 1"),
    ],
)
def test_a_network_is_trained_and_judged(own: str, tmp_path: Path, capsys, kind: str, loss: str, shape: str) -> None:
    several = loss == "cross_entropy"
    text = own + (CLASSES if several else SIGNS) + NETWORKS[kind] + f"{TRAINING}'{loss}'\n"
    config = parse_config(text, "test")
    folder = trained(config, tmp_path / "run")
    said = capsys.readouterr().err
    assert f"Training {shape} on 12 samples" in said
    assert "(cpu, float32)" in said
    net, facts = load_network(folder.path)
    assert config.model.outputs is None
    assert facts.architecture.outputs == (3 if several else 1)
    assert (facts.training["error"], facts.training["test_error"]) == (0, 0)

    data = training_data(config)
    folder.write_tensors("candidates.safetensors", {"candidates": data.x.unsqueeze(0).clone()})
    folder.write_json("summary.json", {})
    judge_run(folder, config, net, data, heldout_data(config, data), torch.device("cpu"))
    matches = folder.read_json("matches.json")
    outputs = net(data.x).detach().double()
    slow = outputs.flatten().tolist()
    if several:
        pairs = zip(outputs.tolist(), data.y.tolist(), strict=True)
        slow = [row[y] - max(value for j, value in enumerate(row) if j != y) for row, y in pairs]
    assert matches["output"] == ("margin" if several else "output")
    assert [sample["output"] for sample in matches["samples"]] == pytest.approx(slow, abs=1e-5)
    assert [sample["label"] for sample in matches["samples"]] == data.y.tolist()
    page = write_report(folder.path).read_text()
    assert ("against its margin" in page) == several


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        (CLASSES + NETWORKS["mlp"] + TRAINING + "'logistic'", "training.loss = 'logistic' does not fit a task with 3"),
        (SIGNS + NETWORKS["mlp"] + TRAINING + "'cross_entropy'", "does not fit a task with labels of +-1"),
        (SIGNS + "[model]\noutputs = 2\n" + TRAINING + "'l2'", "model.outputs = 2, but the loss 'l2' on this task"),
        (SIGNS + "[model]\nkind = 'conv'\nkernel = 6\n", "model.kernel = 6 is larger than the images of 5 x 5"),
        (CLASSES + "n = 7\n", "n = 7 samples cannot be split into 3 equal classes; the nearest number that can is 6"),
        (CLASSES + "classes = 4\n", "4 of the 3 labels"),
    ],
)
def test_what_does_not_fit_is_refused_before_training(own: str, sections: str, said: str) -> None:
    with pytest.raises(RecollectError) as caught:
        rehearse(parse_config(own + sections, "test"))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_given_network_is_compared_with_the_task(own: str, tmp_path: Path) -> None:
    config = parse_config(own + SIGNS + NETWORKS["mlp"] + TRAINING + "'l2.5'\n", "test")
    trained(config, tmp_path / "run")
    source = f"[source]\nfolder = '{tmp_path / 'run'}'\n"
    assert rehearse(parse_config(own + SIGNS + source, "test")).samples == 12
    with pytest.raises(RecollectError, match="the network has 1 output, the data have 2 classes; give the data"):
        rehearse(parse_config(own + CLASSES + "classes = 2\n" + source, "test"))


@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize("training", ["memorise", "ordinary"])
def test_interrupted_training_goes_on_to_the_same_weights(
    own: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, training: str
) -> None:
    chosen = f"[training]\nkind = '{training}'\nlr = 0.05\nepochs = 40\nloss = 'cross_entropy'\n"
    config = parse_config("checkpoint_seconds = 1e-9\n" + own + CLASSES + NETWORKS[kind] + chosen, "test")
    whole = trained(config, tmp_path / "whole")

    def interrupt(curve: _Curve, progress: Progress) -> None:
        if progress.epoch == 25:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(_Curve, "__call__", interrupt)
        with pytest.raises(KeyboardInterrupt):
            trained(config, tmp_path / "cut")
    cut = RunFolder.open(tmp_path / "cut")
    assert int(cut.read_tensors(f"model/{UNFINISHED}")["epoch"]) == 24
    train_stage(Run(cut, config, Narrator(), "test"))
    expected, found = (load_network(folder.path)[0].state_dict() for folder in (whole, cut))
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=0, atol=0)
