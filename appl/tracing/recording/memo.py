"""The content that a trace has records of already, and that is not written again.

Invariant: what is forgotten is written once more, so that forgetting costs bytes and nothing else.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from appl.prompt import Rope

K = TypeVar("K", bound=Hashable)
_NOTHING: dict[Any, int] = {}
"""The earlier half of a map before it has forgotten anything; it stays empty."""
MessageKey = tuple[str, str] | tuple[bytes]


class Memo(Generic[K]):
    """A map from keys to the numbers of their records, which forgets those that are least used.

    New ones are put into ``recent``. ``age`` makes these the earlier ones, and those that were
    earlier before are forgotten unless they were found since then.
    """

    __slots__ = ("earlier", "find", "recent")

    def __init__(self) -> None:
        self.recent: dict[K, int] = {}
        self.earlier: dict[K, int] = _NOTHING

        # Replaced when the map ages: until then a look-up is that of one dict, without a call of
        # ours, and most runs never get there.
        self.find: Callable[[K], int | None] = self.recent.get

    def _either(self, key: K) -> int | None:
        """The number that was written for *key*, which is recent again."""
        number = self.recent.get(key)
        if number is None and (number := self.earlier.get(key)) is not None:
            self.recent[key] = number
        return number

    def age(self) -> None:
        """Forget what was not found since the last time."""
        self.earlier, self.recent, self.find = self.recent, {}, self._either


class Ropes(weakref.WeakKeyDictionary["Rope", int]):
    """The records of growing texts, as long as somebody holds the texts."""

    # A text that nobody holds any more cannot grow, so that its record is not asked for again.
    put = weakref.WeakKeyDictionary.__setitem__


class WrittenContent:
    """The records of a trace by what they hold.

    ``files`` are names of files, ``messages`` known by role and text or by their digest,
    ``answers`` the calls that gave an answer, by its text, ``vectors`` are pieces by their bytes'
    digest, ``nodes`` links of prompts, ``params``
    sampling parameters; ``scopes`` and ``calls`` are known by their addresses, and ``sites`` and
    ``lines`` are the source lines that texts came from, by code object and by file.

    All maps are to age when more than ``most_records`` ``records`` were written since the last
    time, or more than ``most_text`` characters of ``text``; so twice as many are kept.
    """

    def __init__(self) -> None:
        self.most_records, self.most_text = 1 << 17, 1 << 22
        self.records = self.text = 0
        self.files: Memo[str] = Memo()
        self.messages: Memo[MessageKey] = Memo()
        self.answers: Memo[str] = Memo()
        self.nodes: Memo[Hashable] = Memo()
        self.media: Memo[bytes] = Memo()
        self.vectors: Memo[bytes] = Memo()
        self.params: Memo[Hashable] = Memo()
        self.scopes: Memo[str] = Memo()
        self.calls: Memo[str] = Memo()
        self.ropes = Ropes()
        self.sites: dict[tuple[int, int], tuple[Any, int]] = {}
        self.lines: dict[tuple[str, int], int] = {}

    def age(self) -> None:
        """Forget what was not found since the last time."""
        self.records = self.text = 0
        for memo in vars(self).values():
            if isinstance(memo, Memo):
                memo.age()
