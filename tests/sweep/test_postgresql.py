"""A real PostgreSQL server, and two sweeps that share one study on it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import optuna
import pytest
from safetensors.torch import load_file
from tests.servers import absent

from recollect.sweep.storage import with_driver


def programme(name: str) -> str:
    """From the path, or where Debian keeps it."""
    places = [*sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True), None]
    found = next((path for place in places if (path := shutil.which(name, path=place and str(place)))), None)
    if found is None:
        absent(f"this test needs PostgreSQL's '{name}', which is not installed; on Debian: apt install postgresql")
    return found


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The URL of an empty database that nobody else knows; PostgreSQL refuses to run as root."""
    folder = Path(tempfile.mkdtemp(prefix="recollect-postgresql-"))
    other: dict[str, Any] = {}
    if os.geteuid() == 0:
        other = {"user": "nobody", "group": "nogroup", "extra_groups": []}
        shutil.chown(folder, "nobody", "nogroup")

    def run(name: str, *words: str) -> None:
        command = [programme(name), *words]
        done = subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **other)
        assert done.returncode == 0, done.stderr.decode()

    try:
        run("initdb", "-D", f"{folder}/data", "-U", "owner", "--auth=trust", "--no-sync")
        settings = f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off"
        run("pg_ctl", "-D", f"{folder}/data", "-o", settings, "-l", f"{folder}/log", "-w", "start")
        try:
            yield f"postgresql://owner@/postgres?host={folder}"
        finally:
            run("pg_ctl", "-D", f"{folder}/data", "-m", "fast", "-w", "stop")
    finally:
        shutil.rmtree(folder)


def lines(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "trials.jsonl").read_text().splitlines()]


def test_two_workers_on_one_storage_run_no_trial_twice(server: str, finished: Path, tmp_path: Path) -> None:
    options = ["--trials", "6", "--batch", "2", "--sampler", "tpe", "--storage", server, "--json"]
    options += ["--set", "attack.candidates=8", "--set", "attack.steps=60"]
    runs = [tmp_path / "one", tmp_path / "other"]
    workers = [
        subprocess.Popen(
            [sys.executable, "-m", "recollect", "sweep", str(finished), *options, "--out", str(run)],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for run in runs
    ]
    for worker in workers:
        _, err = worker.communicate(timeout=120)
        assert worker.returncode == 0, err.decode()
    ran = [line for run in runs for line in lines(run)]
    numbers = [line["number"] for line in ran]
    assert len(set(numbers)) == len(numbers) == 12
    assert len({tuple(line["settings"].values()) for line in ran}) == 12
    ended = [sum(not line["diverged"] for line in lines(run)) for run in runs]  # each worker draws its own settings
    assert [len(load_file(run / "candidates.safetensors")["trial"]) for run in runs] == ended
    study = optuna.load_study(study_name="run", storage=with_driver(server))
    storage: Any = study._storage
    trials = study.get_trials()
    storage.remove_session()
    storage._backend.engine.dispose()
    assert Counter(trial.state.name for trial in trials) == Counter(
        "PRUNED" if line["diverged"] else "COMPLETE" for line in ran
    )
    known = {trial.user_attrs["recollect_number"]: trial.value for trial in trials}
    assert known == {line["number"]: line["score"] and pytest.approx(line["score"]) for line in ran}
