"""Whole files to begin with, one list per loader: ordinary ones, and ones that would run code if anyone unpickled."""

from __future__ import annotations

import io
import json
import os
import pickle
import zipfile
from functools import cache
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save
from torch import nn

CORPUS = Path(__file__).parent / "corpus"
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
    content = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(content, kind)
    return (content.getvalue(),)
