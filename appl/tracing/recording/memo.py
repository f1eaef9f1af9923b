"""What was written already, by what it is: bounded, and forgetting what was not used for long."""

from __future__ import annotations

import weakref
from typing import Any

from appl.prompt import Rope

_REMEMBERED, _REMEMBERED_TEXT = 1 << 16, 1 << 22


class Memo:
    """What was written already, by key: bounded, and forgetting the least used half."""

    def __init__(self, limit: int = _REMEMBERED) -> None:
        self._limit = limit
        self.young: dict[Any, int] = {}
        self.old: dict[Any, int] = {}

    def get(self, key: Any) -> int | None:
        found = self.young.get(key)
        if found is None and self.old and (found := self.old.get(key)) is not None:
            self.put(key, found)
        return found

    def put(self, key: Any, number: int) -> None:
        if len(self.young) >= self._limit:
            self._forget()
        self.young[key] = number

    def _forget(self) -> None:
        self.old, self.young = self.young, {}


class Said(Memo):
    """The same of messages, by role and text, or by their digest: bounded in characters too."""

    _size, _most = 0, _REMEMBERED_TEXT

    def put(self, key: Any, number: int) -> None:
        self._size += len(key[-1])
        if self._size > self._most or len(self.young) >= self._limit:
            self._size = 0
            self._forget()
        self.young[key] = number


class Ropes(weakref.WeakKeyDictionary[Rope, int]):
    """What was written of texts that go on, as long as somebody holds them."""

    put = weakref.WeakKeyDictionary.__setitem__
