"""Sets from the hub, with a stand-in for the datasets package: no network is used."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from recollect.core import RecollectError
from recollect.data.hub import read_hub

PIXELS = np.random.default_rng(0).integers(0, 256, (2, 4, 4, 3), dtype=np.uint8)


@pytest.mark.parametrize(
    ("name", "repository", "configuration", "columns"),
    [
        ("mnist", "ylecun/mnist", None, ("image", "label")),
        ("fashion_mnist", "zalando-datasets/fashion_mnist", None, ("image", "label")),
        ("cifar10", "uoft-cs/cifar10", None, ("img", "label")),
        ("cifar100", "uoft-cs/cifar100", None, ("img", "fine_label")),
        ("svhn", "ufldl-stanford/svhn", "cropped_digits", ("image", "label")),
    ],
)
def test_asks_for_the_right_set_and_columns(monkeypatch, name, repository, configuration, columns):
    asked = []

    def load_dataset(path, config, split):
        asked.append((path, config, split))
        return {columns[0]: [Image.fromarray(pixels) for pixels in PIXELS], columns[1]: [4, 7]}

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    images, labels = read_hub(name, "test")
    assert asked == [(repository, configuration, "test")]
    np.testing.assert_array_equal(images.numpy(), PIXELS)
    assert labels.tolist() == [4, 7]


def test_without_the_package_there_is_nothing(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    assert read_hub("mnist", "train") is None


def test_a_failed_download_says_what_to_do(monkeypatch):
    def load_dataset(path, config, split):
        raise ConnectionError("line one\nline two")

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    with pytest.raises(RecollectError, match=r"\(ConnectionError\).*folder holding svhn_train\.npz") as caught:
        read_hub("svhn", "train")
    assert "\n" not in str(caught.value)
