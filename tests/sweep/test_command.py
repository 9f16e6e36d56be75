"""``recollect sweep`` from training to report: killed, gone on with, grown, and one sentence for every mistake."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from benchmarks import killed_sweeps
from safetensors.torch import load_file

Command = Callable[..., Any]
SWEEP = ("--trials", "5", "--batch", "2")


def lines(run: Path) -> list[dict[str, Any]]:
    kept = [json.loads(line) for line in (run / "trials.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if name != "seconds"} for line in kept]


def assert_same_sweep(run: Path, reference: Path) -> None:
    assert lines(run) == lines(reference)
    found, expected = load_file(run / "candidates.safetensors"), load_file(reference / "candidates.safetensors")
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[key], expected[key]) for key in expected)
    assert (run / "matches.json").read_bytes() == (reference / "matches.json").read_bytes()
    assert curves(run) == curves(reference) != []


def curves(run: Path) -> list[str]:
    """Lines of the search on the page, as they are drawn."""
    page = (run / "report.html").read_text()
    return re.findall(r'<path class="line colour[^"]*" d="([^"]+L[^"]+)"/>', page.partition('id="attack"')[2])


def kill_after_lines(run: Path, count: int, *words: str | Path) -> None:
    running = subprocess.Popen(
        [sys.executable, "-m", "recollect", *(str(word) for word in words)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline, path = time.monotonic() + 120, run / "trials.jsonl"
    while not path.exists() or path.read_bytes().count(b"\n") < count:
        assert running.poll() is None, "the sweep ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.005)
    running.send_signal(signal.SIGKILL)
    assert running.wait() == -signal.SIGKILL


def test_killed_and_gone_on_with(command: Command, tiny: list[str], tmp_path: Path) -> None:
    options = ("--preset", "demo", *tiny, *SWEEP, "--set", "attack.steps=600", "--sampler", "tpe", "--json")
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert command("sweep", *options, "--out", whole).code == 0
    kill_after_lines(killed, 2, "sweep", *options, "--out", killed)
    assert len(list((killed / "trials").glob("*.safetensors"))) < 3
    assert command("sweep", "--resume", killed, "--json").code == 0
    assert [line["number"] for line in lines(killed)] == list(range(5))
    assert_same_sweep(killed, whole)


def test_a_sweep_end_to_end_that_grows(command: Command, tiny: list[str], tmp_path: Path) -> None:
    run = tmp_path / "run"
    ended = command("sweep", "--preset", "demo", *tiny, *SWEEP, "--out", run, "--json")
    assert ended.code == 0, ended.err
    summary = json.loads(ended.out)
    assert (summary["trials"], summary["reference_count"], summary["sampler"]) == (5, 4, "random")
    best = min((line for line in lines(run) if not line["diverged"]), key=lambda line: line["score"])
    assert (summary["best_trial"], summary["best_trial_score"]) == (best["number"], best["score"])
    assert curves(run)[0].count("M") == 5
    first = lines(run)
    assert "would take some away" in command("sweep", "--resume", run, "--trials", "3").error
    assert "--sampler cannot change it" in command("sweep", "--resume", run, "--sampler", "tpe").error
    assert json.loads(command("sweep", "--resume", run, "--trials", "7", "--json").out)["trials"] == 7
    assert lines(run)[:5] == first
    assert [line["number"] for line in lines(run)] == list(range(7))
    assert curves(run)[0].count("M") == 7
    merged, pool = load_file(run / "merged.safetensors"), load_file(run / "candidates.safetensors")["candidates"]
    assert torch.equal(pool[merged["trial"], merged["position"]], merged["candidates"])
    assert command("match", run, "--set", "match.scaling=clamp", "--json").code == 0


def test_a_network_that_exists(command: Command, finished: Path, tmp_path: Path) -> None:
    options = ("--set", "attack.candidates=8", "--set", "attack.steps=20", "--out", tmp_path / "run", "--json")
    ended = command("sweep", finished, *SWEEP, *options)
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["merged"] > 0
    assert "reference_count" not in json.loads(ended.out)


def test_a_copied_folder_grows_where_the_network_is_not(command: Command, finished: Path, tmp_path: Path) -> None:
    model, run, copy = tmp_path / "model", tmp_path / "run", tmp_path / "copy"
    shutil.copytree(finished, model)
    options = ("--set", "attack.candidates=8", "--set", "attack.steps=20", "--sampler", "tpe", "--json")
    assert command("sweep", model, *SWEEP, *options, "--out", run).code == 0
    first = lines(run)
    shutil.copytree(run, copy)
    shutil.rmtree(run)
    shutil.rmtree(model)
    ended = command("sweep", "--resume", copy, "--trials", "7", "--json")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["trials"] == 7
    assert lines(copy)[:5] == first


def test_the_row_space_is_found_once(
    command: Command, tiny: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the batches: the directions of a large layer take a second."""
    found, decompose = [], torch.linalg.eigh
    monkeypatch.setattr(torch.linalg, "eigh", lambda *args, **named: found.append(1) or decompose(*args, **named))
    options = ("--preset", "demo", *tiny, "--set", 'attack.space="row"', "--trials", "8", "--batch", "2", "--json")
    for pruning in ("none", "halving"):
        ended = command("sweep", *options, "--pruning", pruning, "--out", tmp_path / pruning)
        assert ended.code == 0, ended.err
        assert len(found) == 2, "one to see whether it can be done, before training, and one for all batches"
        found.clear()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--set", "attack.search.lr_x=[1.0, 0.1]"), "is no range"),
        (("--set", "attack.search.lr_x=[]"), "lr_x = [] is no range; give two positive numbers, smaller first"),
        (("--set", "attack.search.lr_x=0.3"), "lr_x = 0.3 is no range; give two positive numbers, smaller first"),
        (("--set", "attack.search.lr_x=[0.0, 0.1]"), "is no range"),
        (("--sampler", "guess"), "'random', 'tpe' or 'qmc'"),
        (("--batch", "0"), "sweep.batch"),
        (("--storage", "sqlite:////nowhere/at/all/study.db"), "cannot be used"),
        (("--set", 'attack.method="activation"'), "has none"),
    ],
)
def test_a_mistake_is_one_sentence(words: tuple[str, ...], sentence: str, command: Command, tiny: list[str]) -> None:
    assert sentence in command("sweep", "--preset", "demo", *tiny, *words).error
    assert not Path("runs").exists()


