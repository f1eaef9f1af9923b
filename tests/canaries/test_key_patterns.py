"""The quick patterns, which are made of the tables of keys."""

from __future__ import annotations

import random

from appl.prompt.escapes import QUICK
from appl.prompt.key_masking import CLEANERS
from appl.prompt.key_patterns import FIRST
from appl.prompt.key_search import python_test, rust_test

from .key_patterns import patterns
from .published import PLACES, SHAPES, assigned, drawn

ALL = (*FIRST, QUICK, *(pattern for quick, _ in CLEANERS for pattern in quick))
PIECES = (
    "key", "token", "Password", "is", "value", "curl", "-u", "--user", "machine", "://", "@", "sig",
    "=", ":", " ", "\n", "\t", "\x0b", "\x0c", "\x1c", "\x1f", "\\", '"', "'", "[", "]", "{", "%41",
    "\\u0041", "&#65;", "a1B2", "-----BEGIN ", "PRIVATE KEY", "eyJ", ".", "_", "-", "bearer",
)  # fmt: skip


def test_the_quick_patterns_are_those_that_the_tables_give() -> None:
    assert tuple(patterns()) == FIRST, "run: python -m tests.canaries.key_patterns"


def test_both_engines_find_the_same() -> None:
    rng = random.Random(7)
    texts = ["".join(rng.choices(PIECES, k=rng.randint(1, 24))) for _ in range(1500)]
    for form in (*SHAPES.values(), *PLACES.values()):
        key = drawn(form, rng)
        texts += [f"It is {key}, and so on", *assigned("API_KEY", key).values()]
    for pattern in ALL:
        quick, linear = python_test(pattern), rust_test(pattern)
        wrong = [text for text in texts if bool(quick(text)) != linear(text)]
        assert wrong == [], pattern
