"""Lists of messages that were sent recently: a list that goes on costs only its new messages.

Invariant: what is taken from an earlier list says what the new one says now; to know that, nothing
is waited for.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field

from appl.prompt import Message, Messages
from appl.runtime.concurrency.promise import GLANCE

_LISTS = 16


@dataclass(slots=True)
class Beginning:
    """The first messages of a list as they were when it was given, and the chain up to each."""

    copies: list[object] = field(default_factory=list)
    links: list[Messages] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.links)

    def common(self, messages: list[object]) -> int:
        """The number of *messages*, from the first one on, that are as they were here."""
        GLANCE.on = True
        try:
            if self.copies == messages[: len(self)]:
                return len(self)
            pairs = enumerate(zip(self.copies, messages, strict=False))
            shorter = min(len(self), len(messages))
            return next((i for i, (a, b) in pairs if a is not b and a != b), shorter)
        finally:
            GLANCE.on = False

    def add(self, message: object, link: Messages) -> bool:
        """Note one more; false when a copy would not tell that it was changed."""
        if type(message) is dict:
            if not all(isinstance(value, str) for value in message.values()):
                return False
        elif not isinstance(message, Message):
            return False
        self.copies.append(dict(message) if type(message) is dict else message)
        self.links.append(link)
        return True


class Recent:
    """The lists of one run, the latest last."""

    def __init__(self) -> None:
        self._lists: deque[Beginning] = deque(maxlen=_LISTS)
        self._lock = threading.Lock()

    def beginning(self, messages: list[object]) -> Beginning:
        """The most that *messages* has in common with an earlier list, for ``remember`` to take.

        An earlier list that *messages* begins with is handed over, not copied.
        """
        best, most = Beginning(), 0
        for earlier in reversed(list(self._lists)):
            count = earlier.common(messages)
            if count > most:
                if count == len(earlier) and self._forget(earlier):
                    return earlier
                best, most = earlier, count
        return Beginning(best.copies[:most], best.links[:most])

    def _forget(self, forgotten_list: Beginning) -> bool:
        with self._lock:
            lists = [earlier for earlier in self._lists if earlier is not forgotten_list]
            forgotten = len(lists) < len(self._lists)
            self._lists = deque(lists, maxlen=_LISTS)
        return forgotten

    def remember(self, beginning: Beginning) -> None:
        """Keep *beginning* in place of the list that was asked with longest ago."""
        with self._lock:
            self._lists.append(beginning)
