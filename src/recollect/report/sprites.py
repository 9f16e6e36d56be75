"""All pictures of a page on a few sheets: one picture is one tile, and equal pictures share a tile."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO

import numpy as np
import torch
from jaxtyping import Float, UInt8
from PIL import Image
from torch import Tensor
from torch.nn import functional as F

LONGEST_SIDE = 96
PIXEL_LIMIT = 24_000_000
BYTE_LIMIT = 5_500_000
"""For all sheets together: base64 adds a third, and a page with charts and numbers stays below 10 MB."""
SHEET_SIDE = 2048
_SHOWN_WIDTH = 72  # small tiles are enlarged by whole numbers to about this width
_LARGE_WIDTH = 190
_QUALITIES = (("png", 100), ("webp", 85), ("webp", 60), ("webp", 30))


@dataclass(frozen=True)
class Sheet:
    """An image file full of tiles."""

    kind: str
    content: bytes
    rows: int

    @property
    def uri(self) -> str:
        return f"data:image/{self.kind};base64,{b64encode(self.content).decode()}"


@dataclass(frozen=True)
class Sprites:
    """Tiles in reading order, over one sheet after the other."""

    width: int
    height: int
    columns: int
    rows: int
    """Of a full sheet; the last one may have fewer."""
    count: int
    sheets: tuple[Sheet, ...]
    exact: bool
    """Whether tiles have the very pixels they were made from: neither shrunk nor compressed with loss."""

    @property
    def zoom(self) -> int:
        return max(1, round(_SHOWN_WIDTH / self.width))

    @property
    def large_zoom(self) -> int:
        """Where one item is shown alone."""
        return max(1, round(_LARGE_WIDTH / self.width))

    def place(self, tile: int) -> tuple[int, int, int]:
        """Sheet, column and row of a tile."""
        sheet, rest = divmod(tile, self.columns * self.rows)
        return sheet, rest % self.columns, rest // self.columns


def sprites(stacks: Sequence[Float[Tensor, "n c h w"]]) -> tuple[Sprites, list[list[int]]]:
    """Sheets for several stacks of images of one shape, and for each stack the tiles of its images.

    Values lie in [0, 1]; what is outside is clamped, what is no number is grey. Many or large images are shrunk, and
    compressed with loss when the sheets would be too heavy for a page.

    >>> made, tiles = sprites([torch.zeros(3, 1, 4, 4), torch.rand(2, 1, 4, 4)])
    >>> tiles, made.count, len(made.sheets)
    ([[0, 0, 0], [1, 2]], 3, 1)
    """
    native = stacks[0].shape[-2:]
    size = _tile_size(int(native[0]), int(native[1]), sum(len(stack) for stack in stacks))
    found: dict[bytes, int] = {}
    kept: list[UInt8[np.ndarray, "h w c"]] = []
    places: list[list[int]] = []
    for stack in stacks:
        places.append([])
        for image in _pixels(stack, size):
            number = found.setdefault(image.tobytes(), len(kept))
            if number == len(kept):
                kept.append(image)
            places[-1].append(number)
    height, width = size
    columns, rows = max(1, min(SHEET_SIDE // width, len(kept))), SHEET_SIDE // height
    parts = [kept[first : first + columns * rows] for first in range(0, len(kept), columns * rows)]
    canvases = [_canvas(part, columns) for part in parts]
    sheets = _encode(canvases, height)
    exact = size == tuple(native) and all(sheet.kind == "png" for sheet in sheets)
    return Sprites(width, height, columns, rows, len(kept), sheets, exact), places


def _tile_size(height: int, width: int, count: int) -> tuple[int, int]:
    shrink = min(1.0, LONGEST_SIDE / max(height, width))
    shrink = min(shrink, (PIXEL_LIMIT / max(1, count * height * width)) ** 0.5)
    return max(1, int(height * shrink)), max(1, int(width * shrink))


def _pixels(images: Float[Tensor, "n c h w"], size: tuple[int, int]) -> UInt8[np.ndarray, "n h w c"]:
    clean = images.detach().cpu().float().nan_to_num(nan=0.5).clamp(0, 1)
    if clean.shape[-2:] != size and len(clean):
        clean = F.interpolate(clean, size, mode="area")
    return (clean * 255).round().to(torch.uint8).permute(0, 2, 3, 1).contiguous().numpy()


def _canvas(tiles: list[UInt8[np.ndarray, "h w c"]], columns: int) -> Image.Image:
    height, width, channels = tiles[0].shape
    across, down = min(columns, len(tiles)), -(-len(tiles) // columns)
    canvas = np.full((down * height, across * width, channels), 255, dtype=np.uint8)
    for place, tile in enumerate(tiles):
        top, left = place // columns * height, place % columns * width
        canvas[top : top + height, left : left + width] = tile
    return Image.fromarray(canvas.squeeze(2) if channels == 1 else canvas)


def _encode(canvases: list[Image.Image], tile_height: int) -> tuple[Sheet, ...]:
    raw = sum(canvas.height * canvas.width * len(canvas.getbands()) for canvas in canvases)
    sheets: tuple[Sheet, ...] = ()
    for kind, quality in _QUALITIES[0 if raw < 4 * BYTE_LIMIT else 1 :]:  # no PNG packs pictures four times smaller
        sheets = tuple(Sheet(kind, _file(canvas, kind, quality), canvas.height // tile_height) for canvas in canvases)
        if sum(len(sheet.content) for sheet in sheets) <= BYTE_LIMIT:
            break
    return sheets


def _file(canvas: Image.Image, kind: str, quality: int) -> bytes:
    buffer = BytesIO()
    if kind == "png":
        canvas.save(buffer, format="PNG", optimize=True)
    else:
        canvas.convert("RGB").save(buffer, format="WEBP", quality=quality, method=2)
    return buffer.getvalue()
