"""torch.export programs: the graph is walked as PyTorch runs it, and what could run code is never opened."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.fuzz.seeds import CORPUS
from torch import Tensor, nn

from recollect.config import SourceConfig
from recollect.core import RecollectError
from recollect.loading.exported import read_exported
from recollect.networks import load_source
from recollect.targets import ModuleTarget


class Convolutional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.drop, self.last = (
            nn.Conv2d(1, 2, 3),
            nn.BatchNorm2d(2),
            nn.Dropout(),
            nn.Linear(8, 3),
        )
        self.register_buffer("scale", torch.rand(3))

    def forward(self, x: Tensor) -> Tensor:
        features = self.drop(torch.relu(self.norm(self.conv(x))).view(x.shape[0], -1))
        return self.last(features) * self.scale + torch.tensor([1.0, 2.0, 3.0])


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.relu_(self.first(x)))


class Several(nn.Module):
    """Operations with several results, in-place ones, and leaky ReLU."""

    def __init__(self) -> None:
        super().__init__()
        self.graph = nn.Linear(4, 6)

    def forward(self, x: Tensor) -> Tensor:
        one, two = nn.functional.leaky_relu(self.graph(x), 0.2).chunk(2, dim=1)
        largest, _ = torch.max(one, dim=1, keepdim=True)
        return torch.cat([one * largest, (1 * two).clamp_(min=0).softmax(1)], dim=1)


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "convolution": (Convolutional, (1, 4, 4)),
    "tied": (Tied, (4,)),
    "several": (Several, (4,)),
}


def exported(net: nn.Module, shape: tuple[int, ...], path: Path, rows: int | None) -> Path:
    dynamic = ({0: torch.export.Dim("rows", min=1)},) if rows is None else None
    torch.export.save(torch.export.export(net, (torch.randn(rows or 2, *shape),), dynamic_shapes=dynamic), path)
    return path


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("rows", [1, None])
@pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr:UserWarning")
def test_a_program_computes_and_differentiates_like_its_network(name: str, rows: int | None, tmp_path: Path) -> None:
    torch.manual_seed(0)
    make, shape = NETWORKS[name]
    net = make().eval()
    found = read_exported(exported(net, shape, tmp_path / "n.pt2", rows))
    x = torch.randn(5, *shape)
    torch.testing.assert_close(found(x), net(x))
    assert [name for name, _ in found.named_parameters()] == [name for name, _ in net.named_parameters()]
    x, smoothing = torch.randn(3, 5, *shape, dtype=torch.float64), torch.tensor([2.0, 9.0, 40.0], dtype=torch.float64)
    pulled = []
    for network in (net, found):
        outputs, pullback = ModuleTarget(network, shape, dtype=torch.float64).linearise(x, smoothing)
        combined = pullback(torch.ones_like(outputs)).combined
        pulled.append(combined)
    for name, expected in pulled[0].items():
        torch.testing.assert_close(pulled[1][name], expected, rtol=1e-9, atol=1e-11)


def test_a_program_exported_while_training_is_evaluated(tmp_path: Path) -> None:
    net = Convolutional().train()
    found = read_exported(exported(net, (1, 4, 4), tmp_path / "n.pt2", None))
    x = torch.randn(6, 1, 4, 4)
    torch.testing.assert_close(found(x), net.eval()(x))


def test_a_source_needs_nothing_but_the_program() -> None:
    net, shape = load_source(SourceConfig(weights=str(CORPUS / "convolution.pt2")))
    assert shape == (1, 3, 3)
    assert net(torch.zeros(4, 1, 3, 3)).shape == (4, 3)
    assert not net.training


def changed(path: Path, member: str, change: Callable[[dict], None], source: str = "network") -> Path:
    with zipfile.ZipFile(CORPUS / f"{source}.pt2") as before, zipfile.ZipFile(path, "w") as after:
        for info in before.infolist():
            content = before.read(info)
            if info.filename.endswith(member):
                held = json.loads(content)
                change(held)
                content = json.dumps(held).encode()
            after.writestr(info.filename, content)
    return path


def refusal(path: Path) -> str:
    with pytest.raises(RecollectError) as caught:
        read_exported(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def _graph(held: dict) -> dict:
    return held["graph_module"]["graph"]


def _sizes(held: dict) -> list:
    return _graph(held)["tensor_values"]["input"]["sizes"]


def _signature(held: dict) -> dict:
    return held["graph_module"]["signature"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda held: _graph(held)["nodes"][0].update(target="torch.ops.aten.from_file.default"), "from_file"),
        (lambda held: _graph(held)["nodes"][0].update(target="os.system"), "not among the operations"),
        (lambda held: _graph(held)["nodes"][0].update(target="torch.hub.load"), "not among the operations"),
        (
            lambda held: _sizes(held).__setitem__(0, {"as_int": 8}),
            "exactly 8 inputs",
        ),
        (lambda held: _sizes(held).__setitem__(1, {"as_int": 10**9}), "more than"),
        (
            lambda held: _signature(held)["output_specs"].append({"user_output": {"arg": {}}}),
            "2 outputs",
        ),
        (
            lambda held: _signature(held)["input_specs"][0].update(
                parameter={"arg": {"name": "p_1_weight"}, "parameter_name": "../1"}
            ),
            "damaged",
        ),
    ],
)
def test_what_a_program_must_not_ask_for(tmp_path: Path, change: Callable[[dict], None], said: str) -> None:
    assert said in refusal(changed(tmp_path / "n.pt2", "models/model.json", change))


def test_numbers_beyond_the_file_and_pickles_are_refused(tmp_path: Path) -> None:
    def larger(held: dict) -> None:
        next(iter(held["config"].values()))["tensor_meta"]["sizes"] = [{"as_int": 10**6}, {"as_int": 10**6}]

    def pickled(held: dict) -> None:
        next(iter(held["config"].values()))["use_pickle"] = True

    assert "claims" in refusal(changed(tmp_path / "n.pt2", "weights_config.json", larger))
    assert "could run code" in refusal(changed(tmp_path / "n.pt2", "weights_config.json", pickled))
    (tmp_path / "n.pt2").write_text("no archive")
    assert "no whole zip archive" in refusal(tmp_path / "n.pt2")


def test_a_program_that_asks_for_too_much_stops_before_memory_does(tmp_path: Path) -> None:
    """Each step is small enough by itself; all together are not."""

    def long(held: dict) -> None:
        nodes = _graph(held)["nodes"]
        pad = [{"as_int": 0}, {"as_int": 10**8}]
        for index in range(4):
            nodes.append(
                {
                    "target": "torch.ops.aten.constant_pad_nd.default",
                    "inputs": [
                        {"name": "self", "arg": {"as_tensor": {"name": "relu"}}, "kind": 1},
                        {"name": "pad", "arg": {"as_sym_ints": pad}, "kind": 1},
                    ],
                    "outputs": [{"as_tensor": {"name": f"more{index}"}}],
                }
            )

    assert "268,435,456 values of one input" in refusal(changed(tmp_path / "n.pt2", "models/model.json", long))


def test_what_pytorch_would_run_is_not_even_read(tmp_path: Path) -> None:
    """Guards and symbolic expressions are code to PyTorch's loader; here they are text that nobody looks at."""

    def poisoned(held: dict) -> None:
        held["guards_code"] = ["__import__('os').mkdir('canary')"]
        for value in _graph(held)["tensor_values"].values():
            for size in value["sizes"]:
                if "as_expr" in size:
                    size["as_expr"]["expr_str"] = "__import__('os').mkdir('canary')"

    found = read_exported(changed(tmp_path / "n.pt2", "models/model.json", poisoned, "convolution"))
    assert found(torch.zeros(2, 1, 3, 3)).shape == (2, 3)
    assert not Path("canary").exists()
