"""``runs.db``: the rows of all runs in an SQLite file, so that listing them reads new runs only.

Invariant: the index says what a scan of the folder would say. It can be deleted at any time, and a
damaged or foreign one is made anew. A run that is being recorded never writes to it; the tools do,
any number of them at once.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from appl.tracing.format.store import make_folder
from appl.tracing.keeping.row import RunRow, row_of
from appl.tracing.reading import runs

if TYPE_CHECKING:
    import sqlite3

FILE = "runs.db"
VERSION = 1
_APPLICATION = 0x4150504C  # "APPL"
_BUSY_S = 5.0
_CHANGING = ("running", "unreadable")
_TABLE = """
CREATE TABLE IF NOT EXISTS runs (
    place TEXT PRIMARY KEY, size INTEGER NOT NULL, modified INTEGER NOT NULL,
    inode INTEGER NOT NULL, row TEXT NOT NULL
) WITHOUT ROWID
"""
_Stored = tuple[str, int, int, int, str]
_Known = dict[str, tuple[tuple[int, int, int], str]]


def rows(home: Path) -> list[RunRow]:
    """The rows of all runs of *home*, newest first; updates the index if it can be written.

    A run is read again when its file has changed, and each time while it is running.
    """
    files = dict(_files(home))
    with contextlib.ExitStack() as stack:
        connection = _opened(home, stack) if files or (home / FILE).exists() else None
        stored_rows = _stored(connection)
        rows_read: list[RunRow] = []
        fresh: list[_Stored] = []
        for place, (path, foreign) in files.items():
            stamp = _stamp(path)
            if stamp is None:
                continue
            row, stored = None, stored_rows.get(place)
            if stored is not None and stored[0] == stamp:
                with contextlib.suppress(ValueError, RecursionError):
                    data = json.loads(stored[1])
                    row = RunRow.from_data(path, data) if isinstance(data, dict) else None
            if row is None:
                row = row_of(path, foreign)
                if row.state not in _CHANGING and _stamp(path) == stamp:
                    fresh.append((place, *stamp, json.dumps(row.as_data())))
            rows_read.append(row)
        _store(connection, fresh, [place for place in stored_rows if place not in files])
    return sorted(rows_read, key=lambda row: (row.began, row.name), reverse=True)


def _files(home: Path) -> Iterator[tuple[str, tuple[Path, bool]]]:
    for foreign, paths in ((False, runs.paths(home)), (True, runs.foreign(home))):
        for path in paths:
            yield f"{path.parent.name}/{path.name}", (path, foreign)


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """Size, time and inode, which change when a file does; ``None`` when it is gone."""
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_size, facts.st_mtime_ns, facts.st_ino


def _opened(home: Path, stack: contextlib.ExitStack) -> sqlite3.Connection | None:
    """Opens the index, made anew if it is damaged; ``None`` if it cannot be opened or made."""
    import sqlite3 as sqlite  # only a run that keeps answers or an index in a file needs it

    path = home / FILE
    for _ in range(2):
        try:
            connection = _connect(sqlite, path)
        except sqlite.OperationalError:  # busy, or nothing may be written here
            return None
        except (sqlite.Error, OSError):
            if not _put_aside(path):
                return None
            continue
        stack.callback(connection.close)
        return connection
    return None


def _connect(sqlite: ModuleType, path: Path) -> sqlite3.Connection:
    """Opens the index. Raises ``sqlite3.Error`` or ``OSError`` unless it has this version."""
    make_folder(path.parent)
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    if not stat.S_ISREG(os.lstat(path).st_mode):
        raise OSError("it is not a regular file")
    connection: sqlite3.Connection = sqlite.connect(path, timeout=_BUSY_S, isolation_level=None)
    try:
        connection.execute("PRAGMA secure_delete=ON")
        # Two processes may make the index at once: the second waits here, and finds it made.
        connection.execute("BEGIN IMMEDIATE")
        (own,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables and (own, version) != (_APPLICATION, VERSION):
            raise sqlite.DatabaseError("another program's, or of another version")
        connection.execute(_TABLE)
        connection.execute(f"PRAGMA application_id={_APPLICATION}")
        connection.execute(f"PRAGMA user_version={VERSION}")
        columns = [row[1] for row in connection.execute("PRAGMA table_info(runs)")]
        if columns != ["place", "size", "modified", "inode", "row"]:
            raise sqlite.DatabaseError("a table of another form")
        connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return connection


def _put_aside(path: Path) -> bool:
    """Rename a file that is no index; true if the way is free. Only a regular file is renamed."""
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return False
        path.replace(path.with_suffix(".db.old"))
        for extra in ("-journal", "-wal", "-shm"):
            path.with_name(path.name + extra).unlink(missing_ok=True)
    except FileNotFoundError:  # another process did it
        return True
    except OSError:
        return False
    return True


def _stored(connection: sqlite3.Connection | None) -> _Known:
    if connection is None:
        return {}
    import sqlite3 as sqlite  # only a run that keeps answers or an index in a file needs it

    try:
        records = connection.execute(
            "SELECT place, size, modified, inode, row FROM runs"
        ).fetchall()
    except sqlite.Error:
        return {}
    return {
        place: ((size, modified, inode), text)
        for place, size, modified, inode, text in records
        if isinstance(place, str) and isinstance(text, str)
    }


def _store(
    connection: sqlite3.Connection | None, fresh: Sequence[_Stored], gone: Sequence[str]
) -> None:
    """Write the changed rows; another process at the same time writes the same."""
    if connection is None or not (fresh or gone):
        return
    import sqlite3 as sqlite  # only a run that keeps answers or an index in a file needs it

    with contextlib.suppress(sqlite.Error):
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?)", fresh)
        connection.executemany("DELETE FROM runs WHERE place = ?", [(place,) for place in gone])
        connection.execute("COMMIT")
