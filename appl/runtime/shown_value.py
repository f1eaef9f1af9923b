"""Values other than texts and small numbers as short plain data: containers, models, answers.

Invariant: that of ``snapshot``, which asks for it.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from appl.prompt.secret import MASK, Secret
from appl.prompt.secret_names import is_likely
from appl.runtime.concurrency.promise import Proxy
from appl.runtime.snapshot import DEPTH, LONGEST, PIECES

_ITEMS, _BITS = 6, 256
_WORDS = frozenset([type(None), bool, float, complex])
_CONVERSATION = "appl.runtime.prompts.conversation"
_STANDARD = frozenset(["datetime", "decimal", "fractions", "uuid"])
"""Modules of values whose own representation is short."""


def add(pieces: list[str], value: object, depth: int) -> None:
    """Add what is shown of *value* to *pieces*, with so many levels of what it holds."""
    kind = type(value)
    if len(pieces) > PIECES:
        pieces[-1] += "…"
    elif isinstance(value, str):
        pieces += [str.__getitem__(value, slice(LONGEST)), ""]
    elif kind in _WORDS or (kind is int and int.bit_length(value) < _BITS):  # type: ignore[arg-type]
        pieces[-1] += repr(value)
    elif isinstance(value, Proxy):
        pieces[-1] += f"<answer {value._pending.address}>"
    elif isinstance(value, Secret):
        pieces[-1] += f"Secret({MASK})"
    elif kind.__module__ in _STANDARD or kind.__module__.partition(".")[0] == "pathlib":
        pieces += [str(value)[:LONGEST], ""]
    elif kind.__module__ == _CONVERSATION:
        pieces[-1] += f"{kind.__name__}(…, "
        pieces += [_last_said(value)[:LONGEST], ")"]
    elif isinstance(value, Enum):
        pieces[-1] += f"{kind.__name__}.{value._name_}"
    elif isinstance(value, bytes | bytearray | memoryview):
        pieces[-1] += f"<{len(value)} bytes>"
    elif (items := _items(value)) is not None and depth and len(pieces) < PIECES:
        add_items(pieces, *items, depth - 1)
    elif isinstance(value, type):
        pieces[-1] += kind.__name__ if kind is not type else value.__name__
    else:
        pieces[-1] += f"<{kind.__name__}>"


def _last_said(conversation: Any) -> str:
    """The text of the last message of a ``Conversation``, if it is at hand."""
    if conversation._current:
        kept = conversation._chain.kept if conversation._chain is not None else None
        return "" if kept is None else kept.content
    _, said = conversation._lists
    return said[-1].content if said else ""


_Items = tuple[str, str, list[tuple[object, object]], bool]
"""What is before and after items, the items with their names, and whether there are more."""
_UNNAMED = object()


def _items(value: object) -> _Items | None:
    """The parts of a container, a data class or a model; ``None`` of anything else."""
    kind = type(value)
    try:
        if kind in (list, tuple, set, frozenset):
            found = [item for item, _ in zip(value, range(_ITEMS + 1), strict=False)]  # type: ignore[call-overload]
            before, after = "[]" if kind is list else "()" if kind is tuple else "{}"
            return before, after, [(_UNNAMED, item) for item in found], False
        if kind is dict:
            pairs = zip(value.items(), range(_ITEMS + 1), strict=False)  # type: ignore[attr-defined]
            return "{", "}", [pair for pair, _ in pairs], True
        fields: Any = getattr(kind, "__dataclass_fields__", None) or getattr(
            kind, "__pydantic_fields__", None
        )
        if isinstance(fields, dict):
            names = [name for name, field in fields.items() if getattr(field, "repr", True)]
            shown = [(name, object.__getattribute__(value, name)) for name in names[: _ITEMS + 1]]
            return f"{kind.__name__}(", ")", list(shown), False
    except Exception:  # another thread changes it, or a field is not there
        pass
    return None


def add_items(
    pieces: list[str],
    before: str,
    after: str,
    items: list[tuple[object, object]],
    quoted: bool,
    depth: int,
) -> None:
    """Add *items* with their names, between *before* and *after*."""
    pieces[-1] += before
    for number, (name, item) in enumerate(items):
        if number:
            pieces[-1] += ", "
        if depth < DEPTH and (number == _ITEMS or len(pieces) > PIECES):
            pieces[-1] += "…"
            break
        if quoted:
            add(pieces, name, 0)
            pieces[-1] += ": "
        elif name is not _UNNAMED:
            pieces[-1] += f"{name}="
        if type(name) is str and is_likely(name):
            pieces[-1] += MASK
        else:
            add(pieces, item, depth)
    pieces[-1] += after
