"""What a file from a stranger may hold: plain tensors, in sizes that the file itself can account for."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

LARGEST_DESCRIPTION = 8 * 2**20
"""Bytes of a header, a pickle or a graph: those of networks with ten thousand layers are smaller."""

LARGEST_COUNT = 100_000
"""Tensors, or members of an archive: each takes half a kilobyte, however few numbers it holds."""

_MOST_AXES = 25  # vmap and as_strided know no more


class NotPlainError(Exception):
    """Why a file cannot be read as plain tensors: a phrase that a caller's sentence can carry."""


def view_of(values: Tensor, size: Sequence[int], stride: Sequence[int], offset: int, what: str = "a tensor") -> Tensor:
    """A tensor within stored values, as its description claims, which must not reach beyond them.

    >>> view_of(torch.arange(6.0), (2, 3), (3, 1), 0)[1].tolist()
    [3.0, 4.0, 5.0]
    """
    numbers = (*size, *stride, offset)
    if len(size) != len(stride) or len(size) > _MOST_AXES or not all(_is_length(number) for number in numbers):
        raise NotPlainError(f"{what} has an impossible shape")
    count = math.prod(size)
    reach = offset + sum((length - 1) * step for length, step in zip(size, stride, strict=True)) + 1
    if count and max(reach, count) > values.numel():
        raise NotPlainError(f"{what} claims {max(reach, count):,} values of {values.numel():,} that are stored")
    return values.as_strided(tuple(size), tuple(stride), offset) if count else values.new_empty(tuple(size))


def _is_length(number: object) -> bool:
    return type(number) is int and 0 <= number < 2**40


def from_bytes(content: bytearray, dtype: torch.dtype, what: str = "a tensor") -> Tensor:
    """Stored bytes as numbers, without a copy.

    >>> from_bytes(bytearray(b"\\x01\\x00\\x02\\x00"), torch.int16).tolist()
    [1, 2]
    """
    if len(content) % dtype.itemsize:
        raise NotPlainError(f"{what} ends in the middle of a number")
    if not content:
        return torch.empty(0, dtype=dtype)
    if dtype == torch.bool:  # any other byte than 0 and 1 would be no truth value at all
        return torch.frombuffer(content, dtype=torch.uint8) != 0
    return torch.frombuffer(content, dtype=dtype)
