"""The record of time: whoever writes it down, it stays whole."""

from __future__ import annotations

import threading
from pathlib import Path

from recollect.audit.budget import Ledger
from recollect.core import RecollectError
from recollect.runs import RunFolder


def test_many_may_note_the_time_at_once(tmp_path: Path) -> None:
    folder, ledger = RunFolder(tmp_path), Ledger(60.0)
    failures: list[RecollectError] = []

    def note() -> None:
        try:
            for _ in range(200):
                ledger.note(folder)
        except RecollectError as error:
            failures.append(error)

    writers = [threading.Thread(target=note) for _ in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert not failures
    assert Ledger.of(folder, 60.0).spent > 0
