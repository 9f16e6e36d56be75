"""``recollect audit`` on networks defined in a file outside the package: verdicts, exit codes, files, kills."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

Command = Callable[..., Any]
KEYS = {
    *("verdict", "leak", "false_positive_rate", "recovered", "reference_count", "at_least", "confidence", "null_count"),
    *("null_recovered", "attacks", "affected", "roc", "measured", "declared", "interpretation", "not_excluded"),
    *("assumptions", "environment"),
}
NETS = """
from torch import nn
from torch.nn import functional


class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(64, 64)
        self.last = nn.Linear(64, 1, bias=False)

    def forward(self, x):
        return self.last(functional.relu(self.first(x.flatten(1))))


class Pictures(nn.Module):
    def __init__(self):
        super().__init__()
        self.filters = nn.Conv2d(1, 6, 3)
        self.norm = nn.BatchNorm2d(6)
        self.head = nn.Linear(6 * 36, 3)

    def forward(self, x):
        return self.head(functional.relu(self.norm(self.filters(x))).flatten(1))


def make_pictures():
    return Pictures()
"""


class _Perceptron(nn.Sequential):
    """The same function as `Perceptron` above, with names to match."""

    def __init__(self) -> None:
        super().__init__()
        self.add_module("flat", nn.Flatten())
        self.add_module("first", nn.Linear(64, 64))
        self.add_module("relu", nn.ReLU())
        self.add_module("last", nn.Linear(64, 1, bias=False))


def noise(count: int, seed: int) -> Tensor:
    return torch.rand(count, 1, 8, 8, generator=torch.Generator().manual_seed(seed))


def write_data(path: Path, images: Tensor, classes: int) -> None:
    np.savez(path, images=images.numpy(), labels=np.arange(len(images)) % classes)


@pytest.fixture(scope="session")
def _leaky(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A perceptron that has learned eight images of noise by heart, as they are, from a small first layer."""
    folder = tmp_path_factory.mktemp("leaky")
    images = noise(8, seed=1)
    labels = torch.where(torch.arange(8) % 2 == 1, 1.0, -1.0)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = _Perceptron()
    with torch.no_grad():
        net.first.weight.mul_(1e-3)
        net.first.bias.mul_(1e-3)
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(8000):
        optimiser.zero_grad()
        functional.softplus(-labels * net(images)[:, 0]).mean().backward()
        optimiser.step()
    save_file(net.state_dict(), folder / "perceptron.safetensors")
    return folder


