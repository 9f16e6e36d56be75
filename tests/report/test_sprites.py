"""Sheets of tiles: every picture is where the page looks for it, equal ones once, and never too heavy."""

from __future__ import annotations

from io import BytesIO

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from recollect.report import sprites as module
from recollect.report.sprites import Sprites, sprites


def cut(made: Sprites, tile: int) -> np.ndarray:
    """The tile as the page shows it: a window on a sheet."""
    sheet, column, row = made.place(tile)
    picture = np.asarray(Image.open(BytesIO(made.sheets[sheet].content)).convert("RGB"))
    top, left = row * made.height, column * made.width
    return picture[top : top + made.height, left : left + made.width]


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 40), st.integers(1, 9), st.integers(1, 9), st.sampled_from([1, 3]))
def test_a_tile_is_the_image_it_was_made_from(n: int, height: int, width: int, channels: int) -> None:
    images = torch.rand(n, channels, height, width, generator=torch.Generator().manual_seed(n))
    made, (places,) = sprites([images])
    assert made.exact
    for image, tile in zip(images, places, strict=True):
        expected = (image.expand(3, -1, -1) * 255).round().byte().permute(1, 2, 0).numpy()
        np.testing.assert_array_equal(cut(made, tile), expected)


def test_tiles_go_on_over_several_sheets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHEET_SIDE", 20)
    images = torch.rand(30, 1, 6, 5)
    made, (places,) = sprites([images])
    assert (made.columns, made.rows, len(made.sheets)) == (4, 3, 3)
    assert [sheet.rows for sheet in made.sheets] == [3, 3, 2]
    expected = (images[29].expand(3, -1, -1) * 255).round().byte().permute(1, 2, 0).numpy()
    np.testing.assert_array_equal(cut(made, places[29]), expected)


def test_equal_pictures_share_a_tile_across_stacks() -> None:
    first, second = torch.rand(4, 1, 5, 5), torch.rand(2, 1, 5, 5)
    made, places = sprites([first, torch.cat([second, first[2:]]), first])
    assert made.count == 6
    assert places == [[0, 1, 2, 3], [4, 5, 2, 3], [0, 1, 2, 3]]


def test_values_that_are_no_colours_are_clamped_or_grey() -> None:
    made, (places,) = sprites([torch.tensor([-3.0, 9.0, torch.nan]).reshape(3, 1, 1, 1)])
    assert [int(cut(made, tile)[0, 0, 0]) for tile in places] == [0, 255, 128]


def test_large_pictures_are_shrunk_and_heavy_sheets_compressed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BYTE_LIMIT", 30_000)
    made, _ = sprites([torch.rand(8, 3, 120, 240)])
    assert (made.width, made.height) == (96, 48)
    assert not made.exact
    assert {sheet.kind for sheet in made.sheets} == {"webp"}
    assert sum(len(sheet.content) for sheet in made.sheets) <= 60_000


def test_many_pictures_get_smaller_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PIXEL_LIMIT", 10_000)
    made, _ = sprites([torch.rand(100, 1, 20, 20)])
    assert made.width == made.height == 10


def test_no_pictures_make_no_sheets() -> None:
    made, places = sprites([torch.rand(0, 1, 5, 5)])
    assert (made.count, made.sheets, places) == (0, (), [[]])
