"""A bounded map from content to the id of its record, which forgets the least used half."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from appl.prompt import Rope

_REMEMBERED, _REMEMBERED_TEXT = 1 << 16, 1 << 22


K = TypeVar("K", bound=Hashable)
_NOTHING: dict[Any, int] = {}
"""The earlier half of a map before it has forgotten anything; it stays empty."""
MessageKey = tuple[str, str] | tuple[bytes]


class Memo(Generic[K]):
    """A bounded map from a key to the number of its record, which forgets the least used half."""

    def __init__(self, limit: int = _REMEMBERED) -> None:
        self.limit = limit
        self.recent: dict[K, int] = {}
        self.earlier: dict[K, int] = _NOTHING

        # Replaced when half is forgotten: until then a look-up is that of one dict, without a call
        # of ours, and most runs never get there.
        self.find: Callable[[K], int | None] = self.recent.get

    def _either(self, key: K) -> int | None:
        """The number that was written for *key*, which is recent again."""
        found = self.recent.get(key)
        if found is None and (found := self.earlier.get(key)) is not None:
            self.put(key, found)
        return found

    def put(self, key: K, number: int) -> None:
        if len(self.recent) >= self.limit:
            self._forget()
        self.recent[key] = number

    def _forget(self) -> None:
        self.earlier, self.recent, self.find = self.recent, {}, self._either


class MessageMemo(Memo[MessageKey]):
    """The same of messages, by role and text, or by their digest: bounded in characters too."""

    _size, most = 0, _REMEMBERED_TEXT

    def put(self, key: MessageKey, number: int) -> None:
        self._size += len(key[-1])
        if self._size > self.most or len(self.recent) >= self.limit:
            self._size = 0
            self._forget()
        self.recent[key] = number


class AnswerMemo(Memo[str]):
    """The calls that gave an answer, by its text: bounded in characters too."""

    _size = 0

    def put(self, key: str, number: int) -> None:
        self._size += len(key)
        if self._size > _REMEMBERED_TEXT or len(self.recent) >= self.limit:
            self._size = 0
            self._forget()
        self.recent[key] = number

    def without(self, number: object) -> dict[int, str]:
        """Forget the answer of the call *number*, if there is one; its text by that number."""
        # The record of that answer could not be written: a message that said the same must hold
        # the text itself, or it would refer to nothing.
        for known in (self.recent, self.earlier):
            text = next((text for text, call in known.items() if call == number), None)
            if text is not None:
                return {known.pop(text): text}
        return {}


class Ropes(weakref.WeakKeyDictionary[Rope, int]):
    """The records of growing texts, as long as somebody holds the texts."""

    # A text that nobody holds any more cannot grow, so that its record is not asked for again.
    put = weakref.WeakKeyDictionary.__setitem__


class WrittenContent:
    """The content that a trace has records of already, so that it is not written again.

    ``texts`` are names of files, ``nodes`` links of prompts, ``sites`` and ``lines`` the source
    lines that texts came from, by code object and by file.
    """

    __slots__ = ("answers", "lines", "media", "messages", "nodes", "ropes", "sites", "texts")

    def __init__(self) -> None:
        self.texts: Memo[str] = Memo()
        self.messages, self.answers = MessageMemo(), AnswerMemo()
        self.nodes: Memo[Hashable] = Memo()
        self.media: Memo[bytes] = Memo()
        self.ropes = Ropes()
        self.sites: dict[tuple[int, int], tuple[Any, int]] = {}
        self.lines: dict[tuple[str, int], int] = {}
