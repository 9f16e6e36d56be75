"""What is said to PyTorch's allocator, unless the user has said something."""

from __future__ import annotations

import os

import pytest

from recollect.allocator import let_segments_grow

NAMES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")


@pytest.mark.parametrize("said", [None, *NAMES])
def test_segments_grow_unless_the_environment_says_otherwise(said: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.setenv(name, "")  # so that the end of the test puts back what was there
        monkeypatch.delenv(name)
    if said is not None:
        monkeypatch.setenv(said, "max_split_size_mb:64")
    let_segments_grow()
    settings = {name: os.environ[name] for name in NAMES if name in os.environ}
    ours = {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}
    assert settings == (ours if said is None else {said: "max_split_size_mb:64"})
