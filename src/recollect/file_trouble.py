"""What can go wrong with a file, as one sentence: damage, a full disk, missing permissions."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from recollect.core import RecollectError
from recollect.loading.plain import NotPlainError


@contextmanager
def readable(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, NotPlainError, ValueError, RecursionError) as error:
        raise RecollectError(
            f"'{path}' cannot be read: {_brief(error)}; bring the file back, or start anew with --overwrite."
        ) from error


@contextmanager
def explained(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, SafetensorError) as error:
        if getattr(error, "errno", None) == errno.ENOSPC or "No space left" in str(error):
            raise RecollectError(
                f"no space left on the device while writing '{path}'; free some and go on with --resume."
            ) from error
        raise RecollectError(f"cannot write '{path}': {_brief(error)}.") from error


def _brief(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return f"it is damaged or incomplete ({str(error).splitlines()[0][:100] if str(error) else type(error).__name__})"
