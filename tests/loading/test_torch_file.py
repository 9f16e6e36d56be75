"""What torch.save writes is read back as torch.load reads it; claims that the file does not cover are refused."""

from __future__ import annotations

import io
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from recollect.loading.pickled import plain_values
from recollect.loading.plain import LARGEST_COUNT, NotPlainError
from recollect.loading.torch_file import read_torch_file

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int8, torch.uint8, torch.bool]


def refusal(path: Path) -> str:
    with pytest.raises(NotPlainError) as caught:
        read_torch_file(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("protocol", [2, 3])
def test_a_state_dict_is_what_was_saved(tmp_path: Path, protocol: int) -> None:
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Linear(3, 3))
    torch.save(net.state_dict(), tmp_path / "w.pt", pickle_protocol=protocol)
    found, expected = read_torch_file(tmp_path / "w.pt"), net.state_dict()
    assert isinstance(found, dict)
    assert list(found) == list(expected)
    assert all(torch.equal(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize("protocol", [4, 5])
def test_pickles_that_torch_load_does_not_read_are_refused(tmp_path: Path, protocol: int) -> None:
    torch.save({"w": torch.ones(2)}, tmp_path / "w.pt", pickle_protocol=protocol)
    assert "damaged" in refusal(tmp_path / "w.pt")


@pytest.mark.parametrize("dtype", DTYPES)
def test_views_strides_and_kinds_come_back(tmp_path: Path, dtype: torch.dtype) -> None:
    whole = (torch.arange(24) % 2).to(dtype).reshape(4, 6)
    held = {
        "whole": whole,
        "row": whole[1],
        "across": whole.T,
        "part": whole[1:3, ::2],
        "none": whole[:0],
        "one": whole[2, 3],
    }
    torch.save([held, (nn.Parameter(torch.ones(2)), 3, "text", None, True, 1.5)], tmp_path / "w.pt")
    found, rest = read_torch_file(tmp_path / "w.pt")  # type: ignore[misc]
    assert all(torch.equal(found[name], held[name]) and found[name].dtype == dtype for name in held)
    assert found["row"].untyped_storage().data_ptr() == found["whole"].untyped_storage().data_ptr()
    assert rest[1:] == (3, "text", None, True, 1.5)


@pytest.mark.parametrize(
    ("held", "said"),
    [
        (nn.Linear(2, 2), "could run code"),
        ({"w": torch.ones(3).to_sparse()}, "a sparse tensor"),
        ({"w": torch.empty(3, device="meta")}, "a tensor without values"),
        ({"w": torch.ones(1).expand(10**6)}, "claims 1,000,000 values of 1 that are stored"),
        ({"w": bytearray(3)}, "could run code"),
        ({(1, 2): torch.ones(1)}, "keys that are no names"),
        (OrderedDict(a=object()), "could run code"),
    ],
)
def test_anything_but_plain_tensors_is_refused(tmp_path: Path, held: object, said: str) -> None:
    torch.save(held, tmp_path / "w.pt")
    assert said in refusal(tmp_path / "w.pt")


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning", "ignore:TypedStorage:UserWarning")
def test_quantised_tensors_are_named(tmp_path: Path) -> None:
    torch.save({"w": torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)}, tmp_path / "w.pt")
    assert "QInt8Storage" in refusal(tmp_path / "w.pt")


def rewritten(path: Path, change, compression: int = zipfile.ZIP_STORED) -> None:
    """The same archive with other members, as ``change`` makes them from name and content."""
    with zipfile.ZipFile(path) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members:
            archive.writestr(name, change(name, content))


def test_sizes_are_compared_before_memory_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "w.pt"
    torch.save({"w": torch.ones(200)}, path)
    rewritten(path, lambda name, held: held.replace(b"K\xc8", b"K\xc9") if name.endswith(".pkl") else held)
    assert "claims 201 numbers where 200 are stored" in refusal(path)
    torch.save({"w": torch.ones(200)}, path)
    rewritten(path, lambda name, held: held[:-3] if name.endswith("data/0") else held)
    assert "claims 200 numbers where 199 are stored" in refusal(path)
    torch.save({"w": torch.zeros(10**6)}, path)
    rewritten(path, lambda name, held: held, zipfile.ZIP_DEFLATED)
    assert "its members are compressed" in refusal(path)
    torch.save({"w": torch.ones(4)}, path)
    rewritten(path, lambda name, held: b"big" if name.endswith("byteorder") else held)
    assert "byte order" in refusal(path)


def test_what_was_not_written_by_torch_save_is_named(tmp_path: Path) -> None:
    path = tmp_path / "w.pt"
    torch.save({"w": torch.ones(4)}, path, _use_new_zipfile_serialization=False)
    assert "since PyTorch 1.6" in refusal(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("notes.txt", "hello")
    assert "not written by torch.save" in refusal(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/data.pkl", pickle.dumps({}))
        archive.writestr("a/code/net.py", "boom")
    assert "TorchScript" in refusal(path)
    with zipfile.ZipFile(path, "w") as archive:
        for index in range(3):
            archive.writestr(f"a/{index}", "")
    content = bytearray(path.read_bytes())
    end = content.rindex(b"PK\x05\x06")
    content[end + 12 : end + 16] = (2**31).to_bytes(4, "little")
    path.write_bytes(content)
    assert "list of members" in refusal(path)


def test_many_tiny_tensors_are_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert LARGEST_COUNT >= 10_000
    monkeypatch.setattr("recollect.loading.torch_file.LARGEST_COUNT", 10)
    torch.save([torch.ones(1)[:] for _ in range(11)], tmp_path / "w.pt")
    assert "more than 10 tensors" in refusal(tmp_path / "w.pt")


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner, inner),
    max_leaves=20,
)


@settings(max_examples=60)
@given(PLAIN, st.sampled_from([2, 3, 4, 5]))
def test_plain_values_are_what_pickle_gives(value: object, protocol: int) -> None:
    content = pickle.dumps(value, protocol)
    try:
        found = plain_values(content, pytest.fail, pytest.fail)
    except NotPlainError as error:
        assert "LONG4" in str(error) or "8" in str(error)  # noqa: PT017 (numbers of 256 bytes are no shapes)
    else:
        assert found == pickle.loads(content)
        assert repr(found) == repr(pickle.loads(content))


def test_a_name_in_a_pickle_is_never_looked_up() -> None:
    content = io.BytesIO()
    pickle.Pickler(content, 4).dump(print)
    found = plain_values(content.getvalue(), pytest.fail, pytest.fail)
    assert found != print
    assert getattr(found, "path", "") == "builtins.print"
