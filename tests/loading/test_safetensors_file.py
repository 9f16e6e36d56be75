"""Tensors come out of a safetensors file as PyTorch would have placed them."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from recollect.data.tensors import read_safetensors
from recollect.loading.safetensors_file import read_safetensors_file

SAVED = {"images": torch.rand(3, 1, 5, 5), "labels": torch.arange(3)}
ALIGNED = 64


def test_what_is_read_starts_where_products_do_not_depend_on_the_file(tmp_path: Path) -> None:
    """Unlike what the library reads, without which the copies would be needless."""
    theirs = set()
    for length in range(8):  # of the header, padded to eight bytes
        path = tmp_path / f"{length}.safetensors"
        save_file(SAVED, path, metadata={"pad": "x" * 8 * length})
        read = read_safetensors_file(path)
        images, labels = read_safetensors(str(path), "it")
        assert {value.data_ptr() % ALIGNED for value in (*read.values(), images, labels)} == {0}
        assert all(torch.equal(read[name], value) for name, value in SAVED.items())
        assert torch.equal(images, SAVED["images"])
        theirs |= {value.data_ptr() % ALIGNED for value in load_file(path).values()}
    assert theirs != {0}
