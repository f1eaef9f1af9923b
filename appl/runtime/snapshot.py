"""Arguments and results of functions as short plain data, for those who look at a run later.

Invariant: no code of the user's runs, nothing is waited for, and what is made is bounded and keeps
no object of the program. A value behind a telling name, such as ``api_key``, is not in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from typing import Any, Final

from appl.prompt.secret import MASK, Secret
from appl.prompt.secret_names import is_likely
from appl.runtime.answers.answer import Answer
from appl.runtime.concurrency.promise import Proxy

Snapshot = tuple[str, ...]
"""Pieces of the text that stands for a value: code and texts of the program by turns."""

LONGEST: Final = 1 << 12
"""Characters of a text that are kept, so that secrets are still found where less is shown."""
_ITEMS, _DEPTH, _PIECES, _BITS, _SMALL = 6, 3, 24, 256, 1 << 60
_UNKNOWN: Snapshot = ("<unknown>",)
_WORDS = frozenset([type(None), bool, float, complex])
_CONVERSATION = "appl.runtime.prompts.conversation"
_STANDARD = frozenset(["datetime", "decimal", "fractions", "uuid"])
"""Modules of values whose own representation is short."""


def snapshot(value: object) -> Snapshot:
    """What is shown of *value*, as it is now."""
    if type(value) is str:
        return "", value[:LONGEST], ""
    pieces = [""]
    try:
        _add(pieces, value, _DEPTH)
    except Exception:  # a class of the user's that is not as classes are
        return _UNKNOWN
    return tuple(pieces)


def call_of(value: object) -> str | None:
    """The address of the call that *value* is the answer of."""
    if isinstance(value, Proxy):
        return value._pending.address
    return value._address if isinstance(value, Answer) else None


def arguments(
    names: tuple[str, ...], args: tuple[object, ...], kwargs: Mapping[str, object]
) -> Snapshot:
    """What is shown of the arguments of a call: *args* go to the parameters *names*."""
    pieces = [""]
    try:
        for (label, is_telling), value in zip(_labels(names), args, strict=False):
            if is_telling:
                pieces[-1] += label + MASK
            elif type(value) is str and len(pieces) < _PIECES:
                pieces[-1] += label
                pieces += (value[:LONGEST], "")
            elif type(value) is int and -_SMALL < value < _SMALL:
                pieces[-1] += f"{label}{value}"
            else:
                pieces[-1] += label
                _add(pieces, value, _DEPTH)
        if kwargs or len(args) > len(names):
            more = {"*args": args[len(names) :]} if len(args) > len(names) else {}
            if args:
                pieces[-1] += ", "
            _add_items(pieces, "", "", [*more.items(), *kwargs.items()], False, _DEPTH)
    except Exception:  # a class of the user's that is not as classes are
        return _UNKNOWN
    return tuple(pieces)


@lru_cache(maxsize=1024)
def _labels(names: tuple[str, ...]) -> tuple[tuple[str, bool], ...]:
    """What stands before each of the arguments, and whether its name tells of a secret."""
    return tuple((f"{', ' if at else ''}{name}=", is_likely(name)) for at, name in enumerate(names))


def _add(pieces: list[str], value: object, depth: int) -> None:
    kind = type(value)
    if len(pieces) > _PIECES:
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
    elif (items := _items(value)) is not None and depth and len(pieces) < _PIECES:
        _add_items(pieces, *items, depth - 1)
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


def _add_items(
    pieces: list[str],
    before: str,
    after: str,
    items: list[tuple[object, object]],
    quoted: bool,
    depth: int,
) -> None:
    pieces[-1] += before
    for number, (name, item) in enumerate(items):
        if number:
            pieces[-1] += ", "
        if depth < _DEPTH and (number == _ITEMS or len(pieces) > _PIECES):
            pieces[-1] += "…"
            break
        if quoted:
            _add(pieces, name, 0)
            pieces[-1] += ": "
        elif name is not _UNNAMED:
            pieces[-1] += f"{name}="
        if type(name) is str and is_likely(name):
            pieces[-1] += MASK
        else:
            _add(pieces, item, depth)
    pieces[-1] += after
