"""Tensors come out of a safetensors file as PyTorch would have placed them."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from recollect.data.tensors import read_safetensors
from recollect.loading.safetensors_file import read_safetensors_file

SAVED = {"images": torch.rand(3, 1, 5, 5), "labels": torch.arange(3)}


def test_what_is_read_starts_where_products_do_not_depend_on_the_file(tmp_path: Path) -> None:
    for length in range(8):  # of the header, padded to eight bytes
        path = tmp_path / f"{length}.safetensors"
        save_file(SAVED, path, metadata={"pad": "x" * 8 * length})
        read = read_safetensors_file(path)
        images, labels = read_safetensors(str(path), "it")
        assert {value.data_ptr() % 64 for value in (*read.values(), images, labels)} == {0}
        assert all(torch.equal(read[name], value) for name, value in SAVED.items())
        assert torch.equal(images, SAVED["images"])


def test_the_library_alone_places_some_elsewhere(tmp_path: Path) -> None:
    """Were this to fail, the copies would be needless."""
    places = set()
    for length in range(8):
        path = tmp_path / f"{length}.safetensors"
        save_file(SAVED, path, metadata={"pad": "x" * 8 * length})
        with safe_open(path, framework="pt") as file:
            places.add(file.get_tensor("images").data_ptr() % 64)
    assert places != {0}
