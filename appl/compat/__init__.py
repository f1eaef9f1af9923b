"""Names, spellings and settings of APPL 0.2, for programs that were written for it.

Invariant: nothing here is loaded before a program uses it, except the table of names. The names
work as ``from appl import NAME``; ``from appl import *`` leaves them out.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from appl.compat import compositor as compositor, const as const, func as func, types as types
    from appl.compat.compositor import (
        ApplStr as ApplStr,
        LetterList as LetterList,
        RomanList as RomanList,
        Str as Str,
    )
    from appl.compat.files import dump_file as dump_file, load_file as load_file
    from appl.compat.func import (
        as_func as as_func,
        completion as completion,
        need_ctx as need_ctx,
        partial as partial,
        promptify as promptify,
        str_future as str_future,
        wraps as wraps,
    )
    from appl.compat.parser import (
        get_parser as get_parser,
        update_appl_configs as update_appl_configs,
    )
    from appl.compat.traces import print_trace as print_trace
    from appl.compat.types import (
        CallFuture as CallFuture,
        CompletionResponse as CompletionResponse,
        StringFuture as StringFuture,
    )

MODULES = ("compositor", "const", "func", "types")
"""Modules that APPL programs import from ``appl``."""

_PUBLIC = {
    "appl.compat.compositor": "ApplStr LetterList RomanList Str",
    "appl.compat.func": "as_func completion need_ctx partial promptify str_future wraps",
    "appl.compat.files": "dump_file load_file",
    "appl.compat.traces": "print_trace",
    "appl.compat.parser": "get_parser update_appl_configs",
    "appl.compat.types": "CallFuture CompletionResponse StringFuture",
}
WHERE = {name: module for module, names in _PUBLIC.items() for name in names.split()}
"""The module of each name that APPL programs import from ``appl``."""


def __getattr__(name: str) -> Any:
    """Import a name at its first use."""
    if name in WHERE:
        value = getattr(importlib.import_module(WHERE[name]), name)
    elif name in MODULES:
        value = importlib.import_module(f"appl.compat.{name}")
    else:
        raise AttributeError(f"module 'appl.compat' has no attribute {name!r}")
    globals()[name] = value
    return value
