"""What ``torch.save`` wrote, by ``torch.load(weights_only=True)``, once the file has been found to be what it claims.

PyTorch's loader runs no code, but takes the sizes in a file at their word and asks for memory accordingly. So the
pickle in it is walked through first, with tensors that have a shape and no values: each must lie within what is stored.
"""

from __future__ import annotations

import os
import warnings
import zipfile
from dataclasses import dataclass

import torch
from torch import Tensor

from recollect.loading.pickled import Name, plain_values
from recollect.loading.plain import LARGEST_COUNT, NotPlainError, view_of
from recollect.loading.zipped import Stored, opened

_DTYPES = {
    "torch.FloatStorage": torch.float32,
    "torch.DoubleStorage": torch.float64,
    "torch.HalfStorage": torch.float16,
    "torch.BFloat16Storage": torch.bfloat16,
    "torch.LongStorage": torch.int64,
    "torch.IntStorage": torch.int32,
    "torch.ShortStorage": torch.int16,
    "torch.CharStorage": torch.int8,
    "torch.ByteStorage": torch.uint8,
    "torch.BoolStorage": torch.bool,
    "torch.ComplexFloatStorage": torch.complex64,
    "torch.ComplexDoubleStorage": torch.complex128,
}
_REFUSED = {
    "torch._utils._rebuild_qtensor": "a quantised tensor",
    "torch.serialization._get_layout": "a sparse tensor",
    "torch._utils._rebuild_sparse_tensor": "a sparse tensor",
    "torch._utils._rebuild_sparse_csr_tensor": "a sparse tensor",
    "torch._utils._rebuild_meta_tensor_no_storage": "a tensor without values",
    "torch._utils._rebuild_wrapper_subclass": "a tensor of a special kind",
}


def read_torch_file(path: str | os.PathLike[str]) -> object:
    """Whatever was saved, if it is made of plain tensors, numbers and texts; else `NotPlainError` says why not."""
    try:
        if not zipfile.is_zipfile(path):
            raise NotPlainError("it is no zip archive, as torch.save has written since PyTorch 1.6")
        with opened(path) as archive:
            _Check(archive, _prefix(archive)).go_through()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about protocols of pickle that are newer than PyTorch's own
            return torch.load(path, weights_only=True, map_location="cpu")
    except NotPlainError:
        raise
    # A damaged archive may raise almost anything.
    except Exception as error:
        raise NotPlainError(f"it is damaged, {type(error).__name__}") from error


def _prefix(archive: Stored) -> str:
    found = [name for name in archive.members if name.endswith("/data.pkl")]
    if len(found) != 1 or found[0].count("/") != 1:
        raise NotPlainError("it was not written by torch.save")
    prefix = found[0].removesuffix("data.pkl")
    if any(name.startswith(f"{prefix}code/") or name == f"{prefix}constants.pkl" for name in archive.members):
        raise NotPlainError("it is a TorchScript program, whose code would run")
    return prefix


@dataclass
class _Check:
    archive: Stored
    prefix: str
    count: int = 0

    def go_through(self) -> None:
        order = self.prefix + "byteorder"
        if order in self.archive.members and self.archive.read_description(order) != b"little":
            raise NotPlainError("its numbers have the byte order of other machines")
        plain_values(self.archive.read_description(self.prefix + "data.pkl"), self._call, self._storage)

    def _call(self, named: Name, arguments: tuple) -> object:
        match named.path, arguments:
            case "collections.OrderedDict", ():
                return {}
            case "torch._utils._rebuild_tensor_v2", (Tensor() as storage, offset, tuple(size), tuple(stride), *_):
                self.count += 1
                if self.count > LARGEST_COUNT:
                    raise NotPlainError(f"it holds more than {LARGEST_COUNT:,} tensors")
                return view_of(storage, size, stride, offset)
            case "torch._utils._rebuild_parameter", (Tensor() as tensor, *_):
                return tensor
            case "torch.Size", (tuple(size) | list(size),):
                return tuple(size)
        if named.path in _REFUSED:
            raise NotPlainError(f"it holds {_REFUSED[named.path]}")
        raise NotPlainError(f"its pickle would call {named.path[:80]!r}, and could run code")

    def _storage(self, identity: object) -> Tensor:
        match identity:
            case ("storage", Name() as kind, str(key), str(), int(numel)) if kind.path in _DTYPES:
                dtype = _DTYPES[kind.path]
            case ("storage", Name() as kind, *_):
                raise NotPlainError(f"it holds numbers of the kind {kind.path[:80]!r}")
            case _:
                raise NotPlainError("its pickle refers to something outside")
        member = self.archive.members.get(f"{self.prefix}data/{key}")
        if member is None or member.file_size != numel * dtype.itemsize:
            stored = 0 if member is None else member.file_size // dtype.itemsize
            raise NotPlainError(f"it claims {numel:,} numbers where {stored:,} are stored")
        return torch.empty(numel, dtype=dtype, device="meta")
