"""Conversations in a SQLite database: each by its name, with all versions that were saved.

A message is stored once, with the one before it; a version is the last message of one save. The
tables may stand in a database of the user's own.

Invariant: a save is one transaction, which begins by looking at the newest version: it is refused
where that is neither the one that was loaded nor a beginning of what is saved. So two processes
cannot overwrite each other unseen. No version is ever removed.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from appl.errors import ConversationChanged, ConversationError
from appl.parts.conversations.file import check_format
from appl.parts.conversations.message_data import FORMAT, message_from, text_of
from appl.prompt import Message, Messages, digest_of
from appl.tracing.recording.secret import Masker

_WAIT_S = 60.0
"""Seconds for which others may hold the database: a save takes milliseconds."""

_TABLES = """
CREATE TABLE IF NOT EXISTS appl_conversation_format (format INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS appl_conversation_messages (
    digest BLOB PRIMARY KEY, before BLOB, message TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS appl_conversation_versions (
    name TEXT NOT NULL, version INTEGER NOT NULL, last BLOB,
    saved_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (name, version)
) WITHOUT ROWID;
"""
_NEWEST = (
    "SELECT version, last FROM appl_conversation_versions WHERE name = ? "
    "ORDER BY version DESC LIMIT 1"
)
_VERSION = "SELECT version, last FROM appl_conversation_versions WHERE name = ? AND version = ?"
_CHAIN = """
WITH RECURSIVE chain(digest, before, message, place) AS (
    SELECT digest, before, message, 0 FROM appl_conversation_messages WHERE digest = ?
    UNION ALL
    SELECT m.digest, m.before, m.message, place + 1
    FROM appl_conversation_messages m JOIN chain ON m.digest = chain.before
)
SELECT before, message FROM chain ORDER BY place DESC
"""


def save(
    path: Path, name: str, messages: Messages | None, version_before: int | None, replace: bool
) -> int:
    """Add a version of *name* that says *messages*; returns its number, from 1.

    *version_before* is the version that they go on from, if they were kept there before.
    """
    rows = list(_rows(messages))
    last = rows[-1][0] if rows else None
    with _opened(path, create=True) as connection:
        connection.execute("BEGIN IMMEDIATE")  # from here on nobody else can write
        newest, end = connection.execute(_NEWEST, (name,)).fetchone() or (0, None)
        version = _version(newest, path)
        if version and end == last:
            connection.execute("ROLLBACK")
            return version
        goes_on = (
            version in (0, version_before) or end is None or any(row[0] == end for row in rows)
        )
        if not goes_on and not replace:
            connection.execute("ROLLBACK")
            raise _changed(path, name, version)
        connection.executemany(
            "INSERT OR IGNORE INTO appl_conversation_messages VALUES (?, ?, ?)", rows
        )
        connection.execute(
            "INSERT INTO appl_conversation_versions (name, version, last) VALUES (?, ?, ?)",
            (name, version + 1, last),
        )
        connection.execute("COMMIT")
    return version + 1


def load(
    path: Path, name: str, version: int | None, missing_ok: bool
) -> tuple[Messages | None, int] | None:
    """The messages of *name*, the newest or those of a *version*, and the newest version."""
    if not path.exists():
        if missing_ok:
            return None
        raise FileNotFoundError(f"there is no {path}")
    with _opened(path, create=False) as connection:
        query, values = (_NEWEST, (name,)) if version is None else (_VERSION, (name, version))
        row = connection.execute(query, values).fetchone() if _has_tables(connection) else None
        if row is None:
            if missing_ok and version is None:
                return None
            raise _missing(path, connection, name, version)
        newest, last = row
        messages = [*_messages(connection, last, f"{name or 'the conversation'} in {path}")]
    return Messages.of(messages), _version(newest, path)


def _version(number: object, path: Path) -> int:
    if type(number) is not int:
        raise ConversationError(f"{path} is damaged: a version has the number {number!r:.20}")
    return number


def _rows(messages: Messages | None) -> Iterator[tuple[bytes, bytes | None, str]]:
    """For each message its digest, that of the message before it, and its text as JSON."""
    masker, before = Masker(), None
    for message in iter(messages or ()):
        text = text_of(message, masker)
        digest = digest_of(before or b"", text)
        yield digest, before, text
        before = digest


def _messages(connection: sqlite3.Connection, last: bytes | None, where: str) -> Iterator[Message]:
    """The messages up to the one with the digest *last*. Raises ``ConversationError``."""
    if last is None:
        return
    digest: bytes | None = None
    for before, text in connection.execute(_CHAIN, (last,)):
        if before != digest:
            raise ConversationError(f"{where} is damaged: a message is missing")
        digest = digest_of(before or b"", text)
        try:
            data: Any = json.loads(text)
        except (ValueError, RecursionError):
            raise ConversationError(f"{where} is damaged: a message is no JSON") from None
        yield message_from(data, where)
    if digest != last:
        raise ConversationError(f"{where} is damaged: a message was changed or is missing")


@contextlib.contextmanager
def _opened(path: Path, *, create: bool) -> Iterator[sqlite3.Connection]:
    """The database at *path*, with the tables if it may *create* them."""
    is_new = not path.exists()
    try:
        connection = sqlite3.connect(path, timeout=_WAIT_S, isolation_level=None)
    except sqlite3.Error as error:
        raise ConversationError(f"{path} cannot be opened: {error}") from None
    try:
        if create:
            if not _has_tables(connection):
                connection.execute("BEGIN IMMEDIATE")
                for statement in _TABLES.split(";\n"):
                    connection.execute(statement)
                if connection.execute("SELECT 1 FROM appl_conversation_format").fetchone() is None:
                    connection.execute("INSERT INTO appl_conversation_format VALUES (?)", (FORMAT,))
                connection.execute("COMMIT")
            _check(connection, path)
            if is_new:  # what a conversation says may be private
                path.chmod(0o600)
        elif _has_tables(connection):
            _check(connection, path)
        yield connection
    except sqlite3.Error as error:
        raise ConversationError(
            f"{path} is damaged, or no database, or is used by others for too long: {error}"
        ) from None
    finally:
        connection.close()


def _has_tables(connection: sqlite3.Connection) -> bool:
    names = connection.execute(
        "SELECT count(*) FROM sqlite_master WHERE name LIKE 'appl_conversation_%' "
        "AND type = 'table'"
    )
    return bool(names.fetchone()[0])


def _check(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse tables of a newer version. Raises ``ConversationError``."""
    row = connection.execute("SELECT max(format) FROM appl_conversation_format").fetchone()
    check_format(row[0], str(path))


def _changed(path: Path, name: str, newest: int) -> ConversationChanged:
    named = f", {name!r}" if name else ""
    return ConversationChanged(
        f"{name or 'the conversation'} in {path.name} was saved by somebody else since it was "
        f"loaded (version {newest}), and says other things: load it again and add to it, or keep "
        f'this one beside it, save("{path.name}"{named}, replace=True): version {newest} stays, as '
        f'Conversation.load("{path.name}"{named}, version={newest})'
    )


def _missing(
    path: Path, connection: sqlite3.Connection, name: str, version: int | None
) -> ConversationError:
    if not _has_tables(connection):
        return ConversationError(f"{path} holds no conversation of appl")
    rows = connection.execute(
        "SELECT name, max(version) FROM appl_conversation_versions GROUP BY name ORDER BY name"
    ).fetchmany(20)
    names = ", ".join(f"{title!r} (up to version {most})" for title, most in rows) or "none"
    what = f"version {version} of {name!r}" if version is not None else f"{name!r}"
    return ConversationError(f"{path} has no conversation {what}; it has: {names}")
