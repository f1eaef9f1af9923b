"""The journal of served runs: each request with its arguments, and its result.

Invariant: what was accepted is on disk before its program begins, and its result before a client
gets it. A server owns the rows that it has accepted as long as it lives; those of a dead one may be
taken by the next that serves the same file.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OPEN = ("accepted", "interrupted")
"""States of runs that a server has still to end."""
_WAIT_S = 60.0
_TABLE = """
CREATE TABLE IF NOT EXISTS served_runs (
    run TEXT PRIMARY KEY, file TEXT NOT NULL, function TEXT NOT NULL, arguments TEXT NOT NULL,
    key TEXT, owner TEXT NOT NULL, state TEXT NOT NULL, value TEXT, due REAL, usage TEXT,
    accepted_at REAL NOT NULL, changed_at REAL NOT NULL
) WITHOUT ROWID;
CREATE UNIQUE INDEX IF NOT EXISTS served_keys ON served_runs (file, function, key);
"""
_ROW = "run, file, function, arguments, key, state, value, due, usage"


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """A served run as the journal has it.

    ``value`` is JSON: the result of one that finished, the error of one that failed, what a waiting
    one waits for. ``due`` is when a waiting one may go on by itself, in seconds since 1970.
    """

    run: str
    file: str
    function: str
    arguments: str
    key: str | None
    state: str
    value: str | None
    due: float | None
    usage: str | None


class Journal:
    """The journal in the folder *home*; may be used from any thread, and blocks."""

    def __init__(self, home: Path) -> None:
        self._home, self._lock = home, threading.Lock()
        home.mkdir(parents=True, exist_ok=True)
        path = home / "served.db"
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))  # arguments are nobody else's
        self._base = sqlite3.connect(
            path, timeout=_WAIT_S, isolation_level=None, check_same_thread=False
        )
        self._base.execute("PRAGMA journal_mode = WAL")
        self._base.execute("PRAGMA synchronous = FULL")
        self._base.executescript(_TABLE)
        self.owner = secrets.token_hex(8)
        alive = _locked(self._place(self.owner))
        assert alive is not None, "nobody else has this name"
        self._alive = alive

    def close(self) -> None:
        """Give up the ownership of all rows."""
        with self._lock:
            self._base.close()
        self._place(self.owner).unlink(missing_ok=True)
        os.close(self._alive)

    def add(
        self, run: str, file: str, function: str, arguments: str, key: str | None
    ) -> JournalEntry:
        """The new run *run*, or the one that was accepted before with this *key*."""
        now = time.time()
        with self._lock:
            self._base.execute(
                "INSERT OR IGNORE INTO served_runs"
                " VALUES (?, ?, ?, ?, ?, ?, ?, NULL, NULL, NULL, ?, ?)",
                (run, file, function, arguments, key, self.owner, "accepted", now, now),
            )
            found = self._base.execute(
                f"SELECT {_ROW} FROM served_runs WHERE run = ?"
                " OR (file = ? AND function = ? AND key = ?)",
                (run, file, function, key),
            ).fetchone()
        return JournalEntry(*found)

    def change(
        self,
        run: str,
        state: str,
        value: str | None,
        due: float | None = None,
        usage: str | None = None,
    ) -> None:
        """Note the *state* of *run*, with its *usage*."""
        with self._lock:
            self._base.execute(
                "UPDATE served_runs SET state = ?, value = ?, due = ?, usage = ?, changed_at = ?"
                " WHERE run = ?",
                (state, value, due, usage, time.time(), run),
            )

    def claim(self, run: str) -> None:
        """Take the ended or waiting *run* to go on with it, whoever has accepted it."""
        with self._lock:
            self._base.execute(
                "UPDATE served_runs SET state = 'accepted', owner = ?, value = NULL, due = NULL,"
                " changed_at = ? WHERE run = ?",
                (self.owner, time.time(), run),
            )

    def find(self, run: str) -> JournalEntry | None:
        """The run *run*."""
        with self._lock:
            found = self._base.execute(
                f"SELECT {_ROW} FROM served_runs WHERE run = ?", (run,)
            ).fetchone()
        return JournalEntry(*found) if found else None

    def keyed(self, file: str, function: str, key: str) -> JournalEntry | None:
        """The run that was accepted with *key*."""
        with self._lock:
            found = self._base.execute(
                f"SELECT {_ROW} FROM served_runs WHERE file = ? AND function = ? AND key = ?",
                (file, function, key),
            ).fetchone()
        return JournalEntry(*found) if found else None

    def take_over(self, files: Iterable[str]) -> list[JournalEntry]:
        """The open and waiting runs of *files* whose server is dead, which are ours from now on."""
        taken: list[JournalEntry] = []
        for file in files:
            with self._lock:
                self._base.execute("BEGIN IMMEDIATE")
                try:
                    taken += self._taken(file)
                finally:
                    self._base.execute("COMMIT")
        return taken

    def _taken(self, file: str) -> list[JournalEntry]:
        marks = ", ".join("?" for _ in OPEN)
        rows = self._base.execute(
            f"SELECT owner, {_ROW} FROM served_runs WHERE file = ? AND owner != ?"
            f" AND state IN ({marks}, 'waiting') ORDER BY accepted_at, run",
            (file, self.owner, *OPEN),
        ).fetchall()
        dead = {owner for owner in {row[0] for row in rows} if self._is_dead(owner)}
        for owner in dead:
            self._base.execute(
                "UPDATE served_runs SET owner = ? WHERE owner = ? AND file = ?",
                (self.owner, owner, file),
            )
        return [JournalEntry(*row[1:]) for row in rows if row[0] in dead]

    def due(self, now: float) -> list[JournalEntry]:
        """Our waiting runs that may go on by themselves at *now*, in seconds since 1970."""
        with self._lock:
            rows = self._base.execute(
                f"SELECT {_ROW} FROM served_runs WHERE state = 'waiting' AND due <= ?"
                " AND owner = ?",
                (now, self.owner),
            ).fetchall()
        return [JournalEntry(*row) for row in rows]

    def forget(self, before: float) -> int:
        """Remove what ended before that time, in seconds since 1970; returns the number."""
        with self._lock:
            done = self._base.execute(
                "DELETE FROM served_runs WHERE changed_at < ?"
                " AND state IN ('finished', 'failed', 'cancelled')",
                (before,),
            )
        return done.rowcount

    def _place(self, owner: str) -> Path:
        return self._home / f"server-{owner}.lock"

    def _is_dead(self, owner: str) -> bool:
        """True if the server *owner* has ended; its file goes with it."""
        place = self._place(owner)
        if not place.exists():
            return True
        lock = _locked(place)
        if lock is None:
            return False
        place.unlink(missing_ok=True)
        os.close(lock)
        return True


def read(text: str | bytes) -> Any:
    """The value of JSON that this package has written or checked."""
    return json.loads(text)


def _locked(place: Path) -> int | None:
    """The descriptor of the locked file at *place*; ``None`` if another process has the lock."""
    descriptor = os.open(place, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        # flock, not lockf: the lock is this descriptor's, and lives until the process does.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
