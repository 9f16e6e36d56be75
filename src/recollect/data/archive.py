"""NumPy archives (.npz) from anyone: nothing is unpickled, and sizes are checked before anything is read."""

from __future__ import annotations

import math
import zipfile
from typing import IO

import numpy as np
import torch
from numpy.lib import format as npy
from torch import Tensor

from recollect.core import RecollectError
from recollect.data.images import pick_keys, require_credible, require_size
from recollect.loading.plain import NotPlainError
from recollect.loading.zipped import require_small_directory


def read_archive(path: str, origin: str) -> tuple[Tensor, Tensor]:
    """Images and labels of an ``.npz`` file, as they are stored."""
    try:
        with open(path, "rb") as file:
            require_small_directory(file)
        with zipfile.ZipFile(path) as archive:
            members = {
                info.filename.removesuffix(".npy"): info
                for info in archive.infolist()
                if info.filename.endswith(".npy")
            }
            images, labels = (
                _read_member(archive, members[key], f"array {key!r} in {origin}") for key in pick_keys(members, origin)
            )
    except RecollectError:
        raise
    except NotPlainError as error:
        raise RecollectError(
            f"{origin} cannot be read as a NumPy archive, {error}, but must be a whole .npz file; write it again with "
            "numpy.savez"
        ) from error
    # A damaged archive or header may raise almost anything.
    except Exception as error:
        raise RecollectError(
            f"{origin} cannot be read as a NumPy archive ({type(error).__name__}), but must be a whole .npz "
            "file; write it again with numpy.savez"
        ) from error
    return images, labels


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, origin: str) -> Tensor:
    require_size(member.file_size, origin)
    require_credible(member.compress_size, member.file_size, origin)
    with archive.open(member) as stream:
        _check_header(stream, member.file_size, origin)
    with archive.open(member) as stream:
        return _tensor(npy.read_array(stream, allow_pickle=False))


def _check_header(stream: IO[bytes], file_size: int, origin: str) -> None:
    # Versions 2 and 3 exist for record types, which are refused anyway, and allow a header of 4 GiB.
    if npy.read_magic(stream) != (1, 0):
        raise RecollectError(f"{origin} has an unusual header, but needs plain numbers; write it again with savez")
    shape, _, dtype = npy.read_array_header_1_0(stream)
    if dtype.hasobject:
        raise RecollectError(
            f"{origin} holds pickled Python objects, but only plain numbers are read, for safety; "
            "save it as an array of numbers"
        )
    if dtype.kind not in "buif":
        raise RecollectError(f"{origin} has type {dtype}, but must hold plain numbers; convert it")
    claimed = math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or claimed != file_size - stream.tell():
        raise RecollectError(
            f"{origin} claims shape {shape} but stores {file_size - stream.tell()} bytes instead of "
            f"{claimed}, and these must agree; write it again with numpy.savez"
        )


def _tensor(array: np.ndarray) -> Tensor:
    """Torch knows neither foreign byte orders nor floats beyond 64 bits."""
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        array = array.astype(np.float64)
    return torch.from_numpy(array.astype(array.dtype.newbyteorder("="), copy=False))
