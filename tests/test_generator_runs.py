"""The attack by a generator as a run: small classifiers of small pictures, through the command line."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from recollect.api import attack
from recollect.callbacks import CHECKPOINT, Checkpoint
from recollect.cli import main
from recollect.config import parse_config, read_run_config
from recollect.networks import load_network
from recollect.presets import load_preset, preset_names
from recollect.series.members import members
from recollect.solve import Snapshot
from recollect.stages.training import _SavedWeights

Command = Callable[..., Any]

CONFIG = """
name = "small"
device = "cpu"
checkpoint_seconds = 0
[data]
name = "train.npz"
holdout = "test.npz"
task = "classes"
n = 48
balanced = false
[model]
kind = "classifier"
channels = [4, 8]
hidden = 8
[training]
kind = "ordinary"
epochs = 10
batch_size = 8
lr = 0.01
[attack]
method = "generator"
candidates = 12
steps = 40
schedule = "cosine"
trials = [{ lr_x = 0.01 }, { lr_x = 0.02 }]
[attack.generator]
batch = 12
width = 8
latent = 6
[baselines.inversion]
method = "generator"
candidates = 12
steps = 20
trials = [{ lr_x = 0.01 }]
[baselines.inversion.generator]
mode = "inversion"
batch = 12
width = 4
latent = 6
[baselines.activation]
method = "activation"
candidates = 12
steps = 20
optimiser = "adam"
box = [0.0, 1.0]
trials = [{ lr_x = 0.05, init_scale = 0.1 }]
[match.independent]
epochs = 6
"""
CLASSES = 3
OWN = """
from torch import nn
def make():
    return nn.Sequential(nn.Flatten(), nn.Linear(256, 12), nn.ReLU(), nn.Linear(12, 9), nn.ReLU(), nn.Linear(9, 3))
"""


def write_pictures(folder: Path, shape: tuple[int, ...] = (1, 16, 16)) -> None:
    """Three classes: the third of the picture that is bright. Of the training file, 48 of 108 are trained on."""
    random = np.random.default_rng(0)
    for name, n in (("train", 108), ("test", 60)):
        labels = np.arange(n) % CLASSES
        images = 0.3 * random.random((n, *shape))
        for index, label in enumerate(labels):
            images[index, :, 5 * label : 5 * label + 5] += 0.6
        np.savez(folder / f"{name}.npz", images=images.astype(np.float32), labels=labels)


@pytest.fixture(scope="module")
def _materials(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("materials")
    write_pictures(folder)
    (folder / "small.toml").write_text(CONFIG)
    (folder / "mynets.py").write_text(OWN)
    return folder


@pytest.fixture(scope="module")
def finished(_materials: Path) -> Path:
    """A run that nobody interrupts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(_materials)
        patch.setattr(sys, "argv", ["recollect", "reproduce", "small.toml", "--out", "whole", "--json"])
        with pytest.raises(SystemExit) as ended:
            main()
    assert not ended.value.code
    return _materials / "whole"


@pytest.fixture
def place(_materials: Path, tmp_path: Path) -> Path:
    """Configuration and data where commands run."""
    for file in _materials.glob("*.*"):
        shutil.copy(file, tmp_path)
    return tmp_path


def numbers(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "generated.json").read_text())


def test_from_training_to_report(finished: Path) -> None:
    run, summary = finished, json.loads((finished / "summary.json").read_text())
    model = json.loads((run / "model" / "model.json").read_text())
    assert model["training"]["test_error"] < 0.1
    assert summary["generators"] == 2
    assert summary["label_agreement"] > 0.8
    assert summary["attack_accuracy"] > 0.6
    assert summary["held_out_accuracy_classifier"] > 0.9
    assert "training-like" in summary["verdict"] or "nearer to training images" in summary["verdict"]
    for folder, generators in ((run, 2), (run / "baselines" / "inversion", 1), (run / "baselines" / "activation", 1)):
        found = numbers(folder)
        assert len(found["generators"]) == generators
        assert {"attack_accuracy", "frechet_training", "member_advantage"} <= set(found["mean"])
        assert found["mean"]["class_feature_cosine"] <= 1
        shown = load_file(folder / "generated.safetensors")
        assert shown["images"].shape == shown["nearest"].shape
        assert shown["images"].shape[:2] == (CLASSES, 6 if generators == 2 else 4)
    saved = load_file(run / "candidates.safetensors")
    assert saved["candidates"].shape == (2, 12, 1, 16, 16)
    assert saved["labels"].tolist() == [0] * 4 + [1] * 4 + [2] * 4
    page = (run / "report.html").read_text()
    assert "Generated images" in page
    assert "attack accuracy" in page
    assert (run / "figures" / "generated.png").is_file()
    assert (run / "figures" / "generated-inversion.png").is_file()


