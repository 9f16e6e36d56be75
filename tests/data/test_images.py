"""Raw arrays brought to one form, against NumPy arithmetic; every refusal in one sentence."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from recollect.core import RecollectError
from recollect.data.images import LARGEST_BYTES, labelled, pick_keys, require_size


def read(images: torch.Tensor, labels: torch.Tensor | None = None):
    labels = torch.zeros(len(images), dtype=torch.int64) if labels is None else labels
    return labelled(images, labels, name="mine", origin="mine.npz")


@settings(max_examples=40, deadline=None)
@given(arrays(np.uint8, array_shapes(min_dims=3, max_dims=3, max_side=6)))
def test_bytes_become_unit_floats_with_a_channel(pixels):
    got = read(torch.from_numpy(pixels)).images
    assert got.dtype == torch.float32
    np.testing.assert_allclose(got.numpy(), (pixels / np.float64(255))[:, None], rtol=1e-7, atol=0)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([1, 3]), st.integers(4, 6), st.integers(4, 6), st.integers(1, 3))
def test_channels_last_equals_channels_first(channels, height, width, count):
    first = torch.rand(count, channels, height, width, generator=torch.Generator().manual_seed(0))
    last = torch.from_numpy(np.moveaxis(first.numpy(), 1, -1).copy())
    assert torch.equal(read(last).images, first)
    assert torch.equal(read(first).images, first)
    assert read(last).images.is_contiguous()


def test_three_by_three_channels_first_is_left_alone():
    images = torch.rand(2, 3, 5, 3)
    assert torch.equal(read(images).images, images)


def test_vectors_keep_any_range():
    vectors = torch.tensor([[-7.5, 1e6], [0.25, 3.0]], dtype=torch.float64)
    got = read(vectors).images
    assert got.dtype == torch.float32
    assert torch.equal(got.double(), vectors)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_unit_floats_are_taken_as_they_are(dtype):
    images = torch.tensor([0.0, 0.25, 0.5, 1.0], dtype=dtype).reshape(1, 2, 2)
    assert read(images).images.flatten().tolist() == [0.0, 0.25, 0.5, 1.0]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_integer_labels_become_int64(dtype):
    got = read(torch.zeros(3, 4, 4), torch.tensor([2, 0, 1], dtype=dtype)).labels
    assert got.dtype == torch.int64
    assert got.tolist() == [2, 0, 1]


GREY = torch.zeros(2, 4, 4)
LABELS = torch.tensor([0, 1])


@pytest.mark.parametrize(
    ("images", "labels", "said"),
    [
        (torch.zeros(2), LABELS, "shape (2,)"),
        (torch.zeros(2, 1, 1, 4, 4), LABELS, "shape (2, 1, 1, 4, 4)"),
        (torch.zeros(2, 4, 4, 4), LABELS, "1 or 3 channels"),
        (GREY, LABELS[:, None], "labels of shape (2, 1)"),
        (GREY, torch.tensor([0, 1, 2]), "2 images and 3 labels"),
        (torch.zeros(0, 4, 4), LABELS[:0], "is empty"),
        (torch.zeros(2, 0, 4), LABELS, "is empty"),
        (GREY.int(), LABELS, "type int32"),
        (GREY.bool(), LABELS, "type bool"),
        (torch.zeros(2, 5, dtype=torch.int64), LABELS, "type int64"),
        (GREY.cfloat(), LABELS, "type complex64"),
        (torch.full_like(GREY, torch.nan), LABELS, "NaN or infinite"),
        (torch.tensor([[1.0], [torch.inf]]), LABELS, "NaN or infinite"),
        (torch.tensor([[1.0], [1e300]], dtype=torch.float64), LABELS, "NaN or infinite"),
        (GREY + 1.5, LABELS, "from 1.5 to 1.5"),
        (GREY - 0.5, LABELS, "from -0.5 to -0.5"),
        (GREY, LABELS.float(), "labels of type float32"),
        (GREY, LABELS.bool(), "labels of type bool"),
        (GREY.to_sparse(), LABELS, "dense"),
        (GREY.to("meta"), LABELS, "dense"),
        (torch.zeros(1).expand(2, 2**20, 2**20), LABELS, "8,192 GiB"),
    ],
)
def test_refusals_are_one_sentence(images, labels, said):
    with pytest.raises(RecollectError) as caught:
        read(images, labels)
    message = str(caught.value)
    assert said in message
    assert message.startswith("mine.npz")
    assert ";" in message
    assert "\n" not in message


def test_full_names_go_before_short_ones():
    assert pick_keys(["x", "images", "y", "labels"], "mine.npz") == ("images", "labels")


def test_missing_keys_name_those_present():
    with pytest.raises(RecollectError, match=r"mine\.npz holds 'pixels', 'y', but needs"):
        pick_keys(["y", "pixels"], "mine.npz")
    with pytest.raises(RecollectError, match="holds nothing, but"):
        pick_keys([], "mine.npz")
    with pytest.raises(RecollectError, match="and 92 more, but"):
        pick_keys([f"part{index}" for index in range(100)], "mine.npz")


def test_size_limit_is_inclusive():
    require_size(LARGEST_BYTES, "mine.npz")
    with pytest.raises(RecollectError, match="at most 16 GiB"):
        require_size(LARGEST_BYTES + 1, "mine.npz")
