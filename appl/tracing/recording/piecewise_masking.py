"""Answers that are shown while they come in pieces, without their secrets.

Invariant: what is held back is only what may be the beginning of a secret, and the next pieces or
the end of the answer let it go.
"""

from __future__ import annotations

import re
from itertools import takewhile

from appl.prompt.key_masking import LONGEST
from appl.tracing.recording.secret import Masker

_LAST_WORDS = re.compile(r"(?:\A|(?<=[^!-~]))[^\0]{0,400}\Z")
"""The end of what was shown, from the beginning of a word: a telling word may stand there."""


class PiecewiseMasker:
    """One text that comes in pieces; *masker* knows the secrets."""

    def __init__(self, masker: Masker) -> None:
        self._masker, self._shown, self._held = masker, "", ""

    def feed(self, piece: str) -> str:
        """The text that can be shown after *piece*."""
        self._held += piece
        size = self._size()
        return self._show(size) if size else ""

    def close(self) -> str:
        """The text that was held back."""
        return self._show(len(self._held))

    def _show(self, size: int) -> str:
        # Masked together with what stands before it, as a key may be known by a word in front of
        # it; of the result only what was not shown yet is new.
        masked = self._mask(self._shown + self._held[:size])
        pairs = zip(self._shown, masked, strict=False)
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        new = masked[same:]
        self._held = self._held[size:]
        match = _LAST_WORDS.search(self._shown + new)
        self._shown = match[0] if match else ""
        return new

    def _size(self) -> int:
        """The number of held characters that can be shown."""
        text, all_of_it = self._shown + self._held, len(self._held)
        if all_of_it > LONGEST:
            return all_of_it
        at = self._masker.open_from(text)
        size = max(at - len(self._shown), 0)
        if 0 < size < all_of_it:
            divided = self._mask(text[:at]) + self._mask(text[at:])
            return size if self._mask(text) == divided else 0  # else a secret goes on after it
        return size

    def _mask(self, text: str) -> str:
        return self._masker.text(text, [])