def test_the_storage_of_another_study(command: Command, tiny: list[str], tmp_path: Path) -> None:
    options = ("--preset", "demo", *tiny, *SWEEP, "--storage", f"sqlite:///{tmp_path / 'study.db'}", "--json")
    assert command("sweep", *options, "--out", "one").code == 0
    refused = command("sweep", *options, "--out", "two", "--set", "seed=9").error
    assert "holds another study named 'demo'" in refused


def test_nothing_to_sweep_and_no_sweep(command: Command, finished: Path) -> None:
    assert "name a MODEL" in command("sweep").error
    assert "holds no sweep" in command("sweep", "--resume", finished, "--trials", "9").error


def test_a_dry_run_writes_nothing(command: Command, tiny: list[str], tmp_path: Path) -> None:
    shown = command("sweep", "--preset", "demo", *tiny, *SWEEP, "--dry-run", "--json")
    assert shown.code == 0, shown.err
    config = json.loads(shown.out)["config"]
    assert config["attack"]["search"]["trials"] == 5
    assert config["sweep"]["batch"] == 2
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("pruning", ["none", "halving"])
def test_killed_at_random_moments(pruning: str, tmp_path: Path) -> None:
    """Two kills; ``python -m benchmarks.killed_sweeps`` makes ten."""
    words = [*killed_sweeps.SMALL, "--trials", "8", "--batch", "2", "--pruning", pruning]
    whole, run = tmp_path / "whole", tmp_path / "run"
    seconds = killed_sweeps.whole(words, whole)
    seen = killed_sweeps.killed(words, run, 2, random.Random(1), seconds / 2)
    assert all(set(before) <= set(after) for before, after in pairwise([*seen, killed_sweeps.saved(run)]))
    assert killed_sweeps.saved(run) == killed_sweeps.saved(whole) == list(range(8))
    assert [line["number"] for line in lines(run)] == list(range(8))
    if pruning == "none":
        assert killed_sweeps.same_result(run, whole)


def test_halving_end_to_end(command: Command, tiny: list[str], tmp_path: Path) -> None:
    run = tmp_path / "run"
    options = ("--set", 'sweep.tracker="none"', "--pruning", "halving", "--trials", "12", "--batch", "4")
    ended = command("sweep", "--preset", "demo", *tiny, *options, "--sampler", "tpe", "--out", run, "--json")
    assert ended.code == 0, ended.err
    summary = json.loads(ended.out)
    pruned = [line for line in lines(run) if line["pruned"]]
    assert summary["trials"] == 12
    assert summary["pruned_trials"] == len(pruned) > 2
    assert summary["pooled_trials"] == 12 - len(pruned) - summary["diverged_trials"]
    assert all(line["score"] == line["rungs"][-1] for line in pruned)
    counted = json.loads((run / "trial_matches.json").read_text())
    assert counted["reference_count"] == 4
    assert [row["number"] for row in counted["trials"]] == load_file(run / "candidates.safetensors")["trial"].tolist()
    assert all(0 <= row["ncc80"] <= 4 for row in counted["trials"])
    assert "'none' or 'halving'" in command("sweep", "--preset", "demo", "--pruning", "half").error
    assert "--pruning cannot change it" in command("sweep", "--resume", run, "--pruning", "none").error


def test_what_somebody_sees_who_watches(command: Command, tiny: list[str], tmp_path: Path) -> None:
    ended = command("sweep", "--preset", "demo", *tiny, *SWEEP, "--tracker", "tensorboard", "--out", tmp_path / "run")
    assert ended.code == 0, ended.err
    assert "Sweeping over 5 trials of 8 candidates, 60 steps" in ended.err
    assert "best score" in ended.err
    assert "of 4 recovered" in ended.err
    shown = next(line for line in ended.err.splitlines() if "best score" in line)
    assert re.search(r"100%  5 of 5  after \d+ s  best score \S+  \d of 4 recovered$", shown)
    assert list((tmp_path / "run" / "tensorboard").iterdir())
