"""The adaptive limit of attempts that are with a backend at once.

Invariant: never more are let in than the limit of the moment, which never passes the one that was
given; attempts are let in, in the order of asking. As TCP does (Jacobson, "Congestion avoidance and
control", 1988): one more for each answer at first, later one more for each round trip, half when
turned away, at most once for all that was sent before.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable


class Slots:
    """Slots of one backend; ``limit`` is ``None`` as long as all may come.

    *most* is the limit that was given, *start* the first one that is tried. *on_room* is called
    when there is room for more than before.
    """

    def __init__(
        self,
        most: int | None,
        start: int,
        on_room: Callable[[], None],
        *,
        slow: bool = False,
        adaptive: bool = True,
    ) -> None:
        self._most, self._adaptive, self._on_room = most, adaptive, on_room
        self._start = start if most is None else min(start, most)
        self._size: float | None = float(self._start) if slow else most
        self._doubling = True
        self._tried = slow
        self._waiting: deque[asyncio.Future[None]] = deque()
        self.taken = 0
        self.epoch = 0

    @property
    def limit(self) -> int | None:
        """The number of attempts that may be there now; ``None`` without limit."""
        return None if self._size is None else int(self._size)

    @property
    def most(self) -> int | None:
        """The limit that was given."""
        return self._most

    def resize(self, most: int) -> None:
        """Set the limit that was given to *most*, and try that one first."""
        self._most, self._start = most, min(self._start, most)
        self._size, self._doubling = float(most), True
        self._let_in()
        self._on_room()

    async def take(self) -> int:
        """Wait for a slot and take it; returns the epoch, for ``busy`` and ``answered``."""
        epoch = self.take_now()
        if epoch is not None:
            return epoch
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            # Cancelled after its turn had come: the slot was taken for it, and would be lost.
            if turn.done() and not turn.cancelled():
                self.taken -= 1
                self._let_in()
            raise
        return self.epoch

    def take_now(self) -> int | None:
        """Take a slot if there is ``room``; returns the epoch, or ``None``."""
        if self._waiting or (self._size is not None and self.taken >= int(self._size)):
            return None
        self.taken += 1
        return self.epoch

    def give(self) -> None:
        """Give a slot back."""
        self.taken -= 1
        if self._waiting:
            self._let_in()

    def answered(self, epoch: int) -> None:
        """Note the answer to an attempt that began in *epoch*; before its slot is given back."""
        # It says something of the limit only if all slots were taken, under the present limit.
        if self._size is None or epoch != self.epoch or self.taken < int(self._size):
            return
        before = int(self._size)
        self._size += 1 if self._doubling else 1 / self._size
        if self._most is not None:
            self._size = min(self._size, self._most)
        if int(self._size) > before:
            self._let_in()
            self._on_room()

    def busy(self, epoch: int) -> None:
        """Note that an attempt that began in *epoch* was turned away."""
        # Of all that were sent under one limit the first counts. The others were on their way
        # already, and say nothing of the new limit.
        if not self._adaptive or epoch != self.epoch:
            return
        self.epoch += 1
        if self._size is None or not self._tried:
            self._size, self._tried = float(self._start), True  # what it bears is not known at all
        else:
            self._size, self._doubling = max(1.0, self._size / 2), False

    def _let_in(self) -> None:
        while self._waiting and (self._size is None or self.taken < int(self._size)):
            turn = self._waiting.popleft()
            if not turn.done():  # else it was cancelled
                self.taken += 1  # here, not when its task runs: until then others would come
                turn.set_result(None)
