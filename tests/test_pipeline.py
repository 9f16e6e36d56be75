"""Whole runs, small: the summary, the same bits twice, trials that diverge, own networks, damaged folders."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from recollect.data import heldout_set, load, training_set

Command = Callable[..., Any]

SEARCHED = {
    "command", "version", "device", "dtype", "seed", "trials", "diverged_trials", "candidates", "steps", "seconds",
    "ms_per_step_per_trial",
}  # fmt: skip
MATCHED = {
    "reference_count", "recovered", "recovered_rule", "null_count", "null_recovered", "good_ssim04", "top10_ssim",
    "ncc80", "ncc90", "mean_dssim", "ssim_window", "scaling",
}  # fmt: skip
GOOD = "{lr_x = 0.6, lr_duals = 0.01, init_scale = 0.01}"
OTHER = "{lr_x = 0.1, lr_duals = 0.02, init_scale = 0.02}"
HOPELESS = "{lr_x = 1e30, lr_duals = 1e30, init_scale = 0.01}"


def summary(run: Path) -> dict[str, Any]:
    return json.loads((run / "summary.json").read_text())


def candidates(run: Path) -> Tensor:
    return load_file(run / "candidates.safetensors")["candidates"]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_summary_says_what_was_run_and_what_was_found(finished: Path) -> None:
    facts = summary(finished)
    assert facts.keys() >= SEARCHED | MATCHED
    assert all(facts[key] is not None for key in SEARCHED | MATCHED)
    assert facts["command"].startswith("recollect demo --json --out ")
    assert (facts["device"], facts["dtype"], facts["seed"]) == ("cpu", "fp32", 0)
    assert (facts["trials"], facts["diverged_trials"], facts["candidates"], facts["steps"]) == (1, 0, 8, 60)
    assert (facts["reference_count"], facts["null_count"]) == (4, 20)
    assert facts["ms_per_step_per_trial"] == pytest.approx(1000 * facts["seconds"] / 60)
    stages = json.loads((finished / "status.json").read_text())["stages"]
    assert stages == dict.fromkeys(("train", "attack", "baselines", "match", "report"), "done")
    assert (finished / "report.html").stat().st_size > 1000
    assert not list(finished.rglob("*.part"))
    assert not list(finished.rglob("checkpoint*"))
    assert not list(finished.rglob("training.safetensors"))


def test_the_same_seed_gives_the_same_bits_and_another_one_others(
    command: Command, tiny: list[str], finished: Path, tmp_path: Path
) -> None:
    assert command("demo", "--json", "--out", "again", *tiny).code == 0
    for name in ("candidates.safetensors", "model/weights.safetensors", "matches.json", "config.toml"):
        assert (tmp_path / "again" / name).read_bytes() == (finished / name).read_bytes(), name
    # The same network, so that candidates differ by the seed of the search alone.
    assert (
        command("attack", finished, "--config", finished / "config.toml", "--out", "other", "--set", "seed=1").code == 0
    )
    assert candidates(tmp_path / "other").shape == candidates(finished).shape
    assert not torch.equal(candidates(tmp_path / "other"), candidates(finished))


def test_a_run_gone_on_with_after_its_end_changes_nothing(command: Command, finished: Path) -> None:
    before = contents(finished)
    again = command("demo", "--resume", finished, "--json")
    assert json.loads(again.out) == summary(finished)
    assert contents(finished) == before


def test_a_diverging_trial_harms_nobody(command: Command, finished: Path, tmp_path: Path) -> None:
    def attack(out: str, trials: str) -> Path:
        ended = command(
            "attack", finished, "--out", out, "--json", "--data", "sample", "--task", "odd_even", "--n", "4",
            "--set", f"attack.trials={trials}", "--set", "attack.steps=40", "--set", "attack.candidates=6",
            "--set", "data.holdout_count=20",
        )  # fmt: skip
        assert ended.code == 0, ended.err
        return tmp_path / out

    mixed = attack("mixed", f"[{GOOD}, {HOPELESS}]")
    healthy = attack("healthy", f"[{GOOD}, {OTHER}]")
    alone = attack("alone", f"[{GOOD}]")
    facts = summary(mixed)
    assert (facts["trials"], facts["diverged_trials"]) == (2, 1)
    assert summary(healthy)["diverged_trials"] == 0
    assert load_file(mixed / "candidates.safetensors")["diverged"].tolist() == [0, 1]
    assert candidates(mixed).isfinite().all()
    assert torch.equal(candidates(mixed)[0], candidates(healthy)[0])
    torch.testing.assert_close(candidates(mixed)[0], candidates(alone)[0], rtol=1e-4, atol=1e-5)
    assert facts["ncc80"] is not None
    assert json.loads((mixed / "trace.jsonl").read_text().splitlines()[-1])["alive"] == 1


def test_a_run_where_everything_diverges_still_ends(command: Command, finished: Path, tmp_path: Path) -> None:
    ended = command(
        "attack", finished, "--out", "hopeless", "--json", "--set", f"attack.trials=[{HOPELESS}]",
        "--set", "attack.steps=20", "--set", "attack.candidates=6",
    )  # fmt: skip
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["diverged_trials"] == 1
    assert candidates(tmp_path / "hopeless").isfinite().all()


@pytest.fixture
def own(tmp_path: Path) -> dict[str, str]:
    """A network, weights and data as a user has them; the network is no plain chain and returns one number."""
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "package" / "nets.py").write_text(
        "from torch import nn\n"
        "class Net(nn.Module):\n"
        "    def __init__(self, outputs=1):\n"
        "        super().__init__()\n"
        "        self.first = nn.Conv2d(1, 3, 5, stride=4)\n"
        "        self.last = nn.Linear(3 * 36, outputs)\n"
        "    def forward(self, x):\n"
        "        y = self.last(nn.functional.relu(self.first(x)).flatten(1))\n"
        "        return y[:, 0] if y.shape[1] == 1 else y\n"
        "def make(): return Net()\n"
        "def make_wide(): return Net(outputs=3)\n"
    )
    torch.manual_seed(0)
    shapes = {"first.weight": (3, 1, 5, 5), "first.bias": (3,), "last.weight": (1, 108), "last.bias": (1,)}
    save_file({name: 0.1 * torch.randn(*shape) for name, shape in shapes.items()}, tmp_path / "w.safetensors")
    for file, split in (("own.npz", "train"), ("other.npz", "test")):
        source = load("sample", split)
        chosen = (
            training_set(source, "odd_even", 6)
            if split == "train"
            else heldout_set(source, "odd_even", 20, torch.zeros(1, 28, 28))
        )
        np.savez(tmp_path / file, images=chosen.images.numpy(), labels=chosen.y.numpy())
    return {"--module": "package.nets:make", "--weights": "w.safetensors", "--shape": "1,28,28"}


FEW = ("--set", "attack.steps=8", "--set", "attack.candidates=4", "--set", "attack.trials.0.lr_x=0.01")


def words(options: dict[str, str]) -> list[str]:
    return [word for pair in options.items() for word in pair]


def test_an_own_network_is_attacked_judged_and_judged_again(
    command: Command, own: dict[str, str], tmp_path: Path
) -> None:
    bare = command("attack", *words(own), *FEW, "--out", "bare", "--json")
    assert bare.code == 0, bare.err
    assert "reference_count" not in json.loads(bare.out)
    assert "nothing about them has been verified" in json.loads(bare.out)["verdict"]

    judged = command(
        "attack", *words(own), *FEW, "--data", "own.npz", "--holdout", "other.npz", "--out", "full", "--json"
    )
    assert judged.code == 0, judged.err
    facts = json.loads(judged.out)
    assert (facts["reference_count"], facts["null_count"], facts["candidates"]) == (6, 18, 4), "whole groups of 6"
    assert torch.equal(candidates(tmp_path / "full"), candidates(tmp_path / "bare")), "data must not reach the search"

    again = command("match", "bare", "--data", "own.npz", "--holdout", "other.npz", "--json")
    assert again.code == 0, again.err
    assert {key: json.loads(again.out)[key] for key in MATCHED} == {key: facts[key] for key in MATCHED}

    without = json.loads(command("match", "full", "--data", "own.npz", "--n", "4", "--json").out)
    assert (without["reference_count"], without["null_count"], without["recovered"]) == (4, 0, None)
    assert command("report", "full").out.strip() == str(Path("full") / "report.html")


def test_outputs_in_the_matches_are_those_of_the_network(command: Command, own: dict[str, str], tmp_path: Path) -> None:
    command("attack", *words(own), *FEW, "--data", "own.npz", "--out", "full", "--json")
    state = load_file(tmp_path / "w.safetensors")
    x = torch.from_numpy(np.load(tmp_path / "own.npz")["images"])
    x = x - x.mean(dim=0)
    hidden = nn.functional.conv2d(x, state["first.weight"], state["first.bias"], stride=4).relu().flatten(1)
    expected = (hidden @ state["last.weight"].T + state["last.bias"])[:, 0]
    rows = json.loads((tmp_path / "full" / "matches.json").read_text())["samples"]
    torch.testing.assert_close(torch.tensor([row["output"] for row in rows]), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"--shape": "1,28,29"}, "cannot be evaluated and differentiated on inputs of shape [1, 28, 29]"),
        ({"--shape": "28"}, "cannot be evaluated and differentiated on inputs of shape [28]"),
        ({"--shape": "1,28,wide"}, "--shape needs whole numbers such as 1,28,28, got '1,28,wide'"),
        ({"--shape": "0,28,28"}, "--shape needs whole numbers"),
        ({"--weights": "nan.safetensors"}, "the weights in 'first.weight' are not finite"),
        ({"--weights": "absent.safetensors"}, "there is no weights file 'absent.safetensors'"),
        ({"--weights": "own.npz"}, "'own.npz' cannot be loaded as plain weights"),
        ({"--module": "package.nets:make_wide", "--weights": "w.safetensors"}, "do not fit the architecture"),
        (
            {"--module": "package.nets:make_wide", "--weights": "wide.safetensors", "--data": "own.npz"},
            "the network has 3 outputs, the data have labels of +-1",
        ),
        ({"--data": "nowhere.npz"}, "there is no file or folder at 'nowhere.npz'"),
        ({"--data": "w.safetensors"}, "w.safetensors"),
        ({"--data": "small.npz"}, "takes inputs of shape [1, 28, 28], the data have [1, 4, 4]"),
        ({"--data": "own.npz", "--n": "5"}, "n = 5 samples cannot be split into 2 equal classes; the nearest"),
        ({"--data": "own.npz", "--n": "1"}, "options: data.n: input should be greater than or equal to 2"),
        ({"--data": "own.npz", "--n": "600"}, "ask for at most 6 in all"),
        ({"--data": "one.npz"}, "task 'binary' needs exactly two distinct labels, found 1"),
        ({"--data": "own.npz", "--task": "vehicles"}, "there is no task 'vehicles'"),
        ({"--data": "own.npz", "--holdout": "small.npz"}, "must agree; take both from the same data"),
        ({"--holdout": "other.npz"}, "--holdout says more about --data"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_written(
    command: Command, own: dict[str, str], tmp_path: Path, change: dict[str, str], expected: str
) -> None:
    state = load_file(tmp_path / "w.safetensors")
    save_file({**state, "first.weight": state["first.weight"] * torch.nan}, tmp_path / "nan.safetensors")
    wide = {"last.weight": torch.ones(3, 108), "last.bias": torch.ones(3)}
    save_file({**state, **wide}, tmp_path / "wide.safetensors")
    np.savez(tmp_path / "small.npz", images=np.random.default_rng(0).random((6, 1, 4, 4)), labels=[0, 1] * 3)
    np.savez(tmp_path / "one.npz", images=np.random.default_rng(0).random((6, 1, 28, 28)), labels=[1] * 6)
    before = contents(tmp_path)
    ended = command("attack", *words({**own, **change}), *FEW, "--out", "new")
    assert expected in ended.error
    assert {name for name in contents(tmp_path) if "__pycache__" not in name} == set(before)


@pytest.mark.parametrize("option", ["data.n=3", "attack.layer_weights=[1.0]", "training.lr=0", "device=cuda:7"])
def test_a_mistake_does_not_cost_the_run_that_was_to_be_replaced(
    command: Command, tiny: list[str], finished: Path, option: str
) -> None:
    before = contents(finished)
    assert command("demo", "--out", finished, "--overwrite", *tiny, "--set", option).error
    assert contents(finished) == before


def test_a_network_is_not_overwritten_by_the_attack_on_it(command: Command, finished: Path) -> None:
    before = contents(finished)
    assert "lies in the run folder" in command("attack", finished, "--out", finished, "--overwrite").error
    assert contents(finished) == before


def pending(run: Path, *stages: str) -> None:
    status = json.loads((run / "status.json").read_text())
    status["stages"] |= dict.fromkeys(stages, "pending")
    (run / "status.json").write_text(json.dumps(status))


def test_a_full_disk_stops_a_run_that_can_go_on_afterwards(command: Command, finished: Path) -> None:
    expected = candidates(finished)
    pending(finished, "attack", "match", "report")
    (finished / "candidates.safetensors").unlink()
    (finished / ".candidates.safetensors.part").symlink_to("/dev/full")
    stopped = command("demo", "--resume", finished, "--json")
    assert "no space left on the device while writing" in stopped.error
    assert "go on with --resume" in stopped.error
    assert not (finished / "candidates.safetensors").exists()
    assert command("demo", "--resume", finished, "--json").code == 0
    assert torch.equal(candidates(finished), expected)


def cut(name: str) -> Callable[[Path], None]:
    def damage(run: Path) -> None:
        content = (run / name).read_bytes()
        (run / name).write_bytes(content[: len(content) // 2])

    return damage


def drop(name: str) -> Callable[[Path], None]:
    return lambda run: (run / name).unlink()


def put(name: str, text: str) -> Callable[[Path], None]:
    return lambda run: (run / name).write_text(text) and None


def without_candidates(run: Path) -> None:
    save_file({"other": torch.ones(1)}, run / "candidates.safetensors")


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (cut("status.json"), "status.json' cannot be read: it is damaged or incomplete"),
        (drop("status.json"), "is no run folder"),
        (put("status.json", '{"format": 99}'), "has run folder format 99"),
        (put("status.json", '{"format": 1, "name": "x", "stages": {"dance": "pending"}}'), "unknown stage 'dance'"),
        (cut("config.toml"), "config.toml' is "),
        (put("config.toml", 'name = "demo"\nseed = 0\n'), "config.toml' is cut short"),
        (put("config.toml", "[attack\n"), "config.toml' is not valid TOML"),
        (drop("config.toml"), "has no config.toml, nothing was begun there; start anew with --overwrite"),
        (put("config.toml", "stepz = 5"), "unknown key 'stepz'"),
        (cut("candidates.safetensors"), "candidates.safetensors' cannot be read"),
        (drop("candidates.safetensors"), "candidates.safetensors' cannot be read: there is no such file"),
        (without_candidates, "it has no tensor 'candidates'"),
        (cut("summary.json"), "summary.json' cannot be read"),
        (drop("summary.json"), "summary.json' cannot be read"),
        (put("summary.json", "[]"), "expected an object, found list"),
        (cut("model/weights.safetensors"), "cannot be loaded as plain weights"),
        (drop("model/weights.safetensors"), "there is no weights file"),
        (cut("model/model.json"), "model.json' cannot be read"),
        (drop("model/model.json"), "holds no network"),
    ],
)
def test_a_damaged_run_folder_is_explained_and_left_as_it_is(
    command: Command, finished: Path, damage: Callable[[Path], None], expected: str
) -> None:
    pending(finished, "match", "report")
    damage(finished)
    before = contents(finished)
    ended = command("demo", "--resume", finished, "--json")
    assert expected in ended.error
    after = contents(finished)
    before.pop("status.json", None)  # it says which stage is running
    after.pop("status.json", None)
    assert after == before


@pytest.mark.parametrize(
    ("name", "expected"),
    [("checkpoint.safetensors", "cannot be read"), ("model/training.safetensors", "cannot be read")],
)
def test_a_damaged_checkpoint_is_explained(command: Command, finished: Path, name: str, expected: str) -> None:
    pending(finished, "train", "attack", "match", "report")
    (finished / name).write_bytes(b"half a file")
    assert expected in command("demo", "--resume", finished, "--json").error


@pytest.mark.parametrize("name", ["checkpoint.safetensors", "model/training.safetensors"])
def test_a_checkpoint_of_other_settings_is_explained(command: Command, finished: Path, name: str) -> None:
    pending(finished, "train", "attack", "match", "report")
    save_file({"step": torch.tensor(5), "epoch": torch.tensor(5), "x": torch.ones(3)}, finished / name)
    error = command("demo", "--resume", finished, "--json").error
    assert "start anew with --overwrite" in error


def test_match_changes_the_rule_and_nothing_else(command: Command, finished: Path, tmp_path: Path) -> None:
    before = contents(finished)
    assert "can change match and data alone" in command("match", finished, "--set", "attack.steps=5").error
    assert "there is no file or folder" in command("match", finished, "--data", "./absent.npz").error
    assert contents(finished) == before
    again = json.loads(
        command("match", finished, "--set", "match.scaling=clamp", "--set", "match.quantile=0.5", "--json").out
    )
    assert again["scaling"] == "clamp"
    assert 'scaling = "clamp"' in (finished / "config.toml").read_text()
    assert contents(finished)["candidates.safetensors"] == before["candidates.safetensors"]
    (finished / "candidates.safetensors").unlink()
    assert "has no candidates yet; go on with --resume" in command("match", finished).error
    assert "is no run folder" in command("report", tmp_path / "absent").error


def test_baselines_are_judged_by_the_rule_of_their_run(command: Command, finished: Path, tmp_path: Path) -> None:
    config = (finished / "config.toml").read_text() + '\n[baselines.rows]\nmethod = "weights"\n'
    (tmp_path / "mine.toml").write_text(config)
    assert command("attack", finished, "--config", "mine.toml", "--out", "run", "--json").code == 0
    assert command("match", "run", "--set", "match.scaling=clamp", "--json").code == 0
    assert summary(tmp_path / "run" / "baselines" / "rows")["scaling"] == "clamp"
    assert summary(tmp_path / "run" / "baselines" / "rows")["candidates"] == 16