@pytest.fixture
def _any_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small search and one round of it, however busy the machine is; the clock has tests of its own."""
    monkeypatch.setattr("recollect.audit.preparing.seconds_per_step", lambda *_: 1.0)
    monkeypatch.setattr("recollect.audit.searching.kept_free", lambda _: 1e9)


@pytest.fixture
def leaky(_leaky: Path, tmp_path: Path, _any_machine: None) -> list[str]:
    """Options that name the perceptron; its data are written into the current folder."""
    (tmp_path / "nets.py").write_text(NETS)
    write_data(tmp_path / "train.npz", noise(8, seed=1), 2)
    write_data(tmp_path / "other.npz", noise(8, seed=3), 2)
    write_data(tmp_path / "test.npz", noise(400, seed=2), 2)
    sys.modules.pop("nets", None)
    weights = str(_leaky / "perceptron.safetensors")
    return ["--model", "nets:Perceptron", "--weights", weights, "--device", "cpu", "--budget", "10m"]


def test_a_perceptron_that_leaks(command: Command, leaky: list[str], tmp_path: Path) -> None:
    files = ("--junit", "out/junit.xml", "--sarif", "out/audit.sarif")
    ended = command("audit", *leaky, "--data", "train.npz", "--holdout", "test.npz", "--json", "--out", "run", *files)
    assert ended.code == 3, ended.err
    found = json.loads(ended.out)
    assert found == json.loads((tmp_path / "run" / "audit.json").read_text())
    assert set(found) == KEYS
    assert found["leak"] is True
    assert found["recovered"] == len(found["affected"]) >= 2
    assert found["null_recovered"] <= 0.01 * found["null_count"] == 4
    assert found["reference_count"] == 8
    assert any("as they are in the file" in sentence for sentence in found["declared"])
    assert [attack["name"] for attack in found["attacks"]] == ["kkt", "activation", "weights"]
    p_values = [row["p_value"] for row in found["affected"]]
    assert p_values == sorted(p_values)
    assert max(p_values) <= 0.01
    assert_junit(tmp_path / "out" / "junit.xml", found)
    assert_sarif(tmp_path / "out" / "audit.sarif", found)
    assert 'data-plot="search"' in (tmp_path / "run" / "report.html").read_text(), "the curves of its sweep"
    matches = json.loads((tmp_path / "run" / "matches.json").read_text())
    assert sum(row["recovered"] for row in matches["samples"]) == found["attacks"][0]["recovered"]
    assert len(matches["null"]["ncc"]) == 400
    assert command("report", "run").code == 0
    assert "holds an audit, which was judged by rules of its own" in command("match", "run").error
    tolerated = command("audit", "--resume", "run", "--json")
    assert tolerated.code == 3
    assert json.loads(tolerated.out) == found


def assert_junit(path: Path, found: dict[str, Any]) -> None:
    suite = ElementTree.parse(path).getroot()
    cases = {case.get("name"): case for case in suite}
    assert list(cases) == ["verdict", "kkt", "activation", "weights"]
    assert (suite.get("tests"), suite.get("failures")) == ("4", "1")
    failure = cases["verdict"].find("failure")
    assert failure is not None
    assert failure.get("message") == found["verdict"]
    assert all(case.find("failure") is None for name, case in cases.items() if name != "verdict")


def assert_sarif(path: Path, found: dict[str, Any]) -> None:
    log = json.loads(path.read_text())
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "recollect"
    assert len(run["results"]) == found["recovered"]
    for result in run["results"]:
        assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] == "error"
        assert result["message"]["text"]
        assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].endswith("perceptron.safetensors")


def test_samples_that_were_not_trained_on_are_no_leak(command: Command, leaky: list[str]) -> None:
    options = ("--data", "other.npz", "--holdout", "test.npz", "--keep-mean", "--fail-above", "0")
    ended = command("audit", *leaky, *options, "--out", "run")
    assert ended.code == 0, ended.err
    assert "Nothing found within this budget" in ended.out
    assert "does not mean that nothing can be found" in ended.out
    for heading in ("Measured:", "Declared:", "Interpretation:", "Not excluded:"):
        assert heading in ended.out
    assert "Plan, within 10 min 0 s: reconstruction" in ended.err


def test_what_is_tolerated_does_not_fail(command: Command, leaky: list[str]) -> None:
    options = ("--data", "train.npz", "--holdout", "test.npz", "--fail-above", "8", "--json")
    ended = command("audit", *leaky, *options, "--out", "run")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["leak"] is True


def test_without_data_nothing_is_verified(command: Command, leaky: list[str], tmp_path: Path) -> None:
    ended = command("audit", *leaky, "--shape", "1,8,8", "--out", "run", "--json")
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    assert set(found) == KEYS
    assert found["verdict"].startswith("Nothing has been verified")
    assert found["leak"] is None
    assert found["recovered"] is None
    ranked = load_file(tmp_path / "run" / "distilled.safetensors")
    assert 0 < len(ranked["candidates"]) < 1000
    assert (ranked["duals"] > 0.2).all()
    assert "Inputs: 1x8x8 (declared)." in found["measured"]
    inferred = command("audit", *leaky, "--dry-run", "--json")
    assert "Inputs: 64 (from the first layer)." in json.loads(inferred.out)["network"]
    assert (tmp_path / "run" / "report.html").exists()


def test_a_convolution_with_batch_norm_and_three_classes(command: Command, tmp_path: Path, leaky: list[str]) -> None:
    write_data(tmp_path / "train.npz", noise(12, seed=1), 3)
    write_data(tmp_path / "test.npz", noise(40, seed=2), 3)
    options = ("--data", "train.npz", "--holdout", "test.npz", "--budget", "6m", "--json", "--device", "cpu")
    ended = command("audit", "--model", "nets:make_pictures", *options)
    assert ended.code in (0, 3), ended.err
    found = json.loads(ended.out)
    assert found["reference_count"] == 12
    assert any("40 held-out samples are too few for the rate 0.01" in sentence for sentence in found["interpretation"])
    assert found["false_positive_rate"] == pytest.approx(len(found["attacks"]) / 41)
    assert any("weight visualisation did not run" in sentence for sentence in found["not_excluded"])
    assert (tmp_path / "runs" / "audit" / "audit.json").exists()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--budget", "soon"], "--budget needs a time such as 90s, 10m or 2h, got 'soon'"),
        (["--budget", "0s"], "--budget needs a time such as 90s"),
        (["--data", "train.npz"], "name some with --holdout, or leave --data out"),
        (["--data", "train.npz", "--holdout", "test.npz", "--false-positive-rate", "2"], "give a number between 0 and"),
        (["--data", "test.npz", "--holdout", "test.npz", "--budget", "10ms"], "--budget needs a time"),
        (["--holdout", "test.npz"], "--holdout says more about --data, which is not there"),
        (["--resume", "absent"], "cannot change it; leave it out"),
        (["--precision", "fp8"], "attack.precision: input should be 'fp16', 'tf32', 'fp32' or 'fp64' (got 'fp8')"),
        (["--junit", "."], "'.' cannot be written; name a file in a folder that can"),
        (["--sarif", "train.npz/audit.sarif"], "'train.npz/audit.sarif' cannot be written"),
    ],
)
def test_a_mistake_is_one_sentence(command: Command, leaky: list[str], words: list[str], expected: str) -> None:
    assert expected in command("audit", *leaky, *words, "--json").error


def test_a_folder_that_holds_no_audit(command: Command, finished: Path) -> None:
    assert "is no run folder" in command("audit", "--resume", "absent").error
    assert "holds no audit that was begun" in command("audit", "--resume", finished).error
    assert "an existing network is given by" in command("audit").error


def test_what_a_network_prints_is_not_in_the_json(command: Command, leaky: list[str], tmp_path: Path) -> None:
    loud = "print('imported')\nimport nets\n\n\nclass Loud(nets.Perceptron):\n    def forward(self, x):\n"
    (tmp_path / "loud.py").write_text(f"{loud}        print('called')\n        return super().forward(x)\n")
    assert leaky[:2] == ["--model", "nets:Perceptron"]
    shown = command("audit", "--model", "loud:Loud", *leaky[2:], "--shape", "1,8,8", "--dry-run", "--json")
    assert json.loads(shown.out)["network"]
    assert "called" in shown.err


def test_a_plan_without_a_run(command: Command, leaky: list[str], tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    shown = command("audit", *leaky, "--data", "train.npz", "--holdout", "test.npz", "--dry-run", "--json")
    assert shown.code == 0, shown.err
    plan = json.loads(shown.out)
    assert plan["seen"] == "raw"
    assert plan["config"]["attack"]["box"] == [0.0, 1.0]
    assert plan["config"]["data"]["centred"] is False
    assert set(plan["skipped"]) == {"generator"}
    assert [path for path in sorted(tmp_path.iterdir()) if path.name != "__pycache__"] == before


def test_killed_and_gone_on_with(command: Command, leaky: list[str], tmp_path: Path) -> None:
    run = tmp_path / "run"
    options = ("--data", "train.npz", "--holdout", "test.npz", "--json", "--out", str(run))
    running = subprocess.Popen(
        [sys.executable, "-m", "recollect", "audit", *leaky[:-1], "30s", *options],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 120
    while not list(run.glob("trials/0-*.safetensors")):
        assert running.poll() is None, "the audit ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.005)
    running.send_signal(signal.SIGKILL)
    assert running.wait() == -signal.SIGKILL
    piece = next(run.glob("trials/0-*.safetensors"))
    before = piece.read_bytes()
    spent = json.loads((run / "audit_time.json").read_text())["seconds"]
    assert spent > 0
    ended = command("audit", "--resume", run, "--json")
    assert ended.code == 3, ended.err
    found = json.loads(ended.out)
    assert found["environment"]["seconds"] > spent
    assert piece.read_bytes() == before
    assert all(state == "done" for state in json.loads((run / "status.json").read_text())["stages"].values())
