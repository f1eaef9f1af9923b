"""A quick look for what may be a key, by an engine whose time is linear in the text's length.

Few texts hold one, so the tables that tell a key from other texts are loaded after this has found
something.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from itertools import repeat
from operator import call

from appl.prompt.key_patterns import FIRST

_OTHERS = b"!$%&(*,;?[^{|}#"
SEVEN_BITS = bytes(code if code < 0x80 else _OTHERS[code % len(_OTHERS)] for code in range(256))
"""Bytes beyond ASCII become signs that no key has, and that a password may have: no shape names
them, and none that passes over other characters than some leaves them out."""
Test = Callable[[str], bool]


@functools.cache
def finds(pattern: str) -> Test:
    """A test for *pattern*, in the syntax of Rust, somewhere in a text."""
    import pydantic_core as core  # 25 ms that `import appl` must not cost

    schema = core.core_schema.str_schema(pattern=pattern, regex_engine="rust-regex")
    test: Test = core.SchemaValidator(schema).isinstance_python
    return test


def is_any(tests: Iterable[Test], data: bytes) -> bool:
    """True if one of *tests* is true of *data*."""
    text = data.translate(SEVEN_BITS).decode("ascii")  # twice as fast as any other text
    return any(map(call, tests, repeat(text)))


def may_have_key(data: bytes) -> bool:
    """True if *data* may hold a key; never false if it does."""
    return is_any(map(finds, FIRST), data)
