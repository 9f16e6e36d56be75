"""How PyTorch's allocator takes memory on GPUs; to be said before it first takes any."""

from __future__ import annotations

import os

_NAMES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")


def let_segments_grow() -> None:
    """Unless the environment says something else.

    A memory limit holds for what PyTorch reserves. Segments that grow leave less of that unused, so more is worked on at
    once within the same limit (docs/performance.md).
    """
    if not any(name in os.environ for name in _NAMES):
        os.environ[_NAMES[1]] = "expandable_segments:True"
