"""Files damaged in every way we could think of: bytes, whole members of an archive, values in JSON."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from random import Random
from typing import Any

_NASTY: tuple[Any, ...] = (
    None, True, -1, 0, 2**31, 2**63, 10**30, -(2**40), 1e308, -0.0, "", "x" * 300, "../../etc/passwd", "\x00", "<b>",
    [], {}, [[]], [1, "a"], {"as_int": 10**12}, "torch.ops.aten.from_file.default", "os.system", "__import__('os')",
)  # fmt: skip
_SPECIAL = (b"\x00" * 8, b"\xff" * 8, b"PK\x05\x06", b"PK\x01\x02", b"\x80\x02", b"cos\nsystem\n(", b"R.", b"\x93NUMPY")


def damaged(content: bytes, rng: Random) -> bytes:
    """One to four wounds; archives are opened, hurt inside and closed again with right checksums half of the time."""
    for _ in range(rng.randint(1, 4)):
        content = _wound(content, rng)
    return content


def _wound(content: bytes, rng: Random) -> bytes:
    if content[:2] == b"PK" and rng.random() < 0.6:
        inside = _inside_archive(content, rng)
        return content if inside is None else inside
    if content[:1] == b"{" and rng.random() < 0.7:
        return _json_value(content, rng)
    if _header_length(content) and rng.random() < 0.6:
        return _inside_header(content, rng)
    return rng.choice(_ON_BYTES)(content, rng)


def _replace(content: bytes, rng: Random) -> bytes:
    place = _place(content, rng)
    return content[:place] + bytes([rng.randrange(256)]) + content[place + 1 :]


def _number(content: bytes, rng: Random) -> bytes:
    place = _place(content, rng)
    value = rng.choice((0, 1, 2**31 - 1, 2**32 - 1, 2**40, 2**63 - 1, 2**64 - 1))
    width = rng.choice((2, 4, 8))
    return content[:place] + struct.pack("<Q", value)[:width] + content[place + width :]


def _insert(content: bytes, rng: Random) -> bytes:
    place = _place(content, rng)
    return content[:place] + rng.choice((*_SPECIAL, rng.randbytes(rng.randint(1, 20)))) + content[place:]


def _remove(content: bytes, rng: Random) -> bytes:
    place = _place(content, rng)
    return content[:place] + content[place + rng.randint(1, 40) :]


def _truncate(content: bytes, rng: Random) -> bytes:
    return content[: _place(content, rng)]


def _repeat(content: bytes, rng: Random) -> bytes:
    place = _place(content, rng)
    piece = content[place : place + rng.randint(1, 200)]
    return content[:place] + piece * rng.choice((2, 3, 50)) + content[place:]


def _grow(content: bytes, rng: Random) -> bytes:
    return content + rng.choice((b"\x00", b"\xff", b"[", b"(")) * rng.choice((1, 100, 100_000))


_ON_BYTES = (_replace, _replace, _number, _insert, _remove, _truncate, _repeat, _grow)


def _place(content: bytes, rng: Random) -> int:
    return rng.randrange(len(content) + 1)


def _inside_archive(content: bytes, rng: Random) -> bytes | None:
    """The same archive with one member hurt, renamed, doubled, left out or compressed."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    except Exception:  # it is damaged already
        return None
    if not members:
        return None
    chosen = rng.randrange(len(members))
    name, held = members[chosen]
    match rng.randrange(10):
        case 0:
            members.pop(chosen)
        case 1:
            members[chosen] = (rng.choice(("/etc/passwd", "../" + name, name + "/", members[0][0])), held)
        case 2:
            members.append((name + "2", b"\x00" * 10**6))
        case _:
            members[chosen] = (name, _wound(held, rng))
    rebuilt = io.BytesIO()
    with zipfile.ZipFile(rebuilt, "w", zipfile.ZIP_DEFLATED if rng.random() < 0.1 else zipfile.ZIP_STORED) as archive:
        for name, held in dict(members).items():
            archive.writestr(name, held)
    return rebuilt.getvalue()


def _json_value(content: bytes, rng: Random) -> bytes:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return _replace(content, rng)
    places = list(_places(value))
    if places:
        holder, key = rng.choice(places)
        match rng.randrange(6):
            case 0 if isinstance(holder, dict):
                del holder[key]
            case 1:
                other, there = rng.choice(places)
                holder[key] = json.loads(json.dumps(other[there]))
            case _:
                holder[key] = rng.choice(_NASTY)
    return json.dumps(value).encode()


def _places(value: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        holder = waiting.pop()
        keys = (
            list(holder) if isinstance(holder, dict) else list(range(len(holder))) if isinstance(holder, list) else []
        )
        found += [(holder, key) for key in keys]
        waiting += [holder[key] for key in keys]
    return found


def _header_length(content: bytes) -> int:
    """Of a safetensors file; 0 for anything else."""
    length = int.from_bytes(content[:8], "little")
    return length if content[8:9] == b"{" and 8 + length <= len(content) else 0


def _inside_header(content: bytes, rng: Random) -> bytes:
    length = _header_length(content)
    header = _json_value(content[8 : 8 + length].rstrip(b" "), rng)
    return len(header).to_bytes(8, "little") + header + content[8 + length :]
