"""Damaged and hostile files, a few hundred per loader: taken, or refused with one sentence, and nothing is ever run.

``python -m tests.fuzz.many`` does the same with many thousands and measures memory.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fuzz import seeds
from tests.fuzz.damage import damaged
from tests.fuzz.loaders import LOADERS, PICTURES, attempt

MEASURED = """
import sys
from recollect.core import RecollectError
from recollect.data import load
def top():
    line = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024
for folder in sys.argv[1:]:
    before, sentence = top(), "taken"
    try:
        load(folder)
    except RecollectError as error:
        sentence = str(error)
    print(top() - before, sentence)
"""


@pytest.mark.parametrize("name", LOADERS)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_a_damaged_file_is_taken_or_refused_with_a_sentence(name: str, seed: int, tmp_path) -> None:
    loader, rng = LOADERS[name], Random(seed)
    loader.prepare(tmp_path)
    sentence = attempt(loader, tmp_path, damaged(rng.choice(loader.seeds()), rng))
    assert sentence is None or (sentence and "\n" not in sentence)
    assert not seeds.CANARY.exists()


@pytest.mark.parametrize("name", LOADERS)
def test_a_whole_file_is_taken(name: str, tmp_path) -> None:
    """Otherwise the test above would say nothing."""
    loader = LOADERS[name]
    loader.prepare(tmp_path)
    sentence = attempt(loader, tmp_path, loader.seeds()[0])
    assert sentence is None or "PyTorch 1.6" in sentence


@pytest.mark.parametrize("name", LOADERS)
def test_what_would_run_code_is_refused_and_does_not_run(name: str, tmp_path) -> None:
    for content in LOADERS[name].seeds():
        if b"makedirs" in content:
            sentence = attempt(LOADERS[name], tmp_path, content)
            assert sentence is not None
            assert "pickle" in sentence
    assert not seeds.CANARY.exists()


@pytest.mark.parametrize("kind", PICTURES)
def test_hostile_pictures_are_refused_before_they_take_memory(kind: str, tmp_path: Path) -> None:
    """In a process of its own, whose memory nobody else has used before."""
    hostile = seeds.hostile_pictures(kind)
    for place, content in enumerate((*seeds.pictures(kind)[:1], *hostile)):
        path = tmp_path / str(place) / LOADERS[f"picture, {kind}"].file
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
    folders = [str(tmp_path / str(place)) for place in range(1 + len(hostile))]
    told = subprocess.run([sys.executable, "-c", MEASURED, *folders], capture_output=True, text=True, check=True)
    _, *refused = [line.split(" ", 1) for line in told.stdout.splitlines()]
    assert len(refused) == len(hostile)
    for grown, sentence in refused:
        assert "pixels" in sentence or "TIFF compressed by lzma" in sentence
        assert int(grown) < 4 * 2**20


def test_the_canary_would_sing() -> None:
    pickle.loads(pickle.dumps(seeds.Bomb()))
    assert seeds.CANARY.exists()
    seeds.CANARY.rmdir()
