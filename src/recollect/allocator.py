"""How PyTorch's allocator takes memory on GPUs; to be said before it first takes any."""

from __future__ import annotations

import os

_NAME = "PYTORCH_ALLOC_CONF"
_OTHER_NAMES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")
"""Names of the same setting that PyTorch still reads, with a warning that they are old."""


def let_segments_grow() -> None:
    """Unless the environment says something else.

    A memory limit holds for what PyTorch reserves. Segments that grow leave less of that unused, so that more can be
    worked on at once within the same limit.
    """
    if not any(name in os.environ for name in (_NAME, *_OTHER_NAMES)):
        os.environ[_NAME] = "expandable_segments:True"
