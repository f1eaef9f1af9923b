"""Has a thread that waits for the interpreter's lock get it soon, while somebody asks for that.

Invariant: an interval that the program has set itself is left if it is shorter; what was lowered
comes back when nobody asks any more, unless the program has changed it since.
"""

from __future__ import annotations

import sys

SWITCH_SECONDS = 0.0005
"""The longest that a thread which computes keeps the lock from one that waits; Python's default of
5 ms is as long as an answer may be unwritten. Two threads that compute lose 3 percent by it."""


class Turns:
    """The interval after which the threads of this process let each other go on.

    No lock is held, as a process may fork at any time: two who ask in one moment find the same.
    """

    def __init__(self) -> None:
        self._asking = set[int]()
        self._usual = 0.0

    def hasten(self, owner: object) -> None:
        """Have no thread wait for longer than ``SWITCH_SECONDS``, until *owner* takes it back."""
        interval = sys.getswitchinterval()
        if interval > SWITCH_SECONDS:
            self._usual = interval
            sys.setswitchinterval(SWITCH_SECONDS)
        self._asking.add(id(owner))

    def relax(self, owner: object) -> None:
        """Take back the request of *owner*."""
        self._asking.discard(id(owner))
        if self._usual and not self._asking:
            if abs(sys.getswitchinterval() - SWITCH_SECONDS) < 1e-6:
                sys.setswitchinterval(self._usual)
            self._usual = 0.0
