"""A redacted copy of a recorded run, to be shared with others.

Invariant: only fields that are known to be harmless are copied, and an unknown kind of record is
refused. Without *content* no text of a prompt, an answer, a tool, an error or an observation is in
it; never is there a path, a host, an argument of the command line, a setting beyond sampling and
prices, or a digest that texts could be tried against.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any, BinaryIO

from appl.errors import TraceCorrupt
from appl.prompt import Message
from appl.prompt.key_masking import without_likely_keys
from appl.tracing.format import block, block_file, codec, record, store, table
from appl.tracing.format.allowance import DecodingAllowance, of_file
from appl.tracing.format.keys import RunKey
from appl.tracing.format.store import regular_file
from appl.tracing.format.table import (
    MASKED,
    REDACTED,
    SEALED,
    Content,
    LineRecord,
    MessageRecord,
    PieceRecord,
)
from appl.tracing.reading.stored_records import BAD
from appl.tracing.reading.trace import Trace
from appl.tracing.recording.privacy import SHARED, Redact, Veil
from appl.tracing.recording.secret import Masker

_LEFT_OUT = table.tags([PieceRecord, LineRecord])
"""Pieces of long texts, and lines of the source."""
_HEADER = ("format", "program", "backend", "model", "seed", "profile", "versions")
_BLOCK = 1 << 20  # bytes
_SETTINGS = ("temperature", "max_tokens", "top_p", "concurrency", "seed")


def share(
    source: Path, target: Path, *, content: bool = False, redact: Redact | None = None
) -> int:
    """Write a shareable copy of the trace *source* to the new file *target*.

    Returns the number of its calls. Neither file is held in memory as a whole. With *content*,
    texts stay as *redact* leaves them, without this environment's secrets and likely keys. Raises
    ``TraceError``, and then *target* does not exist.
    """
    masker = Masker()

    def cleaned(message: Message) -> Message:
        redacted = message if redact is None else redact(message)
        text = masker.text(redacted.content, [])
        return replace(redacted, content=without_likely_keys(text, "[key]"))

    key = RunKey(secrets.token_bytes(32))  # nobody has it
    veil = Veil(SHARED, key, cleaned if content else None)
    with regular_file(source) as reading:
        fd = store.create(target)
        try:
            with os.fdopen(fd, "wb") as file:
                _copy(reading, file, veil, content)
            return len(Trace.open(target, check=True).calls)  # it can be read
        except BaseException:
            target.unlink()
            raise


def _copy(reading: BinaryIO, file: BinaryIO, veil: Veil, content: bool) -> None:
    scan, encoder = block.Scan(), block_file.Encoder()
    file.write(block.MAGIC)
    for raw in block.scan(reading, scan):
        # What stands for a text may be longer than it was, so that a block may become several.
        held: list[bytes] = []
        size = 0
        try:
            for fields in _harmless(raw, content):
                for shown in veil.filter([codec.pack(fields)]):
                    if size and size + len(shown) > _BLOCK:
                        file.write(encoder.block(b"".join(held)))
                        held, size = [], 0
                    held.append(shown)
                    size += len(shown)
            if held:
                file.write(encoder.block(b"".join(held)))
        except BAD as error:
            raise TraceCorrupt(f"block {scan.blocks} is not valid: {error!r}") from None


def _harmless(raw: bytes, content: bool) -> Iterator[object]:
    """The records that may be shared, reduced to their harmless fields."""
    one = DecodingAllowance(of_file(len(raw)))
    for fields in codec.unpack(raw, one):
        one.used = 0
        names: list[str] = []
        if fields[0] == SEALED:
            _, _, names, fields = fields
        elif fields[0] == MASKED:
            _, names, fields = fields
        if fields[0] in _LEFT_OUT:
            continue
        # The filter refuses a record that the table does not know.
        kind, cleaned = table.KINDS.get(fields[0]), fields
        if kind is not None and len(fields) <= len(kind._fields):
            record = table.as_record(fields)
            if isinstance(record, MessageRecord) and record.more and not content:
                record.more.pop("name", None)
            changed = {
                name: _CLEANED[held](getattr(record, name))
                for name, held in table.CONTENTS[kind].items()
                if held in _CLEANED
            }
            cleaned = table.stored(record._replace(**changed))
        # a variable's name says something about its owner
        reasons = [name if name in (REDACTED, "redact") else "secret" for name in names]
        yield (MASKED, reasons, cleaned) if names else cleaned


def _facts(facts: object) -> object:
    header = codec.revive(facts, lambda _: "")
    shared_facts = {name: header[name] for name in _HEADER if name in header}
    entry, settings = header.get("entry"), header.get("settings")
    if isinstance(entry, dict):
        shared_facts["entry"] = {"kind": str(entry.get("kind")), "function": entry.get("function")}
    if isinstance(settings, dict):
        shared_facts["settings"] = {
            name: value
            for name, value in settings.items()
            if name in _SETTINGS or name.startswith("prices.")
        }
    shared_facts |= {"format": record.FORMAT, "privacy": {"mode": SHARED}, "redaction": SHARED}
    return codec.plain(shared_facts)


_CLEANED: dict[Content | None, Callable[[Any], object]] = {
    Content.FACTS: _facts,
    Content.OWNER: lambda value: type(value)(),
    Content.PATH: lambda path: PurePath(path.replace("\\", "/")).name,
    Content.OBSERVED: lambda value: None,
}
"""By content, the value that a shared trace shows of a field where a private one shows more."""
