"""Networks from disk: the user's own code and weights, and files that are damaged, foreign or hostile."""

from __future__ import annotations

import json
import os
import pickle
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import nn

from recollect.config import Config, DataConfig, SourceConfig
from recollect.core import RecollectError
from recollect.networks import (
    NetworkFacts,
    load_given,
    load_network,
    load_source,
    load_weights,
    read_weights,
    save_network,
)
from recollect.runs import RunFolder
from recollect.zoo import ConvArchitecture, MLPArchitecture, build_network

ARCHITECTURE = MLPArchitecture(hidden=(5, 4))
SHAPE = (1, 2, 3)


@pytest.fixture
def saved(tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path / "run" / "model")
    facts = NetworkFacts(architecture=ARCHITECTURE, sample_shape=SHAPE, training={"loss": 0.5})
    save_network(folder, build_network(ARCHITECTURE, SHAPE, seed=3), facts)
    return folder


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that the user works in, with a module of networks."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "own_networks", raising=False)
    (tmp_path / "own_networks.py").write_text(
        "from torch import nn\n"
        "def make():\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(6, 3), nn.Dropout(0.9), nn.ReLU(), nn.Linear(3, 1))\n"
        "ready = make()\n"
        "def needs(argument): return make()\n"
        "def broken(): raise ValueError('no luck')\n"
        "def number(): return 5\n"
        "def leaving(): raise SystemExit(3)\n"
        "def talkative(): raise ValueError('line\\nafter line')\n"
        "def half(): return make().half()\n"
        "def pairs(): return Pair()\n"
        "def pooled():\n"
        "    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2, 1))\n"
        "class Pair(nn.Linear):\n"
        "    def __init__(self): super().__init__(6, 1)\n"
        "    def forward(self, x): return super().forward(x), x\n"
    )
    return tmp_path


def test_a_saved_network_computes_the_same(saved: RunFolder) -> None:
    x = torch.randn(7, *SHAPE, dtype=torch.float64)
    expected = build_network(ARCHITECTURE, SHAPE, seed=3)(x)
    for path in (saved.path, saved.path.parent):
        net, facts = load_network(path)
        assert torch.equal(net(x), expected)
        assert facts.sample_shape == SHAPE
        assert facts.training == {"loss": 0.5}


def test_a_convolutional_network_computes_the_same(tmp_path: Path) -> None:
    architecture = ConvArchitecture(kernel=2, channels=3, hidden=(4,), outputs=5, first_layer_scale=0.5)
    net = build_network(architecture, SHAPE, seed=3)
    folder = RunFolder(tmp_path / "model")
    save_network(folder, net, NetworkFacts(architecture=architecture, sample_shape=SHAPE, training={}))
    again, facts = load_network(folder.path)
    x = torch.randn(7, *SHAPE, dtype=torch.float64)
    assert facts.architecture == architecture
    assert torch.equal(again(x), net(x))
    assert again(x).shape == (7, 5)


def test_a_description_without_a_kind_is_that_of_a_perceptron(saved: RunFolder) -> None:
    raw = saved.read_json("model.json")
    del raw["architecture"]["kind"]
    saved.write_json("model.json", raw)
    assert load_network(saved.path)[1].architecture == ARCHITECTURE


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"format": 2, "news": 1}, "has model format 2, this version of recollect reads 1; use the version"),
        ({"sampel_shape": [1]}, "unknown key 'sampel_shape'; did you mean 'sample_shape'?"),
        ({"architecture": {"kind": "cnn"}}, "architecture: there is no such kind; choose 'mlp', 'conv', 'group_conv'"),
        ({"architecture": {"kind": "conv", "kernal": 3}}, "key 'architecture.kernal'; did you mean 'kernel'?"),
        ({"architecture": {"kind": "conv", "kernel": 3}}, "model.kernel = 3 is larger than the images of 2 x 3"),
        ({"sample_shape": "wide"}, "sample_shape"),
        ({"sample_shape": [1, -2, 3]}, "sample_shape.1: input should be greater than 0 (got -2)"),
        ({"architecture": {"hidden": [10**6, 10**6]}}, "or one much larger than its 59 weights; bring the file back"),
        ({"sample_shape": [1, 10**9, 10**9]}, "or one much larger than its 59 weights"),
        ({"sample_shape": [10**30]}, "describes a network that cannot be built"),
        ({"sample_shape": [1, 2, 4]}, "do not fit the architecture: 'layers.1.weight' is (5, 6) there and (5, 8)"),
        ({"architecture": {"hidden": [5]}}, "do not fit the architecture"),
    ],
)
def test_a_description_that_does_not_fit_is_explained(saved: RunFolder, change: dict, expected: str) -> None:
    saved.write_json("model.json", saved.read_json("model.json") | change)
    with pytest.raises(RecollectError) as caught:
        load_network(saved.path)
    assert expected in str(caught.value)


