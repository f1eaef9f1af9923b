"""A file of answers, by content: what ``gen(cache=PATH)`` reads and writes.

Invariant: processes may share it; what is there never changes. It holds digests of questions, not
the questions, and no answer in which a secret of this process was found.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from appl.backend import Response
from appl.errors import InvalidOption
from appl.tracing.format import codec, record
from appl.tracing.format.allowance import unlimited
from appl.tracing.recording.secret import Masker

VERSION = 1
_BUSY_S = 10.0
_TABLE = """
CREATE TABLE IF NOT EXISTS answers (
    content BLOB NOT NULL, number INTEGER NOT NULL, answer BLOB NOT NULL,
    PRIMARY KEY (content, number)
) WITHOUT ROWID
"""


class CacheFile:
    """An SQLite file with a row for each sample. Raises ``InvalidOption`` for any other file.

    *secrets* are values to look for besides those of the environment.
    """

    blocking = True

    def __init__(self, path: Path, secrets: Iterable[str] = ()) -> None:
        self.path = path
        import sqlite3  # only a run that keeps answers or an index in a file needs it

        self._sqlite = sqlite3  # 10 ms that few programs need
        self._lock = threading.Lock()
        self._masker = Masker(secrets)
        try:
            _make_private(path)
            self._connection = self._opened()
        except (OSError, self._sqlite.Error) as error:
            raise InvalidOption(f"gen(cache={str(path)!r}) cannot be used: {error}") from None

    def _opened(self) -> Any:
        connection = self._sqlite.connect(
            self.path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("BEGIN IMMEDIATE")
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if version != VERSION and (version or tables):
                raise self._sqlite.DatabaseError("it is another program's, or of a newer version")
            connection.execute(_TABLE)
            connection.execute(f"PRAGMA user_version={VERSION}")
            connection.execute("COMMIT")
            with contextlib.suppress(self._sqlite.OperationalError):  # another process does it
                connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
        except BaseException:
            connection.close()
            raise
        return connection

    def load(self, content: bytes, count: int) -> list[Response]:
        """The first *count* samples of *content*, as far as they are there without a gap."""
        with self._lock:
            return self._rows(content, 0, count)

    def save(self, content: bytes, first: int, answers: list[Response]) -> list[Response]:
        """Keep *answers* as the samples from number *first* on; what is there already stays.

        Returns what stands for them from now on: of two processes the earlier one decides. Nothing
        is kept from an answer with a secret on, so that there is no gap.
        """
        rows: list[tuple[bytes, int, bytes]] = []
        for number, answer in enumerate(answers, first):
            packed = codec.pack(record.response_data(answer))
            prompt = "".join(token.token for token in answer.prompt_logprobs or ())
            if self._masker.finds(packed + prompt.encode("utf-8", "surrogatepass")):
                break
            rows.append((content, number, packed))
        with self._lock:
            # Another process may have kept an answer meanwhile. It stays, and both go on with it:
            # the file decides, not who asked first.
            self._connection.executemany("INSERT OR IGNORE INTO answers VALUES (?, ?, ?)", rows)
            stored = self._rows(content, first, len(rows))
        return [*stored, *answers[len(stored) :]]

    def _rows(self, content: bytes, first: int, count: int) -> list[Response]:
        rows = self._connection.execute(
            "SELECT number, answer FROM answers WHERE content = ? AND number >= ? AND number < ?"
            " ORDER BY number",
            (content, first, first + count),
        )
        answers: list[Response] = []
        for number, packed in rows:
            answer = _response(packed) if number == first + len(answers) else None
            if answer is None:
                break
            answers.append(answer)
        return answers

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()


def _response(packed: object) -> Response | None:
    """The answer in a row, ``None`` for what nobody of us has written."""
    if not isinstance(packed, bytes):
        return None
    try:
        (data,) = codec.unpack(packed, unlimited())
        return record.response_from(data)
    except (ValueError, TypeError):
        return None


def _make_private(path: Path) -> None:
    """Have the file, and folders that are missing, for the user alone; a link is not followed.

    A file that is there is not opened here: closing it would take the locks of other connections.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not os.path.lexists(path):
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    if not stat.S_ISREG(os.lstat(path).st_mode):
        raise OSError("it is not a regular file")
