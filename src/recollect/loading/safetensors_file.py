"""Safetensors files from anyone. The library compares claims with the file; the length of the header is left to us."""

from __future__ import annotations

import os

from safetensors import SafetensorError, safe_open
from torch import Tensor

from recollect.loading.plain import LARGEST_COUNT, LARGEST_DESCRIPTION, NotPlainError


def read_safetensors_file(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """All tensors by name; `NotPlainError` says what is wrong with the file, `OSError` that there is none."""
    require_small_header(path)
    try:
        with safe_open(path, framework="pt") as file:
            names = file.keys()
            if len(names) > LARGEST_COUNT:
                raise NotPlainError(f"it holds more than {LARGEST_COUNT:,} tensors")
            # A tensor as it lies in the file starts anywhere, and on some processors its products round otherwise than
            # those of a tensor that PyTorch placed: a resumed run would end elsewhere.
            return {name: file.get_tensor(name).clone() for name in names}
    except NotPlainError:
        raise
    # A damaged file may raise almost anything: kinds of numbers that PyTorch does not have are a KeyError.
    except Exception as error:
        raise NotPlainError(_reason(error)) from error


def require_small_header(path: str | os.PathLike[str]) -> None:
    with open(path, "rb") as file:
        claimed = int.from_bytes(file.read(8), "little")
        size = os.fstat(file.fileno()).st_size
    if claimed > min(size, LARGEST_DESCRIPTION):
        raise NotPlainError(f"its header claims {claimed:,} bytes")


def _reason(error: Exception) -> str:
    if isinstance(error, SafetensorError):
        return "it is no whole safetensors file"
    return f"it is damaged, {type(error).__name__}"
