"""Records without the secrets that stand in them.

Invariant: a record in which a secret was found is marked with its name; a record without one stays
as it is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from appl.prompt.key_search import is_any, may_have_key
from appl.tracing.format import codec, table
from appl.tracing.format.allowance import unlimited
from appl.tracing.format.record import ANSWERED, PROVIDED
from appl.tracing.format.table import MASKED

if TYPE_CHECKING:
    from appl.tracing.recording.secret import Secrets

_OPAQUE = re.compile(r"[A-Za-z0-9+/_=.:~-]{64,}")
"""A text without words: encrypted items and signatures of servers."""
_PROVIDED = {PROVIDED}


def masked_item(secrets: Secrets, item: bytes) -> bytes:
    """The records in *item* without *secrets*."""
    packed: list[bytes] = []
    for record in codec.unpack(item, unlimited()):
        marks: list[str] = []
        names, fields = record[1:] if record[0] == MASKED else ((), record)
        clean: Any = [fields[0], *(masked_data(secrets, value, marks) for value in fields[1:])]
        if not marks:
            packed.append(codec.pack(record))
            continue
        for end in table.chosen([clean] if record[0] != MASKED else (), table.EndRecord):
            if end.status == ANSWERED:  # its tokens spell out the secret piece by piece
                samples, *rest = end.value
                bare = [[text, reason, None, *more] for text, reason, _, *more in samples]
                clean = table.stored(end._replace(value=[bare, *rest]))
        packed.append(codec.pack((MASKED, sorted({*names, *marks}), clean)))
    return b"".join(packed)


def masked_data(secrets: Secrets, value: object, names: list[str], opaque: bool = False) -> Any:
    """Plain data without *secrets*, whose names are added to *names*.

    With *opaque*, as for fields that a provider wants back, texts without words lose known secrets
    alone.
    """
    if isinstance(value, str):
        return _opaque(secrets, value, names) if opaque else secrets.masked(value, names)
    if isinstance(value, bytes):
        return secrets.masked_bytes(value, names)
    if isinstance(value, list):
        return [masked_data(secrets, item, names, opaque) for item in value]
    if isinstance(value, dict):
        opaque = opaque or value.keys() == _PROVIDED
        return {
            masked_data(secrets, key, names, opaque): masked_data(secrets, item, names, opaque)
            for key, item in value.items()
        }
    return value


def _opaque(secrets: Secrets, text: str, names: list[str]) -> str:
    """*text* without *secrets*, known ones alone if it has no words and is no key itself.

    A server may want such a text back as it was, and anything may stand in it.
    """
    is_opaque = _OPAQUE.fullmatch(text) is not None
    if is_opaque and may_have_key(text.encode()):
        from appl.prompt.key_shapes import is_key

        is_opaque = not is_key(text)
    if not is_opaque:
        return secrets.masked(text, names)
    if not is_any(secrets.exact_tests, text.encode()):
        return text

    def instead(name: str) -> str:
        names.append(name)
        return f"[secret {name}]"

    return secrets.secret_forms.without(text, instead)
