"""The run folder: whole files or none, a lock, and words for every kind of damage."""

from __future__ import annotations

import errno
import json
import math
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import recollect
from recollect.core import RecollectError
from recollect.runs import FORMAT, RunFolder


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path / "run", "test", ("attack", "match"))


def names(folder: RunFolder) -> set[str]:
    return {path.name for path in folder.path.iterdir()} - {".lock"}


def test_a_new_folder_lists_its_stages(folder: RunFolder) -> None:
    folder.set_stage("attack", "done")
    assert RunFolder.open(folder.path).stages == {"attack": "done", "match": "pending"}


def test_tensors_come_back_bit_for_bit(folder: RunFolder) -> None:
    tensors = {"x": torch.randn(3, 4).T, "step": torch.tensor(7), "alive": torch.tensor([True, False])}
    folder.write_tensors("state.safetensors", tensors)
    back = folder.read_tensors("state.safetensors", ["x", "step"])
    assert back.keys() == tensors.keys()
    assert all(torch.equal(back[name], tensors[name]) and back[name].dtype == tensors[name].dtype for name in tensors)
    with pytest.raises(RecollectError, match="it has no tensor 'duals'"):
        folder.read_tensors("state.safetensors", ["duals"])


def test_what_json_cannot_say_becomes_null(folder: RunFolder) -> None:
    folder.write_json("summary.json", {"a": math.nan, "b": [math.inf, 1.5], "c": torch.tensor([1.0, math.nan])})
    assert json.loads((folder.path / "summary.json").read_text()) == {"a": None, "b": [None, 1.5], "c": [1.0, None]}


def test_the_summary_grows(folder: RunFolder) -> None:
    folder.update_summary({"steps": 5, "seed": 1})
    folder.update_summary({"steps": 6, "recovered": 2})
    assert folder.read_json("summary.json") == {"steps": 6, "seed": 1, "recovered": 2}


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("summary.json", lambda folder: folder.write_json("summary.json", {"value": 1})),
        ("x.safetensors", lambda folder: folder.write_tensors("x.safetensors", {"x": torch.ones(100)})),
    ],
)
def test_a_full_disk_is_named_and_loses_nothing(
    folder: RunFolder, name: str, write: Callable[[RunFolder], None]
) -> None:
    (folder.path / name).write_text("old")
    (folder.path / f".{name}.part").symlink_to("/dev/full")
    with pytest.raises(RecollectError, match=f"no space left on the device while writing '.*{name}'; free some"):
        write(folder)
    assert (folder.path / name).read_text() == "old"
    assert names(folder) == {"status.json", name}


def test_a_line_that_does_not_fit_on_the_disk_is_named(folder: RunFolder) -> None:
    (folder.path / "trace.jsonl").symlink_to("/dev/full")
    with pytest.raises(RecollectError, match="no space left on the device"):
        folder.append_line("trace.jsonl", {"step": 1})


def test_leftovers_of_a_kill_are_taken_over(folder: RunFolder) -> None:
    (folder.path / ".summary.json.part").write_text("half a fi")
    folder.write_json("summary.json", {"seed": 0})
    assert names(folder) == {"status.json", "summary.json"}


@given(st.integers(0, 400))
def test_lines_after_a_checkpoint_or_a_torn_one_are_dropped(tmp_path_factory, cut: int) -> None:
    folder = RunFolder.create(tmp_path_factory.mktemp("lines") / "run", "test", ("attack",))
    for step in range(0, 20, 2):
        folder.append_line("trace.jsonl", {"step": step, "loss": math.nan})
    path = folder.path / "trace.jsonl"
    path.write_bytes(path.read_bytes()[:cut])
    whole = path.read_bytes().count(b"\n")
    kept = [line["step"] for line in folder.keep_lines("trace.jsonl", "step", 12)]
    torn_off_newline_only = kept[whole:]
    assert kept[:whole] == list(range(0, 20, 2))[: min(whole, 7)]
    assert len(torn_off_newline_only) <= 1
    folder.append_line("trace.jsonl", {"step": 14})
    assert [line["step"] for line in folder.read_lines("trace.jsonl")] == [*kept, 14]


@pytest.mark.parametrize("content", ["5\n", '{"other": 1}\n', '{"step": "x"}\n', "\x00\x01", "{\n"])
def test_foreign_lines_are_dropped(folder: RunFolder, content: str) -> None:
    (folder.path / "trace.jsonl").write_text(content)
    assert folder.keep_lines("trace.jsonl", "step", 10) == []


def test_one_process_at_a_time(folder: RunFolder) -> None:
    with (
        folder.locked(),
        pytest.raises(RecollectError, match="another process is working on"),
        RunFolder(folder.path).locked(),
    ):
        pytest.fail("the lock was given twice")
    with folder.locked():
        pass


def test_errors_inside_the_lock_keep_their_own_words(folder: RunFolder) -> None:
    with pytest.raises(FileNotFoundError), folder.locked():
        raise FileNotFoundError("something else")


def test_a_running_run_is_not_replaced(folder: RunFolder) -> None:
    with folder.locked(), pytest.raises(RecollectError, match="another process"):
        RunFolder.create(folder.path, "test", ("attack",), overwrite=True)
    assert folder.has("status.json")


