"""The functions that take futures as they are, and the types whose values hold none.

Invariant: what is not listed here is plain code, which gets values.
"""

from __future__ import annotations

import array
import types
from collections.abc import Callable
from typing import Any, TypeVar

from appl.prompt.message import Message
from appl.runtime.answers.text import Text

F = TypeVar("F", bound=Callable[..., Any])

PLAIN = frozenset(
    {
        Text, array.array, bool, bytearray, bytes, complex, float, int, range, slice, str, type,
        types.BuiltinFunctionType, types.FunctionType, types.MethodType, types.ModuleType,
        types.NoneType, types.EllipsisType, types.NotImplementedType,
    }
)  # fmt: skip
"""Types whose values cannot hold a future where it would be looked for."""

_AS_THEY_ARE: tuple[object, ...] = (
    len, zip, enumerate, reversed, isinstance, id, type, list, tuple, dict,
    types.SimpleNamespace, Message,
)  # fmt: skip
TAKERS: set[int] = {id(each) for each in _AS_THEY_ARE}
"""The ids of the functions and types that take futures as they are."""


def taking_futures(f: F) -> F:
    """Mark *f* as a function that takes futures as they are."""
    TAKERS.add(id(f))
    return f
