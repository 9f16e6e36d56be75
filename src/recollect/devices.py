"""Where to compute."""

from __future__ import annotations

import torch

from recollect.core import RecollectError


def resolve_device(name: str) -> torch.device:
    """``auto`` takes a GPU where there is one; a GPU that is asked for must be there."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise RecollectError(
            f"there is no device '{name}'; use auto, cpu, cuda, cuda:N, several of them, or cuda:all."
        ) from error
    if device.type not in ("cpu", "cuda"):
        raise RecollectError(
            f"device '{name}' is not supported; use auto, cpu, cuda, cuda:N, several of them, or cuda:all."
        )
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise RecollectError(
            f"device '{name}' was asked for, but PyTorch sees {torch.cuda.device_count()} GPUs here; use --device cpu."
        )
    return device


def resolve_devices(names: str) -> list[torch.device]:
    """One device, several (``cuda:0,cuda:1``) or all GPUs (``cuda:all``); trials are spread over them."""
    if names == "cuda:all":
        resolve_device("cuda")
        return [torch.device("cuda", index) for index in range(torch.cuda.device_count())]
    return [resolve_device(name.strip()) for name in names.split(",")]
