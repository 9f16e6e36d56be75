"""Two processes that share the candidates of every trial end where one process ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

SCRIPT = """
import os
import sys
import torch
import torch.distributed as dist
from safetensors.torch import save_file
from torch import nn
import recollect as rc

torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(0)
kind = {"mlp": nn.Sequential, "module": type("Own", (nn.Sequential,), {})}[sys.argv[2]]
net = kind(nn.Flatten(), nn.Linear(12, 9), nn.ReLU(), nn.Linear(9, 5), nn.ReLU(), nn.Linear(5, 1)).double()
good = rc.TrialSettings(lr_x=0.05, lr_duals=0.02, init_scale=0.5, smoothing=20)
hopeless = rc.TrialSettings(lr_x=1e150, lr_duals=1e150)
chunk = int(sys.argv[3]) or None
config = rc.AttackConfig(candidates=7, steps=30, precision="fp64", trials=[good, hopeless], chunk=chunk)
found = rc.attack(net, (3, 2, 2), config, device="cpu")
if dist.get_rank() == 0:
    terms = {f"term.{name}": value for name, value in found.terms.items()}
    rest = {"labels": found.labels, "diverged": found.diverged.byte()}
    save_file({"x": found.candidates, "duals": found.duals, **rest, **terms}, sys.argv[1])
dist.barrier()
dist.destroy_process_group()
# A thread that outlives the group may abort the interpreter's exit.
threads = [open(f"/proc/self/task/{number}/comm").read().strip() for number in os.listdir("/proc/self/task")]
assert not [name for name in threads if "gloo" in name], threads
"""


def run(tmp_path: Path, processes: int, kind: str, chunk: int) -> dict[str, torch.Tensor]:
    script, out = tmp_path / "share.py", tmp_path / f"{kind}-{processes}-{chunk}.safetensors"
    script.write_text(SCRIPT)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    ended = subprocess.run(
        [*launch, str(script), str(out), kind, str(chunk)], env=environment, capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == 0, ended.stderr
    return load_file(out)


@pytest.mark.parametrize(("kind", "chunk"), [("mlp", 0), ("module", 2)])
def test_two_processes_give_the_result_of_one(tmp_path: Path, kind: str, chunk: int) -> None:
    one, two = run(tmp_path, 1, kind, chunk), run(tmp_path, 2, kind, chunk)
    assert one["x"].shape == (2, 7, 3, 2, 2)
    assert one["diverged"].tolist() == [0, 1]
    for name, value in one.items():
        assert torch.allclose(two[name][:1].double(), value[:1].double(), rtol=1e-8, atol=1e-11), name
    assert torch.equal(one["labels"], two["labels"])
    assert torch.equal(one["diverged"], two["diverged"])


def test_the_command_line_under_torchrun_gives_what_it_gives_alone(tmp_path: Path) -> None:
    small = ["--set", "training.epochs=300", "--set", "attack.steps=30", "--set", "attack.candidates=11"]
    small += ["--set", "model.hidden=[20]", "--precision", "fp64", "--device", "cpu", "--json"]
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "recollect"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    found = {}
    for name, program in {"alone": [sys.executable, "-m", "recollect"], "together": launch}.items():
        out = tmp_path / name
        ended = subprocess.run(
            [*program, "demo", "--out", str(out), *small], env=environment, capture_output=True, text=True, timeout=120
        )
        assert ended.returncode == 0, ended.stderr
        assert json.loads(ended.stdout)["candidates"] == 11
        found[name] = load_file(out / "candidates.safetensors")
    for name, value in found["alone"].items():
        assert torch.allclose(found["together"][name].double(), value.double(), rtol=1e-5, atol=1e-7), name


def test_a_mistake_under_torchrun_is_one_sentence(tmp_path: Path) -> None:
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "recollect"]
    ended = subprocess.run(
        [*launch, "reproduce", "haim-cifar", "--out", str(tmp_path / "no")], capture_output=True, text=True, timeout=120
    )
    assert ended.returncode != 0
    assert ended.stderr.count("there is no preset 'haim-cifar'") == 1
