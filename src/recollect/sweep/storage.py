"""Where Optuna keeps a study: a journal in the run folder, or a database by URL."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from recollect.core import RecollectError
from recollect.sweep.settings import SweepConfig

JOURNAL = "study.journal"


def load_optuna() -> ModuleType:
    """Optuna, which only some sweeps need; it speaks up about what goes wrong and nothing else."""
    try:
        import optuna
    except ImportError as error:
        raise RecollectError(
            "this sweep needs Optuna, which is not installed: pip install 'recollect[sweep]', or use --sampler random "
            "without --storage."
        ) from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def open_storage(folder: Path, url: str | None) -> Any:
    optuna = load_optuna()
    if url is None:
        journal = folder / JOURNAL
        # The run folder is locked, so this lock is what a killed process left behind.
        journal.with_name(f"{JOURNAL}.lock").unlink(missing_ok=True)
        _cut_torn_line(journal)
        with reachable(str(journal)):
            return optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(journal)))
    with reachable(url):
        return _made_once(lambda: optuna.storages.RDBStorage(with_driver(url)))


def _cut_torn_line(journal: Path) -> None:
    """A full disk or a kill may leave half a line at the end, which Optuna could not read; nobody was told of it."""
    if not journal.is_file():
        return
    content = journal.read_bytes()
    if not content.endswith(b"\n"):
        with journal.open("r+b") as file:
            file.truncate(content.rfind(b"\n") + 1)


def _made_once(make: Callable[[], Any]) -> Any:
    """Two workers that find an empty database both make its tables: the slower one looks again."""
    for wait in (0.2, 0.5, 1.0, 2.0):
        try:
            return make()
        except Exception as error:
            if not any(sign in str(error) for sign in ("already exists", "duplicate key")):
                raise
            time.sleep(wait)
    return make()


def with_driver(url: str) -> str:
    """PostgreSQL by psycopg 3, which recollect[postgresql] brings, unless the URL names a driver.

    >>> with_driver("postgresql://me@host/db"), with_driver("sqlite:///study.db")
    ('postgresql+psycopg://me@host/db', 'sqlite:///study.db')
    """
    return re.sub(r"^postgres(ql)?://", "postgresql+psycopg://", url)


def anchored(url: str) -> str:
    """A SQLite file by its absolute path, so that a sweep can go on from any folder; other URLs as they are.

    >>> anchored("sqlite:////data/study.db"), anchored("sqlite:///:memory:"), anchored("postgresql://me@host/db")
    ('sqlite:////data/study.db', 'sqlite:///:memory:', 'postgresql://me@host/db')
    """
    file = _sqlite_file(url)
    if file is None or file.is_absolute():
        return url
    from sqlalchemy import make_url

    return make_url(url).set(database=str(Path.cwd() / file)).render_as_string(hide_password=False)


def _sqlite_file(url: str) -> Path | None:
    """None where it is no file, or cannot be told: whoever opens the storage says why."""
    try:
        from sqlalchemy import make_url

        known = make_url(url)
    except Exception:
        return None
    named = known.get_backend_name() == "sqlite" and known.database
    return None if not named or named.startswith((":", "file:")) else Path(named)


def require_storage(sweep: SweepConfig, writing: bool = True) -> None:
    """What is missing or unreachable is said before anything is computed; ``writing`` makes a study's tables too."""
    if sweep.by_optuna:
        load_optuna()
    if sweep.sampler == "qmc":
        _require_scipy()
    if sweep.storage is not None and writing:
        open_storage(Path(), sweep.storage)
    elif sweep.storage is not None:
        _require_answer(sweep.storage)


def _require_answer(url: str) -> None:
    from sqlalchemy import create_engine, inspect

    with reachable(url):
        file = _sqlite_file(url)
        if file is not None and not file.exists():  # a connection would make it
            if not os.access(file.parent, os.W_OK | os.X_OK):
                raise OSError(f"no file can be written in '{file.parent}'")
            return
        engine = create_engine(with_driver(url))
        try:
            inspect(engine).get_table_names()
        finally:
            engine.dispose()


def without_password(url: str) -> str:
    """A URL as it may be shown.

    >>> without_password("postgresql://me:secret@host/db")
    'postgresql://me:***@host/db'
    """
    return re.sub(r"(://[^:/@]*):[^@]*@", r"\1:***@", url)


@contextmanager
def reachable(url: str) -> Iterator[None]:
    try:
        yield
    except RecollectError:
        raise
    # A database driver may raise anything, or not be installed.
    except Exception as error:
        shown = without_password(url)
        said = without_password(str(_first(error))).strip().splitlines()
        reason = said[0][:200] if said else type(error).__name__
        raise RecollectError(
            f"the storage '{shown}' cannot be used ({reason}); give --storage a URL such as sqlite:///study.db or "
            "postgresql://user@host/database that can be reached, or leave it out; a sweep under way goes on with "
            "--resume."
        ) from error


def _first(error: BaseException) -> BaseException:
    """What Optuna's own errors came from: these guess at the cause, and guess wrong where a server is gone."""
    known = error.__cause__
    return _first(known) if known is not None and type(error).__module__.startswith("optuna") else error


def _require_scipy() -> None:
    if find_spec("scipy") is None:
        raise RecollectError("--sampler qmc needs SciPy: pip install 'recollect[sweep]', or use random or tpe.")
