"""A conversation in a file of JSON, with a message a line.

Invariant: the file is replaced in one step, so that a reader finds the old one or the new one.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from appl.errors import ConversationError
from appl.parts.conversations.message_data import FORMAT, message_from, text_of
from appl.prompt import Messages
from appl.tracing.recording.secret import Masker


def save(path: Path, messages: Messages | None) -> None:
    """Write *messages* to *path*, for its user alone. Raises ``OSError``."""
    masker = Masker()
    lines = ",\n  ".join(text_of(message, masker) for message in iter(messages or ()))
    text = f'{{"appl": "conversation", "format": {FORMAT}, "messages": [\n  {lines}\n]}}\n'
    # In the same folder, so that it can take the place of the old one. What a conversation says
    # may be private: a new file is readable by its user alone, as traces are.
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".new")
    new = Path(temporary)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as opened:
            opened.write(text)
            opened.flush()
            os.fsync(opened.fileno())
        with contextlib.suppress(OSError):  # there is none yet
            new.chmod(path.stat().st_mode & 0o777)
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def load(path: Path) -> Messages | None:
    """The messages in *path*. Raises ``ConversationError``, ``OSError``."""
    try:
        data: Any = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        raise ConversationError(
            f"{path} is damaged, or no conversation: it is not JSON to its end"
        ) from None
    if not isinstance(data, dict) or data.get("appl") != "conversation":
        raise ConversationError(f"{path} holds no conversation of appl")
    check_format(data.get("format"), str(path))
    listed = data.get("messages")
    if not isinstance(listed, list):
        raise ConversationError(f"{path} is damaged: it has no list of messages")
    return Messages.of([message_from(item, str(path)) for item in listed])


def check_format(number: object, where: str) -> None:
    """Refuse the format *number* of a newer version. Raises ``ConversationError``."""
    if type(number) is not int or number < 1:
        raise ConversationError(f"{where} is damaged: its format is {number!r:.20}")
    if number > FORMAT:
        raise ConversationError(
            f"{where} was written by a newer version of appl (format {number}, this one reads "
            f"{FORMAT}): upgrade with `pip install --upgrade appl`"
        )
