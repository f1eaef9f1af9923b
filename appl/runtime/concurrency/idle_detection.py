"""Idle detection: when no program of a run can go on, the world that holds outcomes back is told.

Invariant: looked for on the I/O loop, and only when nothing is on its way there; a program that
waits outside of appl counts as idle after ``GRACE`` seconds in which nothing happened, and then
for as long as it is in that wait. One that computes is waited for, unless it does so for ``LONG``
times as long: it may wait for another.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Protocol

from appl.runtime.concurrency.effort import (
    OWN,
    Effort,
    Idleness,
    Waits,
    polls,
    waits_for_another,
    waits_for_work,
)
from appl.runtime.concurrency.loop_thread import io_thread

if TYPE_CHECKING:
    import asyncio

    from appl.runtime.concurrency.fiber import Hub

GRACE = 0.25
LONG = 40
FOREIGN_S = 3.0
"""The seconds without an event after which programs that wait for other threads wait for ever.

Until then a thread that Python does not know of, as those of libraries in C, may wake one of them.
"""
STRANGERS_S = 30.0
"""The same where Python knows of other threads that are older than the run, none of which has
worked in that time: those of debuggers and notebooks. One that is younger may be the program's own,
and sleep for longer: it is waited for.
"""
_HOPS = 50
Stillness = Literal["quiet", "timed", "waits"]
"""The kinds of rest: for good, until a timer strikes, or until another thread wakes a program."""
_FIRST_GLANCE, _GLANCE, _PAUSE = 0.001, 0.03, 1.0


class WatchedRun(Protocol):
    """The run whose programs are watched."""

    @property
    def over(self) -> bool:
        """True if the run is over."""

    @property
    def busy(self) -> bool:
        """True if a call of the run is on its way to a backend or to the program."""

    def fail(self, error: BaseException) -> None:
        """End the run with *error*."""


class IdleDetection:
    """Watches the hubs of one run.

    *idle* and *due* are those of ``World``. ``waits`` counts how often nothing happened for
    ``GRACE`` seconds while somebody did not rest.
    """

    def __init__(
        self, run: WatchedRun, idle: Callable[[bool], bool], due: Callable[[], bool] = lambda: False
    ) -> None:
        self._run: WatchedRun | None = run
        self._idle, self._due = idle, due
        self._hubs: set[Hub] = set()
        self._is_scheduled = False
        self._hops = 0
        self._moves = 0  # grows whenever a program may have gone on: a look from before is stale
        self._moves_at_look = 0
        self._looks = 0
        self._forced_at = -1  # the number of moves at which waiting for blocked threads was ended
        self._effort = Effort()
        self._idleness = Idleness()
        self._older = weakref.WeakSet(threading.enumerate())
        self._abandoned_waits = Waits()
        self._spared = 0
        self._awake: Hub | None = None  # who did not rest the last time, and is looked at first
        self._timer_look: asyncio.TimerHandle | None = None
        self.starting = 0
        self.timers = 0
        self.waits = 0

    def joins(self, hub: Hub) -> None:
        """Watch *hub*, on which a program of the run is active; called on the hub's thread."""
        self._moves += 1
        hub.stirs()
        if hub not in self._hubs:
            self._hubs.add(hub)
            hub.on_sleep.append(self.soon)

    def ends(self) -> None:
        """The run is over: hubs outlive it, and need not tell it any more."""
        for hub in tuple(self._hubs):
            hub.on_sleep = [tell for tell in hub.on_sleep if tell != self.soon]
        self._run = None  # which holds this

    def soon(self) -> None:
        """Look as soon as the I/O loop has nothing else to do."""
        self._moves += 1
        if not self._is_scheduled:
            self._is_scheduled = True
            io_thread().send(self._look)

    # -- for worlds that hold something back

    @property
    def over(self) -> bool:
        """True if the run is over."""
        run = self._run  # once: the program's thread may end it meanwhile
        return run is None or run.over

    @property
    def rests(self) -> bool:
        """True if no program of the run can go on; for a backend that serves several runs."""
        return self.over or (self._still() is not None and not self._in_transit())

    @property
    def is_stale(self) -> bool:
        """True if a program may have gone on since the latest look began."""
        return self._moves != self._moves_at_look

    def moved(self) -> None:
        """Give all others their time again: something was asked for, or handed over."""
        self._idleness.ends()

    def nobody_can_proceed(self, patience_s: float) -> bool:
        """True if nobody will move by himself, as far as can be known; if not, look again soon.

        What the run does not know of, a thread of the program's own or a function on a worker of
        its loop, is waited for while it works. What only sleeps is waited for during *patience_s*
        seconds, and not at all if it is known to sleep for longer.
        """
        hubs, sleeps = tuple(self._hubs), False
        if not self.timers and not self._strangers():  # only timers of loops can move somebody
            sleeps = all(
                self._rest_of(hub) and hub.next_timer() > patience_s for hub in hubs if hub.alive()
            )
        if sleeps:
            patience_s = min(patience_s, GRACE)
        else:
            # Earlier deliveries did not wait for blocked threads (``_stands_still``). Before the
            # world gives up they get the time that was not given to them then.
            patience_s += self._spared * GRACE
        return self.idle_for(patience_s)

    def idle_for(self, seconds: float) -> bool:
        """True if nothing has happened for *seconds*; if not, looks again soon."""
        remaining = seconds - self._idleness.seconds()
        if remaining <= 0:
            return True
        io_thread().loop.call_later(min(remaining, _GLANCE), self.soon)
        return False

    def _strangers(self) -> list[threading.Thread]:
        """The threads that are not watched, and may move a program."""
        watched = {hub.thread for hub in tuple(self._hubs)}
        others = (thread for thread in threading.enumerate() if thread not in watched)
        return [
            thread for thread in others if thread.name not in OWN and not waits_for_work(thread)
        ]

    def _look(self) -> None:
        self._is_scheduled = False  # first: who asks from now on has moved after this look began
        self._moves_at_look = self._moves
        still = self._still()  # before what is on its way: who rests has sent what he had to send
        moving = self._in_transit()
        # Callbacks of the loop may still send something. They go first, but not for ever: a
        # backend may poll with callbacks that schedule themselves again.
        polls = bool(getattr(io_thread().loop, "_ready", None))  # and may never end to
        if moving or (polls and self._hops < _HOPS):
            self._hops = 0 if moving else self._hops + 1
            self._reschedule()
            return
        self._hops = 0
        if self.over:
            return
        if still is not None:
            self._hand_over(
                final=still == "quiet" and not self.timers,
                waits=still == "waits" and not self.timers,
            )
        elif self._forced_at == self._moves:
            # Nothing has moved since the blocked threads were given up on. They might still go
            # on, so this is not final: the world may hand over, but not end the run yet.
            # Each thread of the run rests, or waits for another one, perhaps a stranger.
            hubs = tuple(self._hubs)
            waits = all(self._rest_of(hub) or waits_for_another(hub.thread) for hub in hubs)
            waits = waits and not self.timers and self.starting <= 0 and self._loops_poll()
            self._hand_over(final=False, waits=waits)
        elif self._stands_still():
            # The same threads are still blocked in the same waits. To wait ``GRACE`` seconds for
            # them again before every delivery would make a replay slow for nothing.
            self._spared += 1
            self._hand_over(final=False)
        else:
            self._look_later()

    def _reschedule(self) -> None:
        # One look at a time is on its way: each of two would take the other for something that the
        # loop still has to run, and wait for it.
        if not self._is_scheduled:
            self._is_scheduled = True
            io_thread().loop.call_soon(self._look)

    def _in_transit(self) -> bool:
        run = self._run
        return not io_thread().empty or (run is not None and run.busy)

    def _still(self) -> Stillness | None:
        """The way in which all programs rest; ``None`` if one may go on.

        They are looked at twice, as one may wake another and rest in between. A hub that was woken
        and rests again has taken a turn more at the second look. A thread may end between the two
        looks; a hub that it has woken before has taken a turn, too. A timer of a loop moves a hub
        without a turn. So all are quiet only if they were so at both looks.
        """
        before = self._resting()
        now = self._resting() if before is not None else None
        if before is None or now is None:
            return None
        if any(hub not in before or before[hub][0] != turns for hub, (turns, _) in now.items()):
            return None
        kinds = {rest for _, rest in (*before.values(), *now.values())}
        return "timed" if "timed" in kinds else "waits" if "waits" in kinds else "quiet"

    def _resting(self) -> dict[Hub, tuple[int, Stillness]] | None:
        """The number of turns that each hub has taken, and its rest; ``None`` if one has none."""
        awake = self._awake
        if self.starting > 0 or (awake is not None and not self._rest_of(awake) and awake.alive()):
            return None
        hubs = tuple(self._hubs)  # their threads add to the set
        living = [hub for hub in hubs if hub.alive()]  # first: who ends may wake another
        self._hubs.difference_update(set(hubs) - set(living))
        look: dict[Hub, tuple[int, Stillness]] = {}
        for hub in living:
            hub.settle()
            rest = self._rest_of(hub)
            if rest is None:
                self._awake = hub
                return None
            look[hub] = hub.turns, rest
        self._awake = None
        return look

    def _rest_of(self, hub: Hub) -> Stillness | None:
        """The rest of *hub*; a thread that is in a loop, or waits for work or others, rests too."""
        rest: Stillness | None = hub.rest()
        if rest is not None or hub.loop is not None:
            return rest
        # an idle thread of a pool, where no loop runs what it may have sent: looked at after it
        if self._in_loop(hub.thread) or (waits_for_work(hub.thread) and self._loops_poll()):
            return "quiet"
        # A thread that Python does not know of may still wake it: it gets ``FOREIGN_S`` seconds.
        waits = waits_for_another(hub.thread) and not self._strangers() and self._loops_poll()
        return "waits" if waits else None

    def _in_loop(self, thread: threading.Thread) -> bool:
        return any(loop.thread is thread and loop.runs() for loop in tuple(self._hubs))

    def _patience_s(self) -> float | None:
        """The seconds without an event after which threads that wait for others wait for ever.

        ``None`` while a younger thread may still move one of them.
        """
        strangers = self._strangers()
        if not strangers:
            return FOREIGN_S
        return STRANGERS_S if all(stranger in self._older for stranger in strangers) else None

    def _loops_poll(self) -> bool:
        """True if no running loop has anything to do."""
        return all(hub.settled(polls) for hub in tuple(self._hubs) if hub.runs())

    def _look_later(self, patience: int = LONG) -> None:
        moves = self._moves
        self._looks = number = self._looks + 1  # only the latest timer counts
        for thread in self._busy():
            self._effort.note(thread)

        def look() -> None:
            if self._looks != number or self.over:
                return
            if self._moves != moves:  # somebody went on, who may have gone to wait elsewhere
                self._reschedule()
                return
            self.waits += 1
            # A thread that computes will go on by itself, and what it does then comes before the
            # next delivery. One that sleeps outside of appl may wait for ever: it is given up on.
            works = [self._effort.goes_on(thread) for thread in self._busy()]  # notes each
            if any(works) and patience:
                self._look_later(patience - 1)
            else:
                self._forced_at, self._spared = moves, 0
                self._abandoned_waits.note()
                self._reschedule()

        def glance(pause: float) -> None:
            # A thread of a pool that waits for work says so to nobody, and neither does a loop that
            # waits in its selector.
            if self._looks != number or self.over:
                return
            if self._still() is not None:
                self._reschedule()
            elif pause < GRACE:
                io_thread().loop.call_later(pause, glance, 2 * pause)

        io_thread().loop.call_later(GRACE, look)
        io_thread().loop.call_later(_FIRST_GLANCE, glance, _FIRST_GLANCE)

    def _stands_still(self) -> bool:
        """True if all threads that do not rest are in the waits in which they were given up on.

        Then the next delivery follows at once, if it is the one that was recorded next: a thread
        that goes on later is told things after it, as in the record. A thread that has run since,
        or could run now, is waited for again: it may be about to wake one of them.
        """
        if self.starting > 0 or not self._abandoned_waits.noted or not self._due():
            return False
        hubs = tuple(self._hubs)
        resting = {hub.thread.native_id for hub in hubs if self._rest_of(hub)}
        resting -= {thread.native_id for thread in self._busy()}
        own = {thread.native_id for thread in threading.enumerate() if thread.name in OWN}
        return self._abandoned_waits.last(but=resting | own | {threading.get_native_id()})

    def _busy(self) -> list[threading.Thread]:
        return [hub.thread for hub in tuple(self._hubs) if not self._rest_of(hub)]

    def _hand_over(self, final: bool, waits: bool = False) -> None:
        """Have the world hand something over; where all wait for others, it is final in time."""
        self._forced_at = -1  # what is handed over now moves somebody: all are waited for again
        try:
            released = self._idle(final)
        except Exception as error:
            if (run := self._run) is not None:
                run.fail(error)
            return
        if released:
            self._moves += 1
            self._reschedule()
        elif waits and (patience_s := self._patience_s()) is not None:
            if self._idleness.seconds() >= patience_s:
                self._hand_over(final=True)
            else:
                self._look_in(_GLANCE)
        elif not final:
            # What the next timer of a loop moves may end, or wait for something else, without a
            # word to appl. Then nobody else would ask for the look that finds all programs quiet.
            due = min((hub.next_timer() for hub in tuple(self._hubs)), default=math.inf)
            if due < math.inf:
                self._look_in(min(max(due, _GLANCE), _PAUSE))  # an ended run is not kept long

    def _look_in(self, seconds: float) -> None:
        """Look again in so many seconds, and not at the time that was meant before."""
        if self._timer_look is not None:
            self._timer_look.cancel()
        self._timer_look = io_thread().loop.call_later(seconds, self.soon)
