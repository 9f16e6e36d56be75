"""What ``torch.save`` wrote, read without PyTorch's loader: tensors in dicts, lists and tuples, and nothing else.

``torch.load(weights_only=True)`` runs no code either, but takes the sizes in the file at their word.
"""

from __future__ import annotations

import os
import zipfile
from dataclasses import dataclass, field

import torch
from torch import Tensor

from recollect.loading.pickled import Name, plain_values
from recollect.loading.plain import LARGEST_COUNT, NotPlainError, from_bytes, view_of
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
            return _Reader(archive, _prefix(archive)).read()
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
class _Reader:
    archive: Stored
    prefix: str
    storages: dict[str, Tensor] = field(default_factory=dict)
    count: int = 0

    def read(self) -> object:
        order = self.prefix + "byteorder"
        if order in self.archive.members and self.archive.read_description(order) != b"little":
            raise NotPlainError("its numbers have the byte order of other machines")
        return plain_values(self.archive.read_description(self.prefix + "data.pkl"), self._call, self._storage)

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
        if key not in self.storages:
            self.storages[key] = from_bytes(self.archive.read(f"{self.prefix}data/{key}"), dtype)
        if self.storages[key].numel() != numel or self.storages[key].dtype != dtype:
            raise NotPlainError(f"it claims {numel:,} numbers where {self.storages[key].numel():,} are stored")
        return self.storages[key]