def test_half_a_network_is_explained(saved: RunFolder, tmp_path: Path) -> None:
    text = (saved.path / "model.json").read_text()
    (saved.path / "model.json").write_text(text[:40])
    with pytest.raises(RecollectError, match=r"model\.json' cannot be read"):
        load_network(saved.path)
    (saved.path / "model.json").write_text(json.dumps(json.loads(text)))
    saved.remove("weights.safetensors")
    with pytest.raises(RecollectError, match=r"no weights file '.*weights\.safetensors'"):
        load_network(saved.path)
    with pytest.raises(RecollectError, match=r"holds no network \(no model.json\); give a folder"):
        load_network(tmp_path / "nowhere")


class Bomb:
    """Unpickling this creates a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("name", ["weights.pt", "weights.bin", "weights.safetensors"])
@pytest.mark.parametrize("legacy", [False, True])
def test_a_pickle_that_runs_code_is_refused_and_does_not_run(tmp_path: Path, name: str, legacy: bool) -> None:
    path, trace = tmp_path / name, tmp_path / "was_here"
    torch.save({"weight": Bomb(trace)}, path, _use_new_zipfile_serialization=not legacy)
    with pytest.raises(RecollectError, match="could run code, which recollect never does; save a state dict"):
        read_weights(path)
    path.write_bytes(pickle.dumps(Bomb(trace)))
    with pytest.raises(RecollectError, match="could run code"):
        read_weights(path)
    assert not trace.exists()
    pickle.loads(path.read_bytes())
    assert trace.exists(), "the bomb was no bomb"


@pytest.mark.parametrize("save", [torch.save, save_file])
@settings(max_examples=40)
@given(position=st.integers(0, 10**6), noise=st.binary(max_size=3), truncate=st.booleans())
def test_damaged_weights_are_explained(tmp_path_factory, save, position, noise, truncate) -> None:
    path = tmp_path_factory.mktemp("damaged") / ("w.pt" if save is torch.save else "w.safetensors")
    save({"weight": torch.ones(4, 4)}, path)
    content = path.read_bytes()
    place = position % len(content)
    path.write_bytes(content[:place] + noise + (b"" if truncate else content[place + len(noise) :]))
    try:
        state = read_weights(path)
    except RecollectError as error:
        assert "\n" not in str(error)  # noqa: PT017 (not every damage can be noticed)
    else:
        assert all(isinstance(value, torch.Tensor) for value in state.values())


@pytest.mark.parametrize("held", [[torch.ones(2)], {"state_dict": {"w": torch.ones(1)}}, torch.ones(3), {"epoch": 5}])
def test_other_things_in_a_weights_file_are_explained(tmp_path: Path, held: object) -> None:
    torch.save(held, tmp_path / "w.pt")
    with pytest.raises(RecollectError, match=r"not a state dict of tensors; save net\.state_dict\(\)"):
        read_weights(tmp_path / "w.pt")


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ({"weight": torch.ones(1, 3)}, "'bias' is missing there and (1,) in the network"),
        ({"weight": torch.ones(2, 3), "bias": torch.ones(1)}, "'weight' is (2, 3) there and (1, 3) in the network"),
        (
            {"weight": torch.ones(1, 3), "bias": torch.ones(1), "extra": torch.ones(1)},
            "'extra' is (1,) there and unknown",
        ),
        ({}, "'bias' is missing there"),
    ],
)
def test_weights_of_another_network_are_explained(state: dict, expected: str) -> None:
    net = nn.Linear(3, 1)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    with pytest.raises(RecollectError) as caught:
        load_weights(net, state, "w.pt")
    assert expected in str(caught.value)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_weights_keep_their_precision() -> None:
    net = nn.BatchNorm1d(3)
    state = {
        name: value.double() + 1 / 3 if value.is_floating_point() else value for name, value in net.state_dict().items()
    }
    load_weights(net, state, "w.pt")
    assert all(torch.equal(value, state[name]) for name, value in net.state_dict().items())


def test_counts_of_batches_may_be_missing() -> None:
    net = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    state = {name: value + 1 for name, value in net.state_dict().items() if not name.endswith("num_batches_tracked")}
    load_weights(net, state, "w.pt")
    assert all(torch.equal(net.state_dict()[name], value) for name, value in state.items())
    del state["1.running_mean"]
    with pytest.raises(RecollectError, match=r"'1\.running_mean' is missing there"):
        load_weights(net, state, "w.pt")


@pytest.mark.parametrize("save", [torch.save, save_file])
def test_an_own_network_gets_its_weights_and_is_evaluated_without_dropout(code: Path, save) -> None:
    sys.path.insert(0, str(code))
    original = nn.Sequential(nn.Flatten(), nn.Linear(6, 3), nn.Identity(), nn.ReLU(), nn.Linear(3, 1)).double()
    path = code / ("w.pt" if save is torch.save else "w.safetensors")
    save(original.state_dict(), path)
    net, shape = load_source(SourceConfig(module="own_networks:make", weights=str(path), sample_shape=SHAPE))
    x = torch.randn(7, *SHAPE, dtype=torch.float64)
    assert shape == SHAPE
    assert torch.equal(net(x), original(x))


def test_a_network_that_exists_already_is_taken_as_it_is(code: Path) -> None:
    net, _ = load_source(SourceConfig(module="own_networks:ready", sample_shape=SHAPE))
    assert net is sys.modules["own_networks"].ready
    assert sys.path[0] == str(code)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("own_networks", "'own_networks' does not name a network; write package.module:callable"),
        ("own_networks:", "does not name a network"),
        (":make", "cannot be made"),
        ("no_such_module_here:make", "ModuleNotFoundError: No module named 'no_such_module_here'"),
        ("own_networks:absent", "gave NoneType, not a torch.nn.Module"),
        ("own_networks:needs", "callable without arguments"),
        ("own_networks:broken", "ValueError: no luck"),
        ("own_networks:number", "gave int, not a torch.nn.Module; name a callable that returns the network"),
        ("own_broken:make", "SyntaxError"),
    ],
)
def test_a_network_that_cannot_be_made_is_explained(code: Path, spec: str, expected: str) -> None:
    (code / "own_broken.py").write_text("def make(:\n")
    with pytest.raises(RecollectError) as caught:
        load_source(SourceConfig(module=spec, sample_shape=SHAPE))
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (SourceConfig(), "an existing network is given by a folder, or by module, weights and sample_shape"),
        (SourceConfig(sample_shape=SHAPE), "or by a torch.export program (--weights model.pt2)"),
        (SourceConfig(weights="w.pt"), "an existing network is given by"),
        (SourceConfig(folder="run", module="own_networks:make"), "two networks were named"),
        (SourceConfig(folder="run", sample_shape=SHAPE), "two networks were named"),
        (SourceConfig(module="own_networks:make", weights="w.pt", sample_shape=SHAPE), "no weights file 'w.pt'"),
    ],
)
def test_half_a_source_is_explained(code: Path, source: SourceConfig, expected: str) -> None:
    with pytest.raises(RecollectError) as caught:
        load_source(source)
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("own_networks:leaving", "cannot be made (SystemExit: 3)"),
        ("own_networks:talkative", "cannot be made (ValueError: line after line)"),
        ("own_networks:pairs", "returns a tuple of 2 instead of one tensor; wrap it"),
    ],
)
def test_code_that_leaves_talks_or_returns_too_much_is_one_sentence(code: Path, spec: str, said: str) -> None:
    with pytest.raises(RecollectError) as caught:
        load_source(SourceConfig(module=spec))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_shape_and_precision_are_found_out(code: Path) -> None:
    net, shape = load_source(SourceConfig(module="own_networks:half"))
    assert shape == (6,)
    assert {parameter.dtype for parameter in net.parameters()} == {torch.float32}
    assert not net.training
    with pytest.raises(RecollectError, match=r"cannot be evaluated and differentiated on inputs of shape \[7\]"):
        load_source(SourceConfig(module="own_networks:half", sample_shape=(7,)))


def test_the_shape_comes_from_the_data_unless_it_is_declared(code: Path) -> None:
    pooled = SourceConfig(module="own_networks:pooled")
    with pytest.raises(RecollectError, match="does not tell the size of an input"):
        load_given(Config(source=pooled))
    sample = DataConfig(name="sample", task="odd_even", n=20)
    assert load_given(Config(source=pooled, data=sample))[1] == (1, 28, 28)
    declared = pooled.model_copy(update={"sample_shape": (1, 9, 9)})
    assert load_given(Config(source=declared, data=sample))[1] == (1, 9, 9)
