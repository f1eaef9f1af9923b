"""Arguments and results of functions as short plain data, for those who look at a run later.

Invariant: no code of the user's runs, nothing is waited for, and what is made is bounded and keeps
no object of the program. A value behind a telling name, such as ``api_key``, is not in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from appl.prompt.secret import MASK
from appl.prompt.secret_names import is_likely

Snapshot = tuple[str, ...]
"""Pieces of the text that stands for a value: code and texts of the program by turns."""

LONGEST: Final = 1 << 12
"""Characters of a text that are kept, so that secrets are still found where less is shown."""
PIECES, DEPTH = 24, 3
"""The most pieces of one snapshot, and the levels of containers that are shown."""
_SMALL = 1 << 60
_UNKNOWN: Snapshot = ("<unknown>",)


def snapshot(value: object) -> Snapshot:
    """What is shown of *value*, as it is now."""
    if type(value) is str:
        return "", value[:LONGEST], ""
    pieces = [""]
    try:
        from appl.runtime.shown_value import add  # many functions have texts and numbers only

        add(pieces, value, DEPTH)
    except Exception:  # a class of the user's that is not as classes are
        return _UNKNOWN
    return tuple(pieces)


def arguments(
    names: tuple[str, ...], args: tuple[object, ...], kwargs: Mapping[str, object]
) -> Snapshot:
    """What is shown of the arguments of a call: *args* go to the parameters *names*."""
    pieces = [""]
    try:
        for (label, is_telling), value in zip(_labels(names), args, strict=False):
            if is_telling:
                pieces[-1] += label + MASK
            elif type(value) is str and len(pieces) < PIECES:
                pieces[-1] += label
                pieces += (value[:LONGEST], "")
            elif type(value) is int and -_SMALL < value < _SMALL:
                pieces[-1] += f"{label}{value}"
            else:
                from appl.runtime.shown_value import add

                pieces[-1] += label
                add(pieces, value, DEPTH)
        if kwargs or len(args) > len(names):
            more = {"*args": args[len(names) :]} if len(args) > len(names) else {}
            if args:
                pieces[-1] += ", "
            from appl.runtime.shown_value import add_items

            add_items(pieces, "", "", [*more.items(), *kwargs.items()], False, DEPTH)
    except Exception:  # a class of the user's that is not as classes are
        return _UNKNOWN
    return tuple(pieces)


@lru_cache(maxsize=1024)
def _labels(names: tuple[str, ...]) -> tuple[tuple[str, bool], ...]:
    """What stands before each of the arguments, and whether its name tells of a secret."""
    return tuple((f"{', ' if at else ''}{name}=", is_likely(name)) for at, name in enumerate(names))
