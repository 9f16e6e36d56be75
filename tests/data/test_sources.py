"""Names and paths lead to the right data; every dead end says where to go."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from safetensors.torch import save_file

from recollect.core import RecollectError
from recollect.data import load

PIXELS = np.random.default_rng(0).integers(0, 256, (4, 6, 5, 3), dtype=np.uint8)
LABELS = np.array([3, 1, 4, 1], dtype=np.uint8)
EXPECTED = torch.from_numpy((PIXELS / 255.0).transpose(0, 3, 1, 2).astype(np.float32))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of standard sets, with the datasets package out of reach."""
    monkeypatch.setenv("RECOLLECT_DATA", str(tmp_path))
    monkeypatch.setitem(sys.modules, "datasets", None)
    return tmp_path


def assert_loaded(given: str, name: str, split: str = "train", labels=tuple(LABELS)):
    got = load(given, split)
    torch.testing.assert_close(got.images, EXPECTED, rtol=1e-7, atol=1e-7)
    assert got.labels.tolist() == list(labels)
    assert got.name == name


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist", "cifar10", "cifar100", "svhn"])
@pytest.mark.parametrize("split", ["train", "test"])
def test_standard_names_are_read_from_the_folder(folder, name, split):
    np.savez(folder / f"{name}_{split}.npz", images=PIXELS, labels=LABELS)
    assert_loaded(name, name, split)
    with pytest.raises(RecollectError, match="is not at hand"):
        load(name, "test" if split == "train" else "train")


def test_the_hub_serves_what_the_folder_lacks(folder, monkeypatch):
    table = {"img": [Image.fromarray(pixels) for pixels in PIXELS], "label": LABELS.tolist()}
    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=lambda *_, split: table))
    assert_loaded("cifar10", "cifar10")
    np.savez(folder / "cifar10_train.npz", images=PIXELS, labels=LABELS[::-1])
    assert_loaded("cifar10", "cifar10", labels=LABELS[::-1])


def test_a_missing_set_says_how_to_get_it(folder, monkeypatch):
    advice = (
        "set RECOLLECT_DATA to a folder holding cifar10_train.npz with keys images and labels, "
        "or pip install 'recollect[datasets]'"
    )
    for value, state in (
        (str(folder), f"RECOLLECT_DATA names {str(folder)!r}"),
        ("", "RECOLLECT_DATA is not set"),
    ):
        monkeypatch.setenv("RECOLLECT_DATA", value)
        with pytest.raises(RecollectError) as caught:
            load("cifar10")
        assert advice in str(caught.value)
        assert state in str(caught.value)


def test_without_the_variable_the_current_folder_is_not_searched(folder, monkeypatch):
    write_npz(folder / "cifar10_train.npz")
    monkeypatch.chdir(folder)
    monkeypatch.delenv("RECOLLECT_DATA")
    with pytest.raises(RecollectError, match="RECOLLECT_DATA is not set"):
        load("cifar10")


def test_the_sample_is_read_from_the_package(tmp_path, monkeypatch):
    monkeypatch.setattr("recollect.data.sources._sample_folder", lambda: tmp_path)
    np.savez(tmp_path / "sample_test.npz", images=PIXELS, labels=LABELS)
    assert_loaded("sample", "sample", "test")
    with pytest.raises(RecollectError, match=r"lacks sample_train\.npz"):
        load("sample", "train")


@pytest.mark.parametrize("name", ["sample", "mnist"])
def test_unknown_splits_are_refused(name):
    with pytest.raises(RecollectError, match="no split 'valid'; choose 'train' or 'test'"):
        load(name, "valid")


def write_npz(path: Path) -> None:
    np.savez(path, images=PIXELS, labels=LABELS)


def write_safetensors(path: Path) -> None:
    save_file({"images": torch.from_numpy(PIXELS), "labels": torch.from_numpy(LABELS)}, path)


def write_torch(path: Path) -> None:
    torch.save((torch.from_numpy(PIXELS), torch.from_numpy(LABELS)), path)


@pytest.mark.parametrize(
    ("file", "write"),
    [
        ("mine.npz", write_npz),
        ("mine.safetensors", write_safetensors),
        ("mine.pt", write_torch),
        ("mine.pth", write_torch),
    ],
)
def test_own_files_are_read_whatever_the_split(tmp_path, file, write):
    write(tmp_path / file)
    assert_loaded(str(tmp_path / file), file, split="whatever")


def test_own_folder_of_pictures(tmp_path):
    for index, (kind, pixels) in enumerate(zip("aabb", PIXELS, strict=True)):
        (tmp_path / "mine" / kind).mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(tmp_path / "mine" / kind / f"{index}.png")
    assert_loaded(str(tmp_path / "mine") + "/", "mine", labels=(0, 0, 1, 1))


def test_a_home_path_is_expanded(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    write_npz(tmp_path / "mine.npz")
    assert_loaded("~/mine.npz", "mine.npz")


def test_names_go_before_folders(folder, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "mnist").mkdir()
    with pytest.raises(RecollectError, match="is not at hand"):
        load("mnist")
    with pytest.raises(RecollectError, match=r"folder './mnist' has no sub-folders"):
        load("./mnist")


@pytest.mark.parametrize(
    ("given", "nearest"), [("minst", "mnist"), ("SAMPLE", "sample"), ("Fashion-MNIST", "fashion_mnist")]
)
def test_unknown_names_get_the_nearest(given, nearest):
    with pytest.raises(RecollectError, match=f"called '{given}', the nearest name is '{nearest}'"):
        load(given)


def test_missing_and_unknown_files(tmp_path):
    for missing in ("mine.npz", str(tmp_path / "nowhere")):
        with pytest.raises(RecollectError, match="there is no file or folder at"):
            load(missing)
    (tmp_path / "mine.csv").write_text("1,2")
    with pytest.raises(RecollectError, match=r"not a kind of file that can be read; give \.npz"):
        load(str(tmp_path / "mine.csv"))


def test_a_bad_file_is_named_as_it_was_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.npz").write_bytes(b"not an archive")
    with pytest.raises(RecollectError, match=r"^'mine\.npz' cannot be read"):
        load("mine.npz")


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=30).map(lambda text: "no such " + text) | st.just("a" * 5000) | st.just(""))
def test_any_unknown_text_is_one_sentence(given):
    with pytest.raises(RecollectError) as caught:
        load(given)
    assert "\n" not in str(caught.value)