def test_existing_things_are_not_replaced_unasked(folder: RunFolder, tmp_path: Path) -> None:
    with pytest.raises(RecollectError, match=r"already holds a run; go on with --resume .* or choose"):
        RunFolder.create(folder.path, "test", ("attack",))
    other = tmp_path / "thesis"
    other.mkdir()
    (other / "thesis.tex").write_text("years of work")
    for overwrite in (False, True):
        with pytest.raises(RecollectError, match="holds other files and is no run folder; choose another with --out"):
            RunFolder.create(other, "test", ("attack",), overwrite)
        with pytest.raises(RecollectError, match="is a file; choose another folder"):
            RunFolder.create(other / "thesis.tex", "test", ("attack",), overwrite)
    with pytest.raises(RecollectError, match="cannot write"):
        RunFolder.create(other / "thesis.tex" / "run", "test", ("attack",))
    assert (other / "thesis.tex").read_text() == "years of work"


def test_a_replaced_run_leaves_nothing_behind(folder: RunFolder) -> None:
    folder.write_text("matches.json", "{}")
    RunFolder.create(folder.path, "test", ("train",), overwrite=True)
    assert names(folder) == {"status.json"}
    assert folder.stages == {"train": "pending"}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('{"format": 1, "name": "te', "cannot be read: it is damaged or incomplete"),
        ("", "cannot be read: it is damaged or incomplete"),
        ("[1]", "expected an object, found list"),
        ("\udcff", "cannot be read"),
        (json.dumps({"format": FORMAT + 1}), f"has run folder format {FORMAT + 1}, this version of recollect"),
        (json.dumps({"name": "old"}), "has run folder format None"),
        (json.dumps({"format": FORMAT, "name": "x"}), "lists no stages of a run"),
        (json.dumps({"format": FORMAT, "name": 5, "stages": {}}), "lists no stages of a run"),
    ],
)
def test_a_damaged_status_is_explained(folder: RunFolder, content: str, expected: str) -> None:
    (folder.path / "status.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(RecollectError) as caught:
        RunFolder.open(folder.path)
    assert expected in str(caught.value)


def test_no_run_folder_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in (tmp_path, tmp_path / "missing", tmp_path / "file"):
        with pytest.raises(RecollectError, match="is no run folder"):
            RunFolder.open(path)


@given(st.integers(0, 10**6))
def test_truncated_tensors_are_explained(tmp_path_factory, cut: int) -> None:
    folder = RunFolder.create(tmp_path_factory.mktemp("cut") / "run", "test", ("attack",))
    folder.write_tensors("x.safetensors", {"x": torch.ones(50)})
    path = folder.path / "x.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[: cut % len(content)])
    with pytest.raises(RecollectError, match=r"x\.safetensors' cannot be read"):
        folder.read_tensors("x.safetensors")


def test_a_kill_in_the_very_first_moment_does_not_block_the_folder(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / ".status.json.part").write_text('{"form')
    (run / ".lock").touch()
    assert RunFolder.create(run, "test", ("attack",)).stages == {"attack": "pending"}
    assert names(RunFolder(run)) == {"status.json"}


def test_of_two_processes_that_find_an_empty_folder_one_gets_it(tmp_path: Path) -> None:
    """Both look, both see nothing: here the other one is just writing, or has just written."""
    run = tmp_path / "run"
    run.mkdir()
    with RunFolder(run).locked(), pytest.raises(RecollectError, match="another process is working on"):
        RunFolder.create(run, "test", ("attack",))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("recollect.runs._holds_something", lambda path: False)
        RunFolder.create(run, "first", ("attack",))
        with pytest.raises(RecollectError, match="already holds a run"):
            RunFolder.create(run, "second", ("attack",))
    assert RunFolder.open(run).read_json("status.json")["name"] == "first"


def test_a_disk_without_locks_is_named(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    with pytest.raises(
        RecollectError, match=r"cannot be locked \(No locks available\); choose a folder on another disk"
    ):
        folder.locked().__enter__()


def test_a_diary_with_foreign_lines_keeps_its_own(folder: RunFolder) -> None:
    own = {"step": 1, "seconds": 0.5}
    foreign = [{"step": "1"}, {"step": True}, {"step": 1, "seconds": "late"}, {"step": None}, {"step": [1]}, 5]
    (folder.path / "trace.jsonl").write_text("".join(json.dumps(line) + "\n" for line in [own, *foreign]))
    assert folder.keep_lines("trace.jsonl", "step", 10) == [own]


def test_brackets_without_end_are_damage(folder: RunFolder) -> None:
    (folder.path / "summary.json").write_text("[" * 100_000)
    with pytest.raises(RecollectError, match=r"summary\.json' cannot be read: it is damaged or incomplete"):
        folder.read_json("summary.json")
    (folder.path / "trace.jsonl").write_text("[" * 100_000)
    assert folder.read_lines("trace.jsonl") == []


def test_files_from_the_future_do_no_harm(folder: RunFolder) -> None:
    folder.write_json("summary.json", {"steps": 5})
    for name in ("status.json", "summary.json", ".lock"):
        os.utime(folder.path / name, (4e9, 4e9))
    folder.update_summary({"seed": 1})
    folder.set_stage("attack", "done")
    assert RunFolder.open(folder.path).stages["attack"] == "done"
    assert folder.read_json("summary.json") == {"steps": 5, "seed": 1}


def test_no_clock_that_can_be_set_is_read() -> None:
    """Durations come from monotonic clocks alone; nothing compares dates of files."""
    source = Path(recollect.__file__).parent
    clocks = re.compile(r"time\.time\(|datetime\.now|st_mtime|getmtime|utcnow")
    assert [str(path) for path in source.rglob("*.py") if clocks.search(path.read_text())] == []
