"""Conversations that are kept: in a file of JSON, or in a SQLite database with many of them.

Invariant: what is loaded is what was saved, but for secrets, which are masked; nothing that was
saved is lost, whoever saves at the same time; nothing here is loaded by a program that keeps none.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from appl.errors import InvalidOption
from appl.parts.conversations import database, file
from appl.parts.conversations.message_data import data_of, message_from
from appl.prompt import Messages
from appl.tracing.recording.secret import Masker

_SUFFIXES = (".db", ".sqlite", ".sqlite3")
_SIGN = b"SQLite format 3\0"

Stored = tuple[str, str, int]
"""Where a conversation was loaded from or saved to: the path, its name there, its version."""


def save(
    path: str | os.PathLike[str],
    name: str | None,
    messages: Messages | None,
    stored: Stored | None,
    replace: bool,
) -> Stored | None:
    """Keep *messages*, which were *stored* before; returns where they are now in a database.

    Raises ``ConversationChanged``, ``ConversationError``, ``OSError``.
    """
    whole = Path(path).expanduser().absolute()
    if not _is_database(whole):
        _check_no_name(whole, name)
        file.save(whole, messages)
        return None
    version_before = (
        stored[2] if stored is not None and stored[:2] == (str(whole), name or "") else None
    )
    version = database.save(whole, _checked(name), messages, version_before, replace)
    return str(whole), name or "", version


def load(
    path: str | os.PathLike[str], name: str | None, version: int | None, missing_ok: bool
) -> tuple[Messages | None, Stored | None]:
    """The messages that are kept, and where they are. Raises ``ConversationError``, ``OSError``."""
    whole = Path(path).expanduser().absolute()
    if not _is_database(whole):
        _check_no_name(whole, name)
        if version is not None:
            raise InvalidOption(f"{whole.name} keeps one version; a database keeps all of them")
        if missing_ok and not whole.exists():
            return None, None
        return file.load(whole), None
    conversation = database.load(whole, _checked(name), version, missing_ok)
    if conversation is None:
        return None, None
    messages, newest = conversation
    return messages, (str(whole), name or "", newest)


def loaded(
    path: str | os.PathLike[str], name: str | None, version: int | None, missing_ok: bool
) -> tuple[list[dict[str, Any]], Stored | None]:
    """The same as plain data."""
    messages, stored = load(path, name, version, missing_ok)
    masker = Masker()
    return [data_of(message, masker) for message in iter(messages or ())], stored


def restored(data: list[dict[str, Any]], path: str | os.PathLike[str]) -> Messages | None:
    """The messages of ``loaded``. Raises ``ConversationError``."""
    return Messages.of([message_from(item, os.fspath(path)) for item in data])


def _is_database(path: Path) -> bool:
    """True if *path* is a SQLite database, or its name says that it will be one."""
    try:
        with path.open("rb") as opened:
            begun = opened.read(len(_SIGN))
    except FileNotFoundError:
        begun = b""
    if begun:
        return begun == _SIGN or (path.suffix in _SUFFIXES and not begun.lstrip().startswith(b"{"))
    return path.suffix in _SUFFIXES


def _check_no_name(path: Path, name: str | None) -> None:
    if name is not None:
        raise InvalidOption(
            f"{path.name} is a file for one conversation: leave out {name!r:.40}, or name a "
            f"database, as {path.stem}.db"
        )


def _checked(name: object) -> str:
    if name is not None and (not isinstance(name, str) or not name):
        raise InvalidOption(f"the name of a conversation is a text, got {name!r:.40}")
    return name or ""
