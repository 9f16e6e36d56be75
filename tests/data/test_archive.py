"""NumPy archives: what numpy.savez writes is read back, what lies about itself is refused."""

import contextlib
import io
import struct
import zipfile

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recollect.core import RecollectError
from recollect.data.archive import read_archive

PIXELS = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)
LABELS = np.array([1, 0], dtype=np.uint8)


def npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def header(description: str, version: int = 1) -> bytes:
    text = description.encode() + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(text)) + text


def write(path, images: bytes, labels: bytes | None = None):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("images.npy", images)
        archive.writestr("labels.npy", npy(LABELS) if labels is None else labels)
    return str(path)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("keys", [("images", "labels"), ("x", "y")])
@pytest.mark.parametrize("dtype", ["u1", "<f4", ">f4", "f2", "g", ">f8"])
def test_reads_what_numpy_writes(tmp_path, save, keys, dtype):
    array = PIXELS.astype(dtype)
    save(tmp_path / "mine.npz", **{keys[0]: array, keys[1]: LABELS, "notes": np.array("text")})
    images, labels = read_archive(str(tmp_path / "mine.npz"), "mine.npz")
    np.testing.assert_array_equal(images.numpy(), PIXELS)
    assert labels.tolist() == LABELS.tolist()
    assert (images.dtype == torch.uint8) == (dtype == "u1")


def test_reads_fortran_order(tmp_path):
    np.savez(tmp_path / "mine.npz", images=np.asfortranarray(PIXELS), labels=LABELS)
    assert torch.equal(read_archive(str(tmp_path / "mine.npz"), "mine.npz")[0], torch.from_numpy(PIXELS))


HUGE = "{'descr': '|u1', 'fortran_order': False, 'shape': (1000000, 1000, 1000), }"
NEGATIVE = "{'descr': '|u1', 'fortran_order': False, 'shape': (-2, -3, 4), }"
PLAIN = "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3, 4), }"


@pytest.mark.parametrize(
    ("images", "said"),
    [
        (header(HUGE) + PIXELS.tobytes(), "claims shape (1000000, 1000, 1000) but stores 24 bytes"),
        (header(NEGATIVE) + PIXELS.tobytes(), "claims shape (-2, -3, 4)"),
        (header(PLAIN) + PIXELS.tobytes() + b"more", "stores 28 bytes instead of 24"),
        (header(PLAIN, version=2) + PIXELS.tobytes(), "unusual header"),
        (header("{'descr': '|u1'}") + PIXELS.tobytes(), "cannot be read as a NumPy archive (ValueError)"),
        (b"not an array", "cannot be read as a NumPy archive (ValueError)"),
        (b"", "cannot be read as a NumPy archive (ValueError)"),
        (npy(PIXELS.astype(object)), "pickled Python objects"),
        (npy(PIXELS.astype("c8")), "has type complex64"),
        (npy(np.array(["one", "two"])), "has type <U3"),
        (npy(np.zeros(2, dtype=[("red", "u1")])), "must hold plain numbers"),
    ],
)
def test_refuses_what_is_not_plain_numbers(tmp_path, images, said):
    with pytest.raises(RecollectError) as caught:
        read_archive(write(tmp_path / "mine.npz", images), "mine.npz")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_pickled_labels_are_never_run(tmp_path):
    class Trap:
        def __reduce__(self):
            return (open, (str(tmp_path / "sprung"), "w"))

    np.savez(tmp_path / "mine.npz", images=PIXELS, labels=np.array([Trap(), Trap()], dtype=object))
    with pytest.raises(RecollectError, match=r"array 'labels' in mine\.npz holds pickled"):
        read_archive(str(tmp_path / "mine.npz"), "mine.npz")
    assert not (tmp_path / "sprung").exists()


def test_a_directory_that_claims_an_absurd_size_is_refused(tmp_path):
    path = write(tmp_path / "mine.npz", npy(PIXELS))
    content = bytearray((tmp_path / "mine.npz").read_bytes())
    entry = content.index(b"PK\x01\x02")
    content[entry + 24 : entry + 28] = struct.pack("<I", 0xFFFFFFF0)
    (tmp_path / "mine.npz").write_bytes(content)
    with pytest.raises(RecollectError, match="would unpack 97 bytes to 4,294,967,280"):
        read_archive(path, "mine.npz")


def test_a_member_that_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    zeros = npy(np.zeros((1, 1000, 1000), dtype=np.uint8))
    assert read_archive(write(tmp_path / "mine.npz", zeros, npy(LABELS[:1])), "mine.npz")[0].shape == (1, 1000, 1000)
    monkeypatch.setattr("recollect.data.images._SMALL", 2**10)
    with pytest.raises(RecollectError, match="to 1,000,128, as no real data do; write it again, uncompressed"):
        read_archive(write(tmp_path / "mine.npz", zeros), "mine.npz")


def test_a_list_of_members_beyond_the_file_is_refused(tmp_path):
    path = write(tmp_path / "mine.npz", npy(PIXELS))
    content = bytearray((tmp_path / "mine.npz").read_bytes())
    end = content.rindex(b"PK\x05\x06")
    content[end + 12 : end + 16] = struct.pack("<I", 2**31)
    (tmp_path / "mine.npz").write_bytes(content)
    with pytest.raises(RecollectError, match="its list of members is longer than any network needs"):
        read_archive(path, "mine.npz")


def test_members_beyond_the_limit_are_refused_before_reading(tmp_path, monkeypatch):
    monkeypatch.setattr("recollect.data.images.LARGEST_BYTES", 2**10)
    with pytest.raises(RecollectError, match=r"array 'images' in mine\.npz would take"):
        read_archive(write(tmp_path / "mine.npz", npy(np.zeros((1, 40, 40)))), "mine.npz")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_file_is_read_rightly_or_refused(tmp_path, data):
    path = tmp_path / "mine.npz"
    np.savez(path, images=PIXELS, labels=LABELS)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.integers(0, len(content)) | st.just(len(content)))])
    with contextlib.suppress(RecollectError):
        assert torch.equal(read_archive(str(path), "mine.npz")[0], torch.from_numpy(PIXELS))
