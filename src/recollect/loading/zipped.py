"""Zip archives from anyone: what they claim is compared with the file's size before memory is asked for."""

from __future__ import annotations

import os
import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO

from recollect.loading.plain import LARGEST_COUNT, LARGEST_DESCRIPTION, NotPlainError

_PART = 2**20
_TAIL = 2**16 + 22 + 20 + 56
"""Where the end record of an archive must lie: behind it there is a comment of 64 KiB at most."""


@dataclass(frozen=True)
class Stored:
    """The members of an archive that is not compressed, as all of PyTorch's are, by name."""

    archive: zipfile.ZipFile
    members: dict[str, zipfile.ZipInfo]

    def read(self, name: str) -> bytearray:
        """One member, in no more memory than it takes."""
        member = self.members.get(name)
        if member is None:
            raise NotPlainError(f"it has no member {name!r}")
        content = bytearray(member.file_size)
        place = memoryview(content)
        with self.archive.open(member) as stream:
            while place.nbytes:
                part = stream.read(min(_PART, place.nbytes))
                if not part:
                    raise NotPlainError(f"its member {name!r} is cut short")
                place[: len(part)] = part
                place = place[len(part) :]
            stream.read(1)  # at the end the checksum is compared
        return content

    def read_description(self, name: str) -> bytes:
        member = self.members.get(name)
        if member is not None and member.file_size > LARGEST_DESCRIPTION:
            raise NotPlainError(f"its member {name!r} takes {member.file_size:,} bytes, more than any network needs")
        return bytes(self.read(name))


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[Stored]:
    """An uncompressed archive whose members fit in the file. Nothing is ever unpacked to disk."""
    with open(path, "rb") as file:
        require_small_directory(file)
        with zipfile.ZipFile(file) as archive:
            members = {info.filename: info for info in archive.infolist()}
            if len(members) != len(archive.infolist()):
                raise NotPlainError("two of its members have the same name")
            packed = [info for info in members.values() if info.compress_type != zipfile.ZIP_STORED]
            if packed or any(info.file_size != info.compress_size for info in members.values()):
                raise NotPlainError("its members are compressed, which PyTorch never does")
            if sum(info.file_size for info in members.values()) > os.fstat(file.fileno()).st_size:
                raise NotPlainError("its members claim more bytes than the file has")
            yield Stored(archive, members)


def require_small_directory(file: BinaryIO) -> None:
    """Refuse a list of members that would itself fill the memory; ``zipfile`` reads it whole."""
    size = file.seek(0, os.SEEK_END)
    start = file.seek(max(0, size - _TAIL))
    tail = file.read()
    end = tail.rfind(b"PK\x05\x06")
    if end < 0 or len(tail) < end + 22:
        raise NotPlainError("it is no whole zip archive")
    directory = struct.unpack_from("<L", tail, end + 12)[0]
    wide = tail.rfind(b"PK\x06\x06", 0, end)
    if wide >= 0 and len(tail) >= wide + 56:
        directory = max(directory if directory != 0xFFFFFFFF else 0, struct.unpack_from("<Q", tail, wide + 40)[0])
    if directory > min(start + end, LARGEST_COUNT * 100):
        raise NotPlainError("its list of members is longer than any network needs")
    file.seek(0)
