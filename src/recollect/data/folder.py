"""A folder of pictures with one sub-folder per class."""

from __future__ import annotations

import math
import os
import warnings

import numpy as np
import torch
from PIL import Image
from PIL.TiffImagePlugin import TILELENGTH, TILEWIDTH, TiffImageFile
from torch import Tensor

from recollect.core import RecollectError
from recollect.data.images import require_size

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff")
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF")
"""Pillow goes by a file's content, and would hand what it takes for PostScript to another program."""
_COMPRESSIONS = ("raw", "packbits", "tiff_lzw", "tiff_adobe_deflate", "tiff_deflate")
"""Of TIFF; decoders of the others have tables of their own, as large as the file asks for."""
MOST_PIXELS = 2048 * 2048
"""Of one picture: more than networks are trained on, and few enough that a hostile kilobyte takes about 100 MiB."""
_GREY = ("1", "L", "LA")
_COLOUR = ("P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr", "HSV", "LAB")


def read_folder(path: str, origin: str) -> tuple[Tensor, Tensor]:
    """Pictures ``[n, h, w, c]`` in uint8 and labels 0, 1, ... in the order of the sub-folders' names.

    Links are not followed and hidden entries are left out. Transparency is dropped; a set in which any
    picture has colour is read as colour throughout.
    """
    files, labels = _listed(path, origin)
    pictures: list[np.ndarray] = []
    for file in files:
        pictures.append(_decode(file, pictures[0].shape[:2] if pictures else None, files[0], len(files)))
    if any(picture.shape[2] == 3 for picture in pictures):
        pictures = [np.broadcast_to(picture, (*picture.shape[:2], 3)) for picture in pictures]
    return torch.from_numpy(np.stack(pictures)), torch.tensor(labels)


def _listed(path: str, origin: str) -> tuple[list[str], list[int]]:
    files: list[str] = []
    labels: list[int] = []
    try:
        classes = sorted(entry.path for entry in _visible(path) if entry.is_dir(follow_symlinks=False))
        for label, folder in enumerate(classes):
            found = sorted(entry.path for entry in _visible(folder) if _is_picture(entry))
            if not found:
                raise RecollectError(
                    f"folder {folder!r} holds no pictures, but every class needs one at least "
                    f"({', '.join(SUFFIXES)}); add some or remove the folder"
                )
            files += found
            labels += [label] * len(found)
    except OSError as error:
        raise RecollectError(
            f"{origin} cannot be listed ({error.strerror}), but must be readable; check its permissions"
        ) from error
    if not files:
        raise RecollectError(
            f"{origin} has no sub-folders, but needs one per class with the pictures in it (links are not "
            "followed); sort the pictures into sub-folders"
        )
    return files, labels


def _visible(path: str) -> list[os.DirEntry[str]]:
    with os.scandir(path) as entries:
        return [entry for entry in entries if not entry.name.startswith(".")]


def _is_picture(entry: os.DirEntry[str]) -> bool:
    return entry.is_file(follow_symlinks=False) and entry.name.lower().endswith(SUFFIXES)


def _decode(file: str, expected: tuple[int, ...] | None, first: str, count: int) -> np.ndarray:
    """One picture as ``[h, w, 1 or 3]``; its size is compared with the first one's before it is decoded."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about tags and the like, while the pixels are whole
            with Image.open(file, formats=_FORMATS) as picture:
                size = (picture.height, picture.width)
                _require_harmless(picture, file)
                _check_size(file, size, expected or size, first)
                require_size(4 * len(picture.getbands()) * size[0] * size[1] * count, f"the folder of {file!r}")
                pixels = np.asarray(picture.convert(_mode(picture.mode, file)))
    except RecollectError:
        raise
    except Image.DecompressionBombError:
        raise _too_many_pixels(file) from None
    # Decoders of damaged pictures raise almost anything.
    except Exception as error:
        raise RecollectError(
            f"picture {file!r} cannot be read ({type(error).__name__}), but every picture must be whole and "
            "of moderate size; repair or remove it"
        ) from error
    return pixels.reshape(*size, -1)


def _require_harmless(picture: Image.Image, file: str) -> None:
    """Nothing but the header has been read so far."""
    pixels = [picture.width * picture.height]
    if isinstance(picture, TiffImageFile):
        compression = picture.info.get("compression")
        if compression not in _COMPRESSIONS:
            raise RecollectError(
                f"picture {file!r} is a TIFF compressed by {compression}, but only LZW, deflate and PackBits are read; "
                "save it as PNG"
            )
        sides = [picture.tag_v2.get(tag, 0) for tag in (TILEWIDTH, TILELENGTH)]
        if not all(isinstance(side, int) for side in sides):
            raise ValueError(f"tiles of {sides}")
        pixels.append(math.prod(sides))
    if max(pixels) > MOST_PIXELS:
        raise _too_many_pixels(file)


def _too_many_pixels(file: str) -> RecollectError:
    return RecollectError(
        f"picture {file!r} has more than {MOST_PIXELS:,} pixels (2048 x 2048), and at most so many are read; resize it "
        "to what the network was trained on"
    )


def _check_size(file: str, size: tuple[int, ...], expected: tuple[int, ...], first: str) -> None:
    if size != expected:
        raise RecollectError(
            f"picture {file!r} is {size[1]} x {size[0]} pixels and {first!r} is "
            f"{expected[1]} x {expected[0]}, but all must be the same size; resize them to what the "
            "network was trained on"
        )


def _mode(mode: str, file: str) -> str:
    if mode in _GREY:
        return "L"
    if mode in _COLOUR:
        return "RGB"
    # Converting 16-bit grey to 8 bits would clip it to white without a word.
    raise RecollectError(
        f"picture {file!r} has pixel mode {mode}, but must have 8 bits per channel; convert it to 8 bits, or "
        "save the set as a .npz file of floats"
    )
