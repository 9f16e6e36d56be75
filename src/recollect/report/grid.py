"""Pictures of pictures: each reconstruction above its training image, best first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, UInt8
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from recollect.core import RecollectError

TITLE_HEIGHT = 17
GAP = 8
TILE_WIDTH = 56  # small images are enlarged by whole numbers to about this width
_WHITE, _INK = (255, 255, 255), (40, 44, 52)


def pair_grid(
    reconstructions: Float[Tensor, "n c h w"],
    references: Float[Tensor, "n c h w"],
    scores: Float[Tensor, " n"] | Sequence[float],
    columns: int = 15,
    limit: int = 60,
) -> Image.Image:
    """Reconstructions above their references, the highest score first, each pair titled with its score.

    Values lie in [0, 1]; what is outside is clamped. Pixels are enlarged by a whole number and never
    interpolated. Pairs whose score is nan come last; at most ``limit`` pairs are drawn.

    >>> pair_grid(torch.zeros(3, 1, 28, 28), torch.ones(3, 1, 28, 28), [0.1, 0.9, 0.5], columns=2).size
    (136, 282)
    """
    if reconstructions.shape != references.shape or len(reconstructions) != len(scores):
        raise RecollectError(
            f"got reconstructions {list(reconstructions.shape)}, references {list(references.shape)} and "
            f"{len(scores)} scores; pass one reference of the same shape and one score for each."
        )
    values = torch.as_tensor(scores, dtype=torch.float64)
    ranks = values.nan_to_num(nan=-torch.inf).argsort(descending=True, stable=True)[:limit]
    titles = ["—" if values[row].isnan() else f"{float(values[row]):.2f}" for row in ranks]
    return _draw([reconstructions[ranks], references[ranks]], titles, columns)


def image_grid(
    images: Float[Tensor, "n c h w"], titles: Sequence[str], columns: int = 15, limit: int = 60
) -> Image.Image:
    """Images in the order given, each with its title: what an attacker without reference data sees."""
    return _draw([images[:limit]], list(titles)[:limit], columns)


def _draw(stack: Sequence[Float[Tensor, "n c h w"]], titles: Sequence[str], columns: int) -> Image.Image:
    _check(stack[0], columns)
    n, _, height, width = stack[0].shape
    scale = max(1, round(TILE_WIDTH / width))
    across, down = min(columns, n), -(-n // columns)
    cell_width, cell_height = width * scale + GAP, len(stack) * (height * scale + 2) + TITLE_HEIGHT + GAP
    picture = Image.new("RGB", (across * cell_width + GAP, down * cell_height), _WHITE)
    pen, font = ImageDraw.Draw(picture), ImageFont.load_default(size=12)
    tiles = [_enlarged(images, scale) for images in stack]
    for place, title in enumerate(titles):
        left, top = GAP + place % columns * cell_width, place // columns * cell_height
        pen.text((left + width * scale / 2, top + TITLE_HEIGHT / 2), title, fill=_INK, font=font, anchor="mm")
        for level, images in enumerate(tiles):
            corner = (left, top + TITLE_HEIGHT + level * (height * scale + 2))
            picture.paste(Image.fromarray(images[place]), corner)
    return picture


def _enlarged(images: Float[Tensor, "n c h w"], scale: int) -> UInt8[np.ndarray, "n H W 3"]:
    finite = images.detach().double().nan_to_num(nan=0.5).clamp(0, 1)
    colours = (finite * 255).round().to(torch.uint8).expand(-1, 3, -1, -1).permute(0, 2, 3, 1)
    return colours.cpu().numpy().repeat(scale, axis=1).repeat(scale, axis=2)


def _check(images: Tensor, columns: int) -> None:
    if images.ndim != 4 or images.shape[1] not in (1, 3) or 0 in images.shape:
        raise RecollectError(
            f"a grid shows at least one image [n, c, h, w] with one or three channels, got shape "
            f"{list(images.shape)}; reshape the samples first."
        )
    if columns < 1:
        raise RecollectError(f"columns is {columns}; choose at least 1.")
