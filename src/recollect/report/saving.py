"""Write a file whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from recollect.core import RecollectError


def save(path: Path, content: bytes) -> Path:
    """Write under a temporary name in the same folder, then rename: a reader never sees half a file."""
    partial = path.with_name(f".{path.name}.part")  # the next write takes over what a kill left behind
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(content)
        os.replace(partial, path)
    except OSError as error:
        raise RecollectError(
            f"{path} cannot be written ({error.strerror}); check the folder's permissions and free space."
        ) from error
    finally:
        partial.unlink(missing_ok=True)
    return path
