"""Samples and their labels as tensors, before any task: what every source of data is turned into."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from recollect.core import RecollectError

LARGEST_BYTES = 16 * 2**30
"""No single array may take more memory than this: a small file can claim any size at all."""

_DENSEST = 200
"""Times that data of any interest shrink when they are compressed, at most."""
_SMALL = 64 * 2**20
"""Bytes that are read however well they were compressed."""

IMAGE_KEYS = ("images", "x")
LABEL_KEYS = ("labels", "y")
_CHANNELS = (1, 3)
_KEYS_SHOWN = 8


@dataclass(frozen=True)
class LabelledImages:
    """Samples in file order: ``[n, c, h, w]`` in [0, 1] for images, ``[n, d]`` for plain vectors."""

    images: Float[Tensor, "n ..."]
    labels: Int[Tensor, " n"]
    name: str


def labelled(images: Tensor, labels: Tensor, name: str, origin: str) -> LabelledImages:
    """Raw arrays, checked and brought to one form: float32 samples, channels first, int64 labels.

    ``uint8`` is divided by 255; floats are taken as they are, and must lie in [0, 1] unless the array is
    ``[n, d]``, which is read as plain vectors. ``origin`` is what error messages call the source.

    >>> pixels = torch.full((2, 4, 4), 51, dtype=torch.uint8)
    >>> grey = labelled(pixels, torch.tensor([0, 1]), name="grey", origin="grey.npz")
    >>> grey.images.shape, round(grey.images.max().item(), 3)
    (torch.Size([2, 1, 4, 4]), 0.2)
    """
    _require_dense(images, origin)
    _require_dense(labels, origin)
    return LabelledImages(
        images=_channels_first(_unit_range(_checked_shape(images, labels, origin), origin), origin),
        labels=_integers(labels, origin),
        name=name,
    )


def pick_keys(available: Iterable[str], origin: str) -> tuple[str, str]:
    """The names under which a file keeps its images and its labels.

    >>> pick_keys(["y", "x", "notes"], "mine.npz")
    ('x', 'y')
    """
    names = sorted(available)
    images = next((key for key in IMAGE_KEYS if key in names), None)
    labels = next((key for key in LABEL_KEYS if key in names), None)
    if images is None or labels is None:
        shown = ", ".join(repr(name) for name in names[:_KEYS_SHOWN]) or "nothing"
        more = f" and {len(names) - _KEYS_SHOWN} more" if len(names) > _KEYS_SHOWN else ""
        raise RecollectError(
            f"{origin} holds {shown}{more}, but needs 'images' (or 'x') and 'labels' (or 'y'); "
            "save the arrays under those names"
        )
    return images, labels


def require_size(byte_count: int, origin: str) -> None:
    """Refuse what would not fit, before memory is asked for."""
    if byte_count > LARGEST_BYTES:
        raise RecollectError(
            f"{origin} would take {byte_count / 2**30:,.0f} GiB in memory and at most "
            f"{LARGEST_BYTES // 2**30} GiB are allowed; keep only the samples you need"
        )


def require_credible(stored: int, unpacked: int, origin: str) -> None:
    """Refuse what unpacks to far more than it takes on disk, as real data do not."""
    if unpacked > max(_SMALL, _DENSEST * stored):
        raise RecollectError(
            f"{origin} would unpack {stored:,} bytes to {unpacked:,}, as no real data do; write it again, uncompressed"
        )


def _require_dense(values: Tensor, origin: str) -> None:
    if values.layout != torch.strided or values.is_quantized or values.device.type != "cpu":
        raise RecollectError(
            f"{origin} holds a sparse, quantised or storage-less tensor, but only dense ones can be read; "
            "save it as a dense tensor"
        )


def _checked_shape(images: Tensor, labels: Tensor, origin: str) -> Tensor:
    shape = tuple(images.shape)
    if images.ndim not in (2, 3, 4):
        raise RecollectError(
            f"{origin} holds images of shape {shape}, but they must be [n, d], [n, h, w], [n, c, h, w] or "
            "[n, h, w, c]; reshape them"
        )
    if labels.ndim != 1:
        raise RecollectError(
            f"{origin} holds labels of shape {tuple(labels.shape)}, but they must be [n], one number per "
            "sample; reshape them"
        )
    if len(images) != len(labels):
        raise RecollectError(
            f"{origin} holds {len(images)} images and {len(labels)} labels, but there must be as many of one "
            "as of the other; save them again together"
        )
    if images.numel() == 0:
        raise RecollectError(
            f"{origin} is empty (images of shape {shape}), but at least one sample is needed; choose a file "
            "with samples in it"
        )
    require_size(4 * images.numel(), origin)
    return images.detach()


def _unit_range(images: Tensor, origin: str) -> Float[Tensor, "n ..."]:
    if images.dtype == torch.uint8:
        return images.to(torch.float32).div_(255)
    if not images.is_floating_point():
        raise RecollectError(
            f"{origin} holds images of type {_plain(images.dtype)}, but they must be uint8 (0 to 255) or "
            "floats (0 to 1); convert them"
        )
    images = images.to(torch.float32)
    if not torch.isfinite(images).all():
        raise RecollectError(
            f"{origin} holds images with NaN or infinite values in float32, but every value must be finite; "
            "remove or repair those samples"
        )
    low, high = (value.item() for value in images.aminmax())
    if images.ndim > 2 and (low < 0 or high > 1):
        raise RecollectError(
            f"{origin} holds float images from {low:.4g} to {high:.4g}, but they must lie within 0 and 1; "
            "rescale them, or save them as uint8"
        )
    return images


def _channels_first(images: Float[Tensor, "n ..."], origin: str) -> Float[Tensor, "n ..."]:
    if images.ndim == 2:
        return images.contiguous()
    if images.ndim == 3:
        return images.unsqueeze(1).contiguous()
    if images.shape[1] in _CHANNELS:
        return images.contiguous()
    if images.shape[3] in _CHANNELS:
        return images.permute(0, 3, 1, 2).contiguous()
    raise RecollectError(
        f"{origin} holds images of shape {tuple(images.shape)}, but they must have 1 or 3 channels, as "
        "[n, c, h, w] or [n, h, w, c]; drop the others"
    )


def _integers(labels: Tensor, origin: str) -> Int[Tensor, " n"]:
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise RecollectError(
            f"{origin} holds labels of type {_plain(labels.dtype)}, but they must be integers; convert them"
        )
    return labels.to(torch.int64)


def _plain(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
