"""Names, spellings and settings of APPL 0.2, for programs that were written for it.

Invariant: nothing here is loaded before a program uses it, except the table of names. The names
work as ``from appl import NAME``; ``from appl import *`` leaves them out.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from appl.errors import nearest

if TYPE_CHECKING:
    from appl.parts.compat import (
        compositor as compositor,
        const as const,
        func as func,
        types as types,
    )
    from appl.parts.compat.compositor import (
        ApplStr as ApplStr,
        LetterList as LetterList,
        RomanList as RomanList,
        Str as Str,
    )
    from appl.parts.compat.files import dump_file as dump_file, load_file as load_file
    from appl.parts.compat.func import (
        as_func as as_func,
        completion as completion,
        need_ctx as need_ctx,
        partial as partial,
        promptify as promptify,
        str_future as str_future,
        wraps as wraps,
    )
    from appl.parts.compat.parser import (
        get_parser as get_parser,
        update_appl_configs as update_appl_configs,
    )
    from appl.parts.compat.traces import print_trace as print_trace
    from appl.parts.compat.types import (
        CallFuture as CallFuture,
        CompletionResponse as CompletionResponse,
        StringFuture as StringFuture,
    )

MODULES = ("compositor", "const", "func", "types")
"""Modules that APPL programs import from ``appl``."""

_PUBLIC = {
    "appl.parts.compat.compositor": "ApplStr LetterList RomanList Str",
    "appl.parts.compat.func": "as_func completion need_ctx partial promptify str_future wraps",
    "appl.parts.compat.files": "dump_file load_file",
    "appl.parts.compat.traces": "print_trace",
    "appl.parts.compat.parser": "get_parser update_appl_configs",
    "appl.parts.compat.types": "CallFuture CompletionResponse StringFuture",
}
WHERE = {name: module for module, names in _PUBLIC.items() for name in names.split()}
"""The module of each name that APPL programs import from ``appl``."""


def value_of(name: str, public: Iterable[str]) -> object:
    """The value of `appl.` *name*, which programs for APPL 0.2 import.

    Raises ``AttributeError``, with a hint if it is nearly one of the *public* names.
    """
    if name in MODULES:
        return importlib.import_module(f"appl.{name}")
    if name in WHERE:
        return getattr(importlib.import_module(WHERE[name]), name)
    hint = "" if name.startswith("_") else nearest(name, public, 0.7)
    raise AttributeError(f"module 'appl' has no attribute {name!r}{hint}")


def __getattr__(name: str) -> Any:
    """Import a name at its first use."""
    if name in WHERE:
        value = getattr(importlib.import_module(WHERE[name]), name)
    elif name in MODULES:
        value = importlib.import_module(f"appl.parts.compat.{name}")
    else:
        raise AttributeError(f"module 'appl.parts.compat' has no attribute {name!r}")
    globals()[name] = value
    return value
