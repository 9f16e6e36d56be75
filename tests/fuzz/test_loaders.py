"""Damaged and hostile files, a few hundred per loader: taken, or refused with one sentence, and nothing is ever run.

``python -m tests.fuzz.many`` does the same with many thousands and measures memory.
"""

from __future__ import annotations

import pickle
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fuzz import seeds
from tests.fuzz.damage import damaged
from tests.fuzz.loaders import LOADERS, attempt


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


def test_the_canary_would_sing() -> None:
    pickle.loads(pickle.dumps(seeds.Bomb()))
    assert seeds.CANARY.exists()
    seeds.CANARY.rmdir()
