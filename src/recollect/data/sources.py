"""Labelled samples by name or by path."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable
from importlib import resources
from importlib.resources.abc import Traversable

from torch import Tensor

from recollect.core import RecollectError
from recollect.data.archive import read_archive
from recollect.data.folder import read_folder
from recollect.data.hub import HUB, read_hub
from recollect.data.images import LabelledImages, labelled
from recollect.data.tensors import read_safetensors, read_torch

SAMPLE = "sample"
SPLITS = ("train", "test")
STANDARD_NAMES = (SAMPLE, *HUB)
FOLDER_VARIABLE = "RECOLLECT_DATA"

READERS: dict[str, Callable[[str, str], tuple[Tensor, Tensor]]] = {
    ".npz": read_archive,
    ".safetensors": read_safetensors,
    ".pt": read_torch,
    ".pth": read_torch,
}


def load(name_or_path: str, split: str = "train") -> LabelledImages:
    """A standard set (mnist, cifar10, ...), the bundled ``sample``, or the user's own file or folder.

    A standard set is read from ``{name}_{split}.npz`` in the folder named by ``RECOLLECT_DATA``, or else
    through the ``datasets`` package. A path leads to an ``.npz``, ``.safetensors`` or ``.pt`` file, or to a
    folder with one sub-folder of pictures per class, and has no split. Names go before paths: a folder
    called ``mnist`` is ``./mnist``.

    >>> digits = load("sample", "test")
    >>> digits.name, digits.images.shape[1:]
    ('sample', torch.Size([1, 28, 28]))
    """
    if name_or_path in HUB:
        return _standard(name_or_path, _checked_split(split))
    if name_or_path == SAMPLE:
        return _bundled(_checked_split(split))
    return _users_own(name_or_path)


def _checked_split(split: str) -> str:
    if split not in SPLITS:
        raise RecollectError(f"there is no split {split!r}; choose {' or '.join(repr(known) for known in SPLITS)}")
    return split


def _standard(name: str, split: str) -> LabelledImages:
    file = f"{name}_{split}.npz"
    folder = os.environ.get(FOLDER_VARIABLE, "")
    path = os.path.join(os.path.expanduser(folder), file)
    if folder and os.path.isfile(path):
        return labelled(*read_archive(path, repr(path)), name=name, origin=repr(path))
    fetched = read_hub(name, split)
    if fetched is None:
        state = (
            f"{FOLDER_VARIABLE} names {folder!r}, which has no {file}" if folder else f"{FOLDER_VARIABLE} is not set"
        )
        raise RecollectError(
            f"{name!r} is not at hand: {state}, and the datasets package is not installed; set "
            f"{FOLDER_VARIABLE} to a folder holding {file} with keys images and labels, "
            "or pip install 'recollect[datasets]'"
        )
    return labelled(*fetched, name=name, origin=repr(name))


def _bundled(split: str) -> LabelledImages:
    file = _sample_folder().joinpath(f"{SAMPLE}_{split}.npz")
    if not file.is_file():
        raise RecollectError(
            f"the bundled sample lacks {file.name}, which every installation has; install recollect again"
        )
    with resources.as_file(file) as path:
        return labelled(*read_archive(str(path), "the bundled sample"), name=SAMPLE, origin="the bundled sample")


def _sample_folder() -> Traversable:
    return resources.files("recollect.data").joinpath("sample")


def _users_own(given: str) -> LabelledImages:
    path = os.path.expanduser(given)
    name = os.path.basename(os.path.abspath(path)) if "\0" not in path else path
    if os.path.isdir(path):
        return labelled(*read_folder(path, f"folder {given!r}"), name=name, origin=f"folder {given!r}")
    read = READERS.get(os.path.splitext(path)[1].lower())
    if os.path.isfile(path) and read is not None:
        return labelled(*read(path, repr(given)), name=name, origin=repr(given))
    if os.path.exists(path):
        raise RecollectError(
            f"{given!r} is not a kind of file that can be read; give {', '.join(READERS)} or a folder of pictures"
        )
    if read is not None or os.path.dirname(path):
        raise RecollectError(
            f"there is no file or folder at {given!r}; check the path, or name one of {', '.join(_names())}"
        )
    near = difflib.get_close_matches(given.lower().replace("-", "_"), _names(), n=1, cutoff=0.0)
    raise RecollectError(
        f"no data set or file is called {given!r}, the nearest name is {near[0]!r}; choose from "
        f"{', '.join(_names())}, or give a path"
    )


def _names() -> list[str]:
    return [*HUB, SAMPLE]
