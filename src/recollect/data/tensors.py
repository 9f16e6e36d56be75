"""Tensor files (.safetensors, .pt) from anyone, read without running what they may carry."""

from __future__ import annotations

from collections.abc import Mapping

from safetensors import safe_open
from torch import Tensor

from recollect.core import RecollectError
from recollect.data.images import pick_keys
from recollect.loading.plain import NotPlainError
from recollect.loading.safetensors_file import require_small_header
from recollect.loading.torch_file import read_torch_file


def read_safetensors(path: str, origin: str) -> tuple[Tensor, Tensor]:
    """Images and labels of a ``.safetensors`` file, as they are stored."""
    try:
        require_small_header(path)
        with safe_open(path, framework="pt") as file:
            images, labels = pick_keys(file.keys(), origin)
            # Copies, since a tensor as it lies in the file starts anywhere: see `read_safetensors_file`.
            return file.get_tensor(images).clone(), file.get_tensor(labels).clone()
    except RecollectError:
        raise
    # A damaged file may raise almost anything: kinds of numbers that PyTorch does not have are a KeyError.
    except Exception as error:
        raise RecollectError(
            f"{origin} cannot be read as safetensors ({type(error).__name__}), but must be a whole "
            ".safetensors file; write it again with safetensors.torch.save_file"
        ) from error


def read_torch(path: str, origin: str) -> tuple[Tensor, Tensor]:
    """Images and labels of a ``torch.save`` file: a dict of tensors, or a pair of them."""
    try:
        held = read_torch_file(path)
    except NotPlainError as error:
        raise RecollectError(
            f"{origin} cannot be read as plain tensors ({error}), and other Python objects "
            "are refused, for safety; save a dict with tensors 'images' and 'labels'"
        ) from error
    if isinstance(held, Mapping):
        images, labels = pick_keys((key for key in held if isinstance(key, str)), origin)
        pair = (held[images], held[labels])
    else:
        pair = held
    match pair:
        case (Tensor() as first, Tensor() as second):
            return first, second
    raise RecollectError(
        f"{origin} holds {_kinds(pair)}, but needs a dict with tensors 'images' and 'labels' or a tuple of "
        "those two tensors; save it so"
    )


def _kinds(held: object) -> str:
    kind = type(held).__name__
    if isinstance(held, tuple | list):
        return f"a {kind} of {', '.join(type(part).__name__ for part in held[:4]) or 'nothing'}"
    return f"an object of type {kind}"
