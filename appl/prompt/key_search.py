"""A quick look for what may be a key, by an engine whose time is linear in the text's length.

Few texts hold one, so the tables that tell a key from other texts are loaded after this has found
something. The patterns mean the same to Rust's engine and to Python's.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from itertools import repeat
from operator import call

from appl.prompt.key_patterns import FIRST

_OTHERS = b"!$%&(*,;?[^{|}#"
SEVEN_BITS = bytes(code if code < 0x80 else _OTHERS[code % len(_OTHERS)] for code in range(256))
"""Bytes beyond ASCII become signs that no key has, and that a password may have: no shape names
them, and none that passes over other characters than some leaves them out."""
Test = Callable[[str], object]
_small = 1 << 14
"""Characters that this process still looks through with Python's engine, at 340 µs for 1,000.
That of Rust takes 30 ms to load, and then 2 µs."""


@functools.cache
def python_test(pattern: str) -> Test:
    """A test for *pattern* somewhere in a text of seven bits."""
    return re.compile(pattern, re.ASCII).search


@functools.cache
def rust_test(pattern: str) -> Test:
    """The same test, in time that is linear in the length of any text."""
    import pydantic_core as core  # 20 ms that a short program must not cost

    schema = core.core_schema.str_schema(pattern=pattern, regex_engine="rust-regex")
    test: Test = core.SchemaValidator(schema).isinstance_python
    return test


def is_any(patterns: Iterable[str], data: bytes) -> bool:
    """True if one of *patterns* finds something in *data*."""
    global _small
    text = data.translate(SEVEN_BITS).decode("ascii")  # twice as fast as any other text
    _small = max(_small - len(text), 0)  # two threads may both count from the same number
    test = python_test if _small else rust_test
    return any(map(call, map(test, patterns), repeat(text)))


def may_have_key(data: bytes) -> bool:
    """True if *data* may hold a key; never false if it does."""
    return is_any(FIRST, data)
