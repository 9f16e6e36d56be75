"""The run folder: the only interface between search, judgement and report.

Every file is written under a temporary name and renamed, so a kill at any moment leaves the old file or the new
one. docs/run-folder.md describes the format.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors.torch import save
from torch import Tensor

from recollect import __version__
from recollect.core import RecollectError
from recollect.file_trouble import explained, readable
from recollect.loading.safetensors_file import read_safetensors_file

FORMAT = 1


class RunFolder:
    """Reads and writes the files of one run. Stages are ``pending``, ``running`` or ``done``."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(
        cls,
        path: Path,
        name: str,
        plan: tuple[str, ...],
        overwrite: bool = False,
        facts: Mapping[str, Any] | None = None,
    ) -> RunFolder:
        """A new folder with nothing but its status, where ``facts`` stand beside the stages."""
        folder = cls(path)
        if path.exists() and not path.is_dir():
            raise RecollectError(f"'{path}' is a file; choose another folder with --out.")
        if _holds_something(path):
            if not folder.has("status.json"):
                raise RecollectError(f"'{path}' holds other files and is no run folder; choose another with --out.")
            if not overwrite:
                raise _already(path)
            with folder.locked(), explained(path):
                shutil.rmtree(path)
        with explained(path):
            path.mkdir(parents=True, exist_ok=True)
        status = {
            "format": FORMAT,
            "version": __version__,
            "name": name,
            "stages": dict.fromkeys(plan, "pending"),
        }
        with folder.locked():  # two processes may have found the folder empty at the same time
            if folder.has("status.json"):
                raise _already(path)
            folder.write_json("status.json", status | dict(facts or {}))
        return folder

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        folder = cls(path)
        if not folder.has("status.json"):
            raise RecollectError(
                f"'{path}' is no run folder (it has no status.json); give a folder that recollect wrote."
            )
        status = folder.read_json("status.json")
        if status.get("format") != FORMAT:
            raise RecollectError(
                f"'{path}' has run folder format {status.get('format')}, this version of recollect ({__version__}) "
                f"reads format {FORMAT}; use the version that wrote it."
            )
        if not isinstance(status.get("stages"), dict) or not isinstance(status.get("name"), str):
            raise RecollectError(
                f"'{path / 'status.json'}' is damaged, it lists no stages of a run; start anew with --overwrite."
            )
        return folder

    @property
    def stages(self) -> dict[str, str]:
        return self.read_json("status.json")["stages"]

    def set_stage(self, stage: str, value: str) -> None:
        status = self.read_json("status.json")
        status["stages"][stage] = value
        self.write_json("status.json", status)

    def has(self, name: str) -> bool:
        return (self.path / name).is_file()

    def subfolder(self, name: str) -> RunFolder:
        return RunFolder(self.path / name)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One process at a time works on a run folder; the lock goes with the process, however it ends."""
        with explained(self.path):
            handle = (self.path / ".lock").open("w")
        with handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise RecollectError(
                    f"another process is working on '{self.path}'; wait for it or choose --out."
                ) from error
            except OSError as error:
                raise RecollectError(
                    f"'{self.path}' cannot be locked ({error.strerror}); choose a folder on another disk with --out."
                ) from error
            yield

    def read_json(self, name: str) -> dict[str, Any]:
        with readable(self.path / name):
            value = json.loads((self.path / name).read_text(encoding="utf-8"))
            if not isinstance(value, dict):
                raise ValueError(f"expected an object, found {type(value).__name__}")
            return value

    def write_json(self, name: str, value: Any) -> None:
        text = json.dumps(_without_nan(value), indent=2, allow_nan=False) + "\n"
        self.write_text(name, text)

    def update_summary(self, values: Mapping[str, Any]) -> None:
        """``summary.json`` grows as stages finish."""
        known = self.read_json("summary.json") if self.has("summary.json") else {}
        self.write_json("summary.json", known | dict(values))

    def write_text(self, name: str, text: str) -> None:
        self._write(name, lambda path: path.write_text(text, encoding="utf-8"))

    def write_tensors(self, name: str, tensors: Mapping[str, Tensor]) -> None:
        plain = {key: value.detach().cpu().contiguous() for key, value in tensors.items()}
        # save_file would make a temporary file of its own, which a kill leaves behind.
        content = save(plain, metadata={"format": str(FORMAT)})
        self._write(name, lambda path: path.write_bytes(content))

    def read_tensors(self, name: str, needed: Sequence[str] = ()) -> dict[str, Tensor]:
        with readable(self.path / name):
            tensors = read_safetensors_file(self.path / name)
            for missing in set(needed) - tensors.keys():
                raise ValueError(f"it has no tensor '{missing}'")
            return tensors

    def remove(self, name: str) -> None:
        (self.path / name).unlink(missing_ok=True)

    def append_line(self, name: str, value: Any) -> None:
        with explained(self.path / name), (self.path / name).open("a", encoding="utf-8") as handle:
            handle.write(json.dumps(_without_nan(value), allow_nan=False) + "\n")

    def keep_lines(self, name: str, key: str, largest: int) -> list[dict[str, Any]]:
        """Drop lines written after the state that a run is resumed from; they will be written again."""
        lines = self.read_lines(name) if self.has(name) else []
        kept = [line for line in lines if _is_number(line.get(key)) and line[key] <= largest]
        kept = [line for line in kept if _is_number(line.get("seconds", 0))]
        self.write_text(name, "".join(json.dumps(line) + "\n" for line in kept))
        return kept

    def read_lines(self, name: str) -> list[dict[str, Any]]:
        with readable(self.path / name):
            lines = (self.path / name).read_text(encoding="utf-8", errors="replace").splitlines()
        parsed = []
        for line in lines:
            try:
                parsed.append(json.loads(line))
            except (ValueError, RecursionError):
                break  # a kill in the middle of a line: what follows is not there either
        return [line for line in parsed if isinstance(line, dict)]

    def _write(self, name: str, write: Callable[[Path], Any]) -> None:
        path = self.path / name
        temporary = path.with_name(f".{path.name}.part")  # the next write takes over what a kill left behind
        with explained(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                write(temporary)
                os.replace(temporary, path)
            finally:
                temporary.unlink(missing_ok=True)


def _already(path: Path) -> RecollectError:
    return RecollectError(
        f"'{path}' already holds a run; go on with --resume {path}, start anew with --overwrite, "
        "or choose another folder with --out."
    )


def _holds_something(path: Path) -> bool:
    """Besides what a kill in the very first moment leaves behind."""
    with readable(path):
        return path.is_dir() and any(entry.name not in (".lock", ".status.json.part") for entry in path.iterdir())


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _without_nan(value: Any) -> Any:
    """JSON has no NaN and no infinity; both become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _without_nan(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(inner) for inner in value]
    if isinstance(value, Tensor):
        return _without_nan(value.tolist())
    return value
