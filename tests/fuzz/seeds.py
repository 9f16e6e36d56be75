"""Whole files to begin with, one list per loader: ordinary ones, and ones that would run code if anyone unpickled."""

from __future__ import annotations

import io
import json
import lzma
import os
import pickle
import struct
import zipfile
import zlib
from functools import cache
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save
from torch import nn

CORPUS = Path(__file__).parent / "corpus"
DEFLATE, LZMA = 8, 34925
"""Compressions of TIFF."""
CANARY = Path(os.environ.get("TMPDIR", "/tmp")) / f"recollect-canary-{os.getpid()}"


class Bomb:
    """Unpickling this makes a folder that nobody else makes."""

    def __reduce__(self):
        return os.makedirs, (str(CANARY), 0o777, True)


def network() -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 2))


def _saved(held: object, legacy: bool = False, protocol: int = 2) -> bytes:
    content = io.BytesIO()
    torch.save(held, content, _use_new_zipfile_serialization=not legacy, pickle_protocol=protocol)
    return content.getvalue()


def _state() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return dict(network().state_dict())


def torch_weights() -> list[bytes]:
    return [
        _saved(network().state_dict()),
        _saved(_state(), protocol=4),
        _saved({**_state(), "0": Bomb()}),
        _saved(network()),
        pickle.dumps(Bomb()),
    ]


def legacy_weights() -> list[bytes]:
    return [_saved(_state(), legacy=True), _saved({"w": Bomb()}, legacy=True)]


def safe_weights() -> list[bytes]:
    return [save(_state()), save({"a": torch.ones(3, dtype=torch.bfloat16), "b": torch.zeros(0)})]


def programs() -> list[bytes]:
    """Written by ``torch.export.save``; the second carries pickles wherever PyTorch's own loader would open one."""
    plain = (CORPUS / "network.pt2").read_bytes()
    return [plain, (CORPUS / "convolution.pt2").read_bytes(), _with_bombs(plain)]


def _with_bombs(program: bytes) -> bytes:
    hurt = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(program)) as before, zipfile.ZipFile(hurt, "w") as after:
        for info in before.infolist():
            held = before.read(info)
            if info.filename.endswith("sample_inputs/model.pt"):
                held = _saved(Bomb())
            if info.filename.endswith("constants_config.json"):
                payload = {"path_name": "opaque_obj_0", "is_param": False, "use_pickle": True, "tensor_meta": None}
                held = json.dumps({"config": {"evil": payload}}).encode()
                after.writestr(info.filename.rpartition("/")[0] + "/opaque_obj_0", pickle.dumps(Bomb()))
            after.writestr(info.filename, held)
    return hurt.getvalue()


def archives() -> list[bytes]:
    images, labels = np.arange(24, dtype=np.uint8).reshape(2, 3, 4), np.array([0, 1])
    found = []
    for write, held in (
        (np.savez, {"images": images, "labels": labels}),
        (np.savez_compressed, {"x": images / 255, "y": labels}),
        (np.savez, {"images": images, "labels": np.array([Bomb(), Bomb()], dtype=object)}),
    ):
        content = io.BytesIO()
        write(content, **held)
        found.append(content.getvalue())
    return found


def tensor_data() -> list[bytes]:
    images, labels = torch.rand(2, 1, 3, 3), torch.tensor([0, 1])
    return [_saved({"images": images, "labels": labels}), _saved((images, labels)), _saved((Bomb(), labels))]


def safe_data() -> list[bytes]:
    return [save({"images": torch.rand(2, 1, 3, 3), "labels": torch.tensor([0, 1])})]


@cache
def pictures(kind: str) -> tuple[bytes, ...]:
    """An ordinary one first; then, for some kinds, what else a decoder may find in one."""
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    whole = _picture(Image.fromarray(pixels), kind)
    if kind == "TIFF":
        tiled = tiff(7, 5, zlib.compress(bytes(16 * 16 * 3)), DEFLATE, tile=(16, 16))
        compressed = (_picture(Image.fromarray(pixels), kind, compression=name) for name in ("tiff_lzw", "packbits"))
        return (whole, tiled, *compressed, *hostile_pictures(kind))
    return (whole, *hostile_pictures(kind))


@cache
def hostile_pictures(kind: str) -> list[bytes]:
    """A few kilobytes that would take tens or hundreds of megabytes if a decoder were let loose."""
    large = Image.new("L", (2100, 2100))
    if kind == "TIFF":
        return [
            _picture(large, kind, compression="tiff_lzw"),
            tiff(7, 5, zlib.compress(bytes(8192 * 8192 * 3)), DEFLATE, tile=(8192, 8192)),
            tiff(7, 5, lzma.compress(bytes(7 * 5 * 3)), LZMA),
        ]
    if kind == "PNG":
        header = struct.pack(">LLBBBBB", 2**31 - 1, 2**31 - 1, 8, 0, 0, 0, 0)
        return [_picture(large, kind), b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", b"")]
    return [_picture(large, kind)] if kind in ("GIF", "WEBP") else []


def tiff(width: int, height: int, held: bytes, compression: int, tile: tuple[int, int] | None = None) -> bytes:
    """In colour, its pixels in one strip or in tiles; Pillow writes no tiles, nor anything that does not fit."""
    entries = {256: width, 257: height, 258: 8, 259: compression, 262: 2, 277: 3}
    start = 8 + 2 + 12 * (len(entries) + (3 if tile is None else 4)) + 4
    if tile is None:
        entries |= {273: start, 278: height, 279: len(held)}
    else:
        entries |= {322: tile[0], 323: tile[1], 324: start, 325: len(held)}
    listed = b"".join(struct.pack("<HHLL", tag, 4, 1, value) for tag, value in sorted(entries.items()))
    return b"II*\x00" + struct.pack("<LH", 8, len(entries)) + listed + bytes(4) + held


def _picture(image: Image.Image, kind: str, **options: str) -> bytes:
    content = io.BytesIO()
    image.save(content, kind, **options)
    return content.getvalue()


def _chunk(name: bytes, held: bytes) -> bytes:
    return struct.pack(">L", len(held)) + name + held + struct.pack(">L", zlib.crc32(name + held))