def test_the_attack_leaves_the_classifier_as_it_was(finished: Path) -> None:
    """Weights, statistics of batch norm and mode of the network that an attack is given."""
    net, facts = load_network(finished)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    assert any("running_var" in name for name in before)
    chosen = parse_config(CONFIG, "test", ["attack.steps=3", "attack.generator.weights.statistics=0.3"])
    for own in (chosen.attack, *chosen.baselines.values()):
        attack(net, facts.sample_shape, own, device="cpu")
        assert all(torch.equal(net.state_dict()[name], value) for name, value in before.items())
        assert all(parameter.grad is None for parameter in net.parameters())
        assert not net.training


def test_a_killed_attack_goes_on_with_the_same_bits(
    command: Command, place: Path, finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Checkpoint.__call__

    def save_and_stop(self: Checkpoint, snapshot: Snapshot) -> None:
        own(self, snapshot)
        if snapshot.step == 17:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "__call__", save_and_stop)
        assert command("reproduce", "small.toml", "--out", "cut").code == 130
    assert 0 < int(load_file(place / "cut" / CHECKPOINT)["step"]) <= 17
    assert command("reproduce", "--resume", "cut").code == 0
    for name in ("candidates.safetensors", "baselines/inversion/candidates.safetensors", "generated.safetensors"):
        found, expected = load_file(place / "cut" / name), load_file(finished / name)
        assert all(torch.equal(found[key], value) for key, value in expected.items()), name
    assert numbers(place / "cut") == numbers(finished)


def test_killed_training_goes_on_with_the_same_bits(
    command: Command, place: Path, finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = _SavedWeights.__call__

    def save_and_stop(self: Any, progress: Any) -> None:
        own(self, progress)
        if progress.epoch == 4:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(_SavedWeights, "__call__", save_and_stop)
        assert command("train", "--config", "small.toml", "--out", "cut").code == 130
    assert (place / "cut" / "model" / "training.safetensors").is_file()
    assert command("train", "--resume", "cut").code == 0
    found, expected = (load_file(run / "model" / "weights.safetensors") for run in (place / "cut", finished))
    assert all(torch.equal(found[name], value) for name, value in expected.items())


@pytest.mark.usefixtures("place")
def test_what_was_trained_on_images_as_they_are_is_checked_and_attacked_so(command: Command, finished: Path) -> None:
    found, kept = (json.loads(command("check", finished, *words, "--json").out) for words in ((), ("--keep-mean",)))
    assert found["margins"] == kept["margins"]
    options = ("--data", "train.npz", "--task", "classes", "--n", "12", "--out", "own", "--device", "cpu")
    sizes = ("--set", "attack.candidates=6", "--set", "attack.steps=2")
    assert command("attack", finished, *options, *sizes).code == 0
    assert not read_run_config(Path("own/config.toml")).centred


@pytest.mark.parametrize(("layer", "size"), [(None, 9), ("2", 12)])
def test_a_classifier_of_ones_own(command: Command, place: Path, layer: str | None, size: int) -> None:
    """Its features are found, or named; without batch norm and on data of one's own."""
    settings = ["attack.method=generator", "attack.candidates=6", "attack.steps=3", "attack.generator.batch=6"]
    settings += ["attack.generator.width=4", "match.independent.epochs=1"]
    settings += [] if layer is None else [f'attack.generator.features="{layer}"']
    words = ["attack", "--module", "mynets:make", "--shape", "1,16,16", "--data", "train.npz", "--holdout", "test.npz"]
    words += ["--task", "classes", "--n", "12", "--out", "own", "--device", "cpu", "--json"]
    ended = command(*words, *(word for setting in settings for word in ("--set", setting)))
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["generators"] == 1
    assert not read_run_config(place / "own" / "config.toml").centred


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("attack.generator.features=nowhere", "no submodule called 'nowhere'; choose one of"),
        ("attack.generator.weights.beauty=1", "unknown key 'attack.generator.weights.beauty'"),
        ("attack.generator.conditioning=colour", "attack.generator.conditioning"),
        ("data.n=1000", "n = 1000 samples were asked for, 'train.npz' has 108"),
        ("training.kind=fast", "there is no such kind; choose 'memorise' or 'ordinary'"),
    ],
)
def test_a_mistake_is_one_sentence(command: Command, place: Path, setting: str, said: str) -> None:
    assert said in command("reproduce", "small.toml", "--set", setting).error


