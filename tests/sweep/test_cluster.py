"""A Ray cluster of several processes: workers, drivers and the cluster itself die in the middle; nothing is lost."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from recollect.core import RecollectError
from recollect.report.trial_traces import read_trial_traces
from recollect.sweep import cluster
from recollect.sweep.cluster import require_cluster

HEAD = """
import ray, sys
context = ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
print(context.address_info["gcs_address"], flush=True)
sys.stdin.read()
"""
TRIALS = 6
PATIENCE = 400
"""Seconds until a process is taken for hung: on a busy machine the imports of six workers alone take a minute."""
SWEEP = (
    "--trials",
    str(TRIALS),
    "--batch",
    "1",
    "--set",
    "attack.candidates=32",
    "--set",
    "attack.steps=400",
    "--json",
)


ENVIRONMENT = {
    **os.environ,
    "OMP_NUM_THREADS": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "token",  # Ray's own clusters ask for one; ours has one of its own
    "RAY_AUTH_TOKEN": secrets.token_hex(32),
}


class Cluster:
    """Four workers at an address."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HEAD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=ENVIRONMENT,
        )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()
        assert self.address, "Ray did not start"

    def working(self) -> list[int]:
        """Processes of this cluster that run trials at this moment."""
        return [process for process, name in self._processes().items() if name.startswith(b"ray::run_portion")]

    def _processes(self) -> dict[int, bytes]:
        """All of this cluster, and what they are called."""
        parents, names = {}, {}
        for entry in Path("/proc").iterdir():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                names[int(entry.name)] = (entry / "cmdline").read_bytes()
            except (ValueError, OSError):
                continue

        def ours(process: int) -> bool:
            while process > 1 and process != self.process.pid:
                process = parents.get(process, 0)
            return process == self.process.pid

        return {process: name for process, name in names.items() if ours(process)}

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.communicate(timeout=30)

    def vanish(self) -> None:
        """As if the power had failed: a cluster that is told to stop may end its trials first."""
        for process in self._processes():
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.process.communicate()


@pytest.fixture(scope="module")
def four_workers() -> Iterator[Cluster]:
    started = Cluster()
    yield started
    started.stop()


def driver(*words: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "recollect", "sweep", *(str(word) for word in words)],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def until(happened: Callable[[], bool], running: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert running.poll() is None, f"it ended before that: {running.communicate()}"
        assert time.monotonic() < deadline
        time.sleep(0.02)


def numbers(run: Path) -> list[int]:
    path = run / "trials.jsonl"
    return [json.loads(line)["number"] for line in path.read_text().splitlines()] if path.exists() else []


def assert_same_result(run: Path, reference: Path) -> None:
    assert numbers(run) == list(range(TRIALS))
    found, expected = load_file(run / "candidates.safetensors"), load_file(reference / "candidates.safetensors")
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-6, atol=1e-7)
    traces, known = read_trial_traces(run / "trials"), read_trial_traces(reference / "trials")
    assert traces is not None
    assert known is not None
    assert traces.trials == TRIALS
    for name, value in known.terms.items():
        torch.testing.assert_close(traces.terms[name], value, rtol=1e-3, atol=1e-6, equal_nan=True)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small network."""
    folder = tmp_path_factory.mktemp("network") / "run"
    size = ("data.n=4", "model.hidden=[16, 16]", "training.epochs=60")
    words = [word for setting in size for word in ("--set", setting)]
    trained = [sys.executable, "-m", "recollect", "train", "--preset", "demo", *words, "--out", str(folder), "--json"]
    subprocess.run(trained, env=ENVIRONMENT, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def reference(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the sweep finds without Ray."""
    folder = tmp_path_factory.mktemp("reference") / "run"
    running = driver(model, *SWEEP, "--out", folder)
    _, err = running.communicate(timeout=PATIENCE)
    assert running.returncode == 0, err
    return folder


def test_two_of_four_workers_die_and_every_trial_is_there_once(
    four_workers: Cluster, reference: Path, model: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    running = driver(model, *SWEEP, "--executor", "ray", "--address", four_workers.address, "--out", run)
    killed: set[int] = set()
    while len(killed) < 2:
        until(lambda: bool(set(four_workers.working()) - killed), running)
        process = next(iter(set(four_workers.working()) - killed), None)
        if process is not None:
            os.kill(process, signal.SIGKILL)
            killed.add(process)
    out, err = running.communicate(timeout=PATIENCE)
    assert running.returncode == 0, err
    assert json.loads(out)["trials"] == TRIALS
    assert_same_result(run, reference)


def test_a_driver_dies_and_goes_on(four_workers: Cluster, reference: Path, model: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    running = driver(model, *SWEEP, "--executor", "ray", "--address", four_workers.address, "--out", run)
    until(lambda: len(numbers(run)) >= 2, running)
    running.kill()
    running.communicate()
    before = {path: path.stat().st_mtime_ns for path in (run / "trials").glob("[0-9]*")}
    again = driver("--resume", run, "--json")
    out, err = again.communicate(timeout=PATIENCE)
    assert again.returncode == 0, err
    assert json.loads(out)["trials"] == TRIALS
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert_same_result(run, reference)


@pytest.mark.parametrize(
    ("address", "reason"),
    [("127.0.0.1:1", "refused"), ("nobody.invalid:6379", "cannot be used"), ("nonsense", "no host and port")],
)
def test_an_unreachable_cluster_is_one_sentence(address: str, reason: str) -> None:
    with pytest.raises(RecollectError, match=reason) as caught:
        require_cluster(address)
    assert "--address" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_without_ray_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(RecollectError, match=r"pip install 'recollect\[ray\]'"):
        cluster.load_ray()


def test_executors_belong_to_sweeps(command: Any, finished: Path) -> None:
    assert "holds no sweep" in command("sweep", "--resume", finished, "--executor", "local").error
    assert "'local' or 'ray'" in command("sweep", finished, "--executor", "slurm").error
    assert "is that of a Ray cluster" in command("sweep", finished, "--address", "auto").error


def test_a_cluster_goes_away_and_the_sweep_goes_on_here(
    four_workers: Cluster, reference: Path, model: Path, tmp_path: Path
) -> None:
    """The last one: it ends the cluster."""
    run = tmp_path / "run"
    running = driver(model, *SWEEP, "--executor", "ray", "--address", four_workers.address, "--out", run)
    until(lambda: len(numbers(run)) >= 1 and bool(four_workers.working()), running)
    four_workers.vanish()
    _, err = running.communicate(timeout=PATIENCE)
    assert running.returncode == 2
    assert err.startswith("error: the Ray cluster went away")
    assert err.count("\n") == 1, "Ray's own words are there too"
    assert "--resume" in err
    again = driver("--resume", run, "--executor", "local", "--json")
    out, err = again.communicate(timeout=PATIENCE)
    assert again.returncode == 0, err
    assert json.loads(out)["trials"] == TRIALS
    assert_same_result(run, reference)
