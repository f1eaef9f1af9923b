"""Texts without what looks like a key: by its shape, or by the place where it stands.

Invariant: pure functions; what stands in place of a key is the caller's.
"""

from __future__ import annotations

from typing import Final

from appl.prompt.key_places import (
    AFTER_WORD,
    OF_URL,
    QUICK_NAMES,
    QUICK_PLACES,
    SHORTEST,
    open_value_from,
    without_loose_values,
    without_secret_values,
)
from appl.prompt.key_shapes import (
    QUICK_SHAPES,
    QUICK_STARTS,
    SHAPES,
    open_key_from,
    run_at_end,
    without_shapes,
)
from appl.prompt.text_search import Instead, regex

KINDS: Final = frozenset({*(shape.kind for shape in SHAPES), OF_URL, AFTER_WORD})
"""The names that stand for what was found by its shape or by its place."""
LONGEST: Final = 1 << 14
"""Characters of the longest key that is looked for."""

_LOOSE = (
    r"(://)([^/\s]{1,1024})(?=@)",
    r"((?i:\b(?:bearer|basic))\s{1,4})([\w.~+/=*-]{4,})",
    r"()(\b(?:sk|pk|rk|gsk|xai|hf|ghp|key|nvapi|pplx|r8)[-_][\w*.-]{6,})",
    r"()(\b(?:AIza|AKIA|ya29\.)[\w-]{8,})",
    r"()(\beyJ[\w-]{8,4096}\.[\w-]{8,8192}\.[\w-]{0,4096})",
    r"([?&](?i:key|api[-_]?key|token|sig)=)([^&\s\"']+)",
)
"""A likely key, where a word too much does no harm: in messages that nobody replays."""

CLEANERS: Final = (
    ((*QUICK_STARTS, "|".join(QUICK_SHAPES)), without_shapes),
    ((*QUICK_PLACES, QUICK_NAMES), without_secret_values),
)
"""The functions that take keys out, each behind patterns for the keys that it finds."""


def without_keys(text: str, instead: Instead) -> str:
    """*text* with what *instead* makes of a kind of key in place of each key.

    These are keys of a known shape, passwords in URLs and in other places that are known, and texts
    of high entropy after a telling name. A word that stands for a password in examples is none.
    """
    return without_secret_values(without_shapes(text, instead), instead)


def without_likely_keys(text: str, instead: str) -> str:
    """*text* with *instead* in place of each key, and of whatever else may be one.

    That is for messages, logs and arguments, in which a word may be lost.
    """

    def shown(kind: str) -> str:
        return instead

    text = without_loose_values(without_keys(text, shown), shown)
    for pattern in _LOOSE:
        text = regex(pattern).sub(lambda match: match[1] + instead, text)
    return text


# -- where a text may go on ----------------------------------------------------------------------

_BEGINNING = r"\s{0,2}[A-Za-z0-9+/=_.~:%|@-]*"


def may_go_on(before: str, after: str) -> bool:
    """True if a key may begin at the end of the text *before* and end in *after*."""
    beginning = regex(_BEGINNING).match(after)
    size = len(before) - run_at_end(before) + len(beginning[0] if beginning else "")
    return size >= SHORTEST


def key_goes_on_from(text: str) -> int:
    """The beginning of a key that may go on after the end of *text*; else the length of *text*."""
    return min(open_key_from(text), open_value_from(text))