def test_statistics_need_batch_norm(command: Command, place: Path) -> None:
    words = ["attack", "--module", "mynets:make", "--shape", "1,16,16", "--set", "attack.method=generator"]
    assert "no batch norm" in command(*words, "--set", "attack.generator.weights.statistics=1").error


def test_without_data_agreement_and_diversity_are_known(command: Command, place: Path) -> None:
    settings = ["attack.method=generator", "attack.candidates=6", "attack.steps=3", "attack.generator.batch=6"]
    words = ["attack", "--module", "mynets:make", "--shape", "1,16,16", "--device", "cpu", "--json"]
    ended = command(*words, *(word for setting in settings for word in ("--set", setting)))
    assert ended.code == 0, ended.err
    summary = json.loads(ended.out)
    assert 0 <= summary["label_agreement"] <= 1
    assert "attack_accuracy" not in summary
    assert "nobody can say" in summary["verdict"]


TLDR = [name for name in preset_names() if name.startswith("tldr")]


@pytest.mark.parametrize("name", TLDR)
def test_a_preset_trains_ordinarily_and_attacks_by_generators(name: str) -> None:
    config = load_preset(name)
    assert config.attack.method == "generator"
    assert config.training.kind == "ordinary"
    assert not config.centred
    if not config.series:
        assert {attack.method for attack in config.baselines.values()} == {"generator", "activation"}
        assert config.baselines["inversion"].generator.mode == "inversion"


def test_the_ablation_removes_every_term_and_every_conditioning() -> None:
    config = load_preset("tldr-ablation")
    whole = set(config.attack.generator.term_weights)
    made = [member.config.attack.generator for member in members(config)]
    removed = set().union(*(whole - set(generator.term_weights) for generator in made if generator.mode != "inversion"))
    assert removed == whole
    assert {generator.conditioning for generator in made} == {"label", "vector", "matrix", "vector_matrix"}


def test_a_small_ablation_has_a_row_for_each_member(command: Command, place: Path) -> None:
    whole, less = '{"attack.generator.mode" = "reconstruction"}', '{"attack.generator.weights.cosine" = 0.0}'
    settings = [
        f"series=[{{lines = {{all = [{whole}], plain = [{less}]}}}}]",
        "attack.steps=3",
        "training.epochs=2",
        "baselines={}",
    ]
    ended = command("reproduce", "small.toml", *(word for setting in settings for word in ("--set", setting)))
    assert ended.code == 0, ended.err
    assert "attack accuracy" in ended.out
    record = json.loads((place / "runs" / "small" / "series.json").read_text())
    assert [member["name"] for member in record["members"]] == ["all", "plain"]
    assert all(0 <= member["attack_accuracy"] <= 1 for member in record["members"])
    assert "member advantage" in (place / "runs" / "small" / "report.html").read_text()


def test_old_configurations_train_as_they_did() -> None:
    config = parse_config("[training]\nlr = 0.1\n", "test")
    assert config.training.kind == "memorise"
    assert config.centred
