"""The grid's pixels are the images' pixels, in the order of the scores."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from recollect.core import RecollectError
from recollect.report.grid import GAP, TITLE_HEIGHT, image_grid, pair_grid


def tile(picture: np.ndarray, place: int, level: int, shape: tuple[int, int], columns: int, levels: int) -> np.ndarray:
    """One image cut out of a grid and shrunk to its own size, by the layout in words: title, image, image, gap."""
    height, width = shape
    scale = max(1, round(56 / width))
    row, column = divmod(place, columns)
    cell = levels * (height * scale + 2) + TITLE_HEIGHT + GAP
    top = row * cell + TITLE_HEIGHT + level * (height * scale + 2)
    left = GAP + column * (width * scale + GAP)
    block = picture[top : top + height * scale, left : left + width * scale]
    small = block[::scale, ::scale]
    assert (small.repeat(scale, 0).repeat(scale, 1) == block).all(), "pixels are enlarged, not interpolated"
    return small


def expected(image: Tensor) -> np.ndarray:
    grey = np.stack([np.asarray(image[c % len(image)].double()) for c in range(3)], axis=-1)
    return np.rint(np.clip(grey, 0, 1) * 255).astype(np.uint8)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 1000), n=st.integers(1, 9), channels=st.sampled_from([1, 3]),
    height=st.integers(2, 9), width=st.integers(2, 70), columns=st.integers(1, 5), limit=st.integers(1, 9),
)  # fmt: skip
def test_pairs_are_drawn_by_score(seed, n, channels, height, width, columns, limit):
    generator = torch.Generator().manual_seed(seed)
    above = 1.4 * torch.rand(n, channels, height, width, generator=generator) - 0.2
    below = torch.rand(n, channels, height, width, generator=generator, dtype=torch.float64)
    scores = torch.rand(n, generator=generator)
    scores[seed % n] = torch.nan
    picture = np.asarray(pair_grid(above, below, scores, columns=columns, limit=limit))
    known = [row for row in range(n) if row != seed % n]
    order = [*sorted(known, key=lambda row: -float(scores[row])), seed % n][:limit]
    assert picture.shape[0] % -(-len(order) // columns) == 0
    for place, row in enumerate(order):
        found = [tile(picture, place, level, (height, width), columns, 2) for level in (0, 1)]
        np.testing.assert_array_equal(found[0], expected(above[row]))
        np.testing.assert_array_equal(found[1], expected(below[row]))


def test_titles_are_the_scores():
    images = torch.zeros(1, 1, 28, 28)
    one, same, other = (np.asarray(pair_grid(images, images, [score])) for score in (0.931, 0.929, 0.5))
    assert (one == same).all()
    assert (one[:TITLE_HEIGHT] != other[:TITLE_HEIGHT]).any()
    assert (one[TITLE_HEIGHT:] == other[TITLE_HEIGHT:]).all()


def test_a_grid_holds_at_most_sixty_pairs_in_rows_of_fifteen():
    images = torch.zeros(70, 1, 28, 28)
    assert pair_grid(images, images, [0.0] * 70).size == (15 * (56 + GAP) + GAP, 4 * (2 * 58 + TITLE_HEIGHT + GAP))


def test_single_images_keep_their_order():
    images = torch.rand(4, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    picture = np.asarray(image_grid(images, ["4", "3", "2", "1"], columns=3, limit=4))
    for place in range(4):
        np.testing.assert_array_equal(tile(picture, place, 0, (8, 8), 3, 1), expected(images[place]))


def test_values_that_are_not_numbers_are_grey():
    broken = torch.full((1, 1, 4, 4), torch.nan)
    assert (tile(np.asarray(pair_grid(broken, broken, [0.5])), 0, 0, (4, 4), 15, 2) == 128).all()


@pytest.mark.parametrize(
    ("above", "below", "scores", "words"),
    [
        ((2, 1, 4, 4), (3, 1, 4, 4), 2, "one reference of the same shape"),
        ((2, 1, 4, 4), (2, 1, 4, 4), 3, "one score for each"),
        ((2, 2, 4, 4), (2, 2, 4, 4), 2, "one or three channels"),
        ((2, 16), (2, 16), 2, "reshape the samples"),
        ((0, 1, 4, 4), (0, 1, 4, 4), 0, "at least one image"),
    ],
)
def test_wrong_shapes_are_explained(above, below, scores, words):
    with pytest.raises(RecollectError, match=words):
        pair_grid(torch.zeros(above), torch.zeros(below), [0.0] * scores)


def test_no_columns_is_explained():
    with pytest.raises(RecollectError, match="columns is 0"):
        pair_grid(torch.zeros(1, 1, 4, 4), torch.zeros(1, 1, 4, 4), [0.0], columns=0)
