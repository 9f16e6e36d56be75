"""Generated images as one picture: a row for each class, beside the nearest training images (TLDR 2024, Figs. 3-5)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from jaxtyping import Float
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from recollect.core import RecollectError
from recollect.report.grid import GAP, TILE_WIDTH, TITLE_HEIGHT
from recollect.report.parsing import read_object, read_tensors

FILE, SHOWN = "generated.json", "generated.safetensors"
_WHITE, _INK = (255, 255, 255), (40, 44, 52)
_MARGIN = 32
"""For the label of a row."""


def class_grid(
    images: Float[Tensor, "C k c h w"],
    nearest: Float[Tensor, "C k c h w"] | None,
    labels: Sequence[int],
    titles: Sequence[str],
) -> Image.Image:
    """A row for each class: generated images, then for each the training image that it is most like.

    Values lie in [0, 1]; what is outside is clamped. Pixels are enlarged by a whole number.

    >>> class_grid(torch.zeros(10, 6, 1, 28, 28), torch.ones(10, 6, 1, 28, 28), range(10), ["1"] * 6).size
    (760, 605)
    """
    rows, columns, _, height, width = images.shape
    scale = max(1, round(TILE_WIDTH / width))
    across, down = width * scale + 2, height * scale + 2
    halves = [images] if nearest is None else [images, nearest]
    size = (_MARGIN + len(halves) * (columns * across + 2 * GAP), TITLE_HEIGHT + rows * down + GAP)
    picture = Image.new("RGB", size, _WHITE)
    pen, font = ImageDraw.Draw(picture), ImageFont.load_default(size=12)
    for row, label in enumerate(labels):
        pen.text((_MARGIN / 2, TITLE_HEIGHT + (row + 0.5) * down), str(label), fill=_INK, font=font, anchor="mm")
    for half, part in enumerate(halves):
        left = _MARGIN + half * (columns * across + 2 * GAP)
        for column, title in enumerate(titles):
            words = title if half == 0 else "training"
            pen.text((left + (column + 0.5) * across, TITLE_HEIGHT / 2), words, fill=_INK, font=font, anchor="mm")
            for row in range(rows):
                tile = _tile(part[row, column], scale)
                picture.paste(tile, (left + column * across, TITLE_HEIGHT + row * down))
    return picture


def _tile(image: Float[Tensor, "c h w"], scale: int) -> Image.Image:
    values = image.detach().double().nan_to_num(nan=0.5).clamp(0, 1).expand(3, -1, -1).permute(1, 2, 0)
    pixels = (values * 255).round().to(torch.uint8).cpu().numpy()
    return Image.fromarray(pixels.repeat(scale, axis=0).repeat(scale, axis=1))


def generated_grid(folder: Path) -> Image.Image | None:
    """The picture of a run folder; None where nothing was generated, or what was cannot be drawn."""
    stored = read_tensors(folder / SHOWN, ("images", "labels", "nearest")) or {}
    record = read_object(folder / FILE)
    if record is None or "images" not in stored or stored["images"].ndim != 5 or 0 in stored["images"].shape:
        return None
    images, nearest = stored["images"], stored.get("nearest")
    if images.shape[2] not in (1, 3):
        return None
    labels = stored["labels"].tolist() if "labels" in stored else list(range(len(images)))
    if len(labels) != len(images) or (nearest is not None and nearest.shape != images.shape):
        raise RecollectError(
            f"{folder / SHOWN} holds images {list(images.shape)} that do not fit its labels or training images; run "
            "the match stage again."
        )
    generators = max(1, len(record.get("generators") or [1]))
    each = max(1, images.shape[1] // generators)
    return class_grid(images, nearest, labels, [str(column // each + 1) for column in range(images.shape[1])])
