"""How training computes: its number types, and settings of PyTorch that are global and must be put back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch

DtypeName = Literal["float32", "float64", "tf32"]
DTYPES: dict[DtypeName, torch.dtype] = {"float32": torch.float32, "float64": torch.float64, "tf32": torch.float32}


def effective(name: DtypeName, device: torch.device) -> DtypeName:
    """What a number type is on a device: only GPUs have TF32, elsewhere it means float32."""
    return "float32" if name == "tf32" and device.type == "cpu" else name


@contextmanager
def training_arithmetic(name: DtypeName, device: torch.device) -> Iterator[None]:
    """TF32 products where asked for, and on GPUs only; convolutions that give the same bits each time.

    PyTorch lets convolutions use TF32 by default, so that it is switched off for the other number types.
    """
    precision = torch.get_float32_matmul_precision()
    cudnn = torch.backends.cudnn
    before = cudnn.allow_tf32, cudnn.deterministic
    rounded = effective(name, device) == "tf32"
    torch.set_float32_matmul_precision("high" if rounded else "highest")
    cudnn.allow_tf32, cudnn.deterministic = rounded, True
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(precision)
        cudnn.allow_tf32, cudnn.deterministic = before
