"""Tensor files: written by the libraries themselves, read back equal; anything that could run is refused."""

import pytest
import torch
from safetensors.torch import save_file

from recollect.core import RecollectError
from recollect.data.tensors import read_safetensors, read_torch

IMAGES = torch.rand(3, 1, 4, 4, generator=torch.Generator().manual_seed(0))
LABELS = torch.tensor([0, 1, 1])


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "mine")


def assert_read(pair):
    assert torch.equal(pair[0], IMAGES)
    assert torch.equal(pair[1], LABELS)


@pytest.mark.parametrize("keys", [("images", "labels"), ("x", "y")])
def test_reads_safetensors(path, keys):
    save_file(dict(zip(keys, (IMAGES, LABELS), strict=True)), path)
    assert_read(read_safetensors(path, "mine"))


def test_refuses_damaged_safetensors(path):
    for content in (b"", b"\xff" * 64, (2**40).to_bytes(8, "little") + b"{}"):
        with open(path, "wb") as file:
            file.write(content)
        with pytest.raises(RecollectError, match="mine cannot be read as safetensors"):
            read_safetensors(path, "mine")


def test_safetensors_without_labels_names_what_is_there(path):
    save_file({"images": IMAGES, "targets": LABELS}, path)
    with pytest.raises(RecollectError, match="holds 'images', 'targets', but needs"):
        read_safetensors(path, "mine")


@pytest.mark.parametrize(
    "held",
    [
        {"images": IMAGES, "labels": LABELS},
        {"x": IMAGES, "y": LABELS, 3: "notes"},
        (IMAGES, LABELS),
        [IMAGES, LABELS],
    ],
)
def test_reads_torch_files(path, held):
    torch.save(held, path)
    assert_read(read_torch(path, "mine"))


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ({"images": IMAGES, "targets": LABELS}, "holds 'images', 'targets', but needs"),
        ({"images": IMAGES, "labels": [0, 1, 1]}, "a tuple of Tensor, list"),
        ((IMAGES, LABELS, LABELS), "a tuple of Tensor, Tensor, Tensor"),
        ((), "a tuple of nothing"),
        (IMAGES, "an object of type Tensor"),
        (5, "an object of type int"),
    ],
)
def test_refuses_other_contents(path, held, said):
    torch.save(held, path)
    with pytest.raises(RecollectError) as caught:
        read_torch(path, "mine")
    assert said in str(caught.value)


class Trap:
    """Unpickling one opens a file: nothing that is read may do so."""

    def __init__(self, sprung):
        self.sprung = sprung

    def __reduce__(self):
        return (open, (self.sprung, "w"))


def test_pickled_objects_are_never_run(path, tmp_path):
    torch.save({"images": Trap(str(tmp_path / "sprung")), "labels": LABELS}, path)
    with pytest.raises(RecollectError, match="refused, for safety") as caught:
        read_torch(path, "mine")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("content", [b"", b"not a tensor file", b"PK\x03\x04 cut short", b"\x80\x02}q\x00."])
def test_refuses_damaged_torch_files(path, content):
    with open(path, "wb") as file:
        file.write(content)
    with pytest.raises(RecollectError, match="mine cannot be read as plain tensors"):
        read_torch(path, "mine")


def test_a_header_that_claims_more_than_any_network_needs_is_refused(path):
    with open(path, "wb") as file:
        file.write((9 * 2**20).to_bytes(8, "little") + b"{" + b" " * (9 * 2**20))
    with pytest.raises(RecollectError, match="mine cannot be read as safetensors"):
        read_safetensors(path, "mine")
