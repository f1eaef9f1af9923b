"""The world: it decides when, and whether, programs are told of outcomes from outside.

Invariant: a program that waits for something from outside has said so with ``expect`` (told later,
on the I/O loop) or ``see`` (told on the spot, on the program's own thread). Nothing outside of a
world asks whether a run is live, replayed or resumed.

A world hands an outcome over; the hub of the program delivers it, one at a time, when no program of
its thread can go on. What is recorded is the delivery.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from appl.backend import Chunk, Emit, Profile, Request, Response
from appl.errors import Awaited, RunError
from appl.runtime.event import Event, Instrument, Observed

if TYPE_CHECKING:
    from appl.runtime.answers.call import Call
    from appl.runtime.scheduling.call_status import Why

Go = Callable[[], object]
Tell = Callable[[Any], object]
"""A function that takes an outcome: a response, a message or an error; of a stream its pieces, too.
"""
How = Literal["cancelled", "failed"]
AMOUNTS = ("spent", "unpriced", "reserved")
"""Kinds of observations of budgets: what calls have used by then, which follows from the calls."""
LOOP_LIMIT, LOOP_TIMER = "loop limit", "loop timer"
"""Timers of a program's event loop: one that ends a wait, if that lasts so long, and any other."""
WAITING = "waiting"
"""The observation, at no address, of a run's end as waiting; its value is a list of what for."""
PERHAPS = ("cancelled", "deadline", LOOP_LIMIT, LOOP_TIMER)
"""Kinds of moments that need not come: nobody ended the function, the block ended in time."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One thing that a program may be told from outside.

    ``kind`` is ``answer``, ``tool``, ``workers`` (a map in other processes, which a world that
    knows answers does in this one), ``item`` (of such a map), ``cancelled`` (somebody outside ends
    a call or function), or the name of what is observed: ``sleep``, ``now``, ``done``. ``ordinal``
    is its number among those at its address. ``limit_s`` is the length of a time limit, ``about``
    a digest of what is asked of a person, or waited for: both are no parts of its name.
    """

    address: str
    kind: str
    ordinal: int = 0
    limit_s: float | None = field(default=None, compare=False)
    about: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class ToolRequest:
    """A tool that is to be run; a caller that cannot wait is told its end ``at_once``.

    ``may_ask`` tells if its code may ask a model itself.
    """

    name: str
    arguments: str
    at_once: bool
    may_ask: Callable[[], bool] = lambda: True


class Programs(Protocol):
    """The run, as far as a world may ask it to do something."""

    amend: Callable[[Call], None] | None
    """Changes what a call asks, just before it becomes a request."""

    def held_by(self, world: World) -> None:
        """Tell *world*, which may hold things back, when all programs wait."""

    def answered_by(self, world: World, *, caches: bool = True) -> None:
        """Note that *world* may know the answers to calls, so that time does not count.

        Without *caches* none is read.
        """

    def report_to(self, instrument: Instrument) -> None:
        """Tell *instrument* what happens, before all others."""

    @property
    def over(self) -> bool:
        """True if the run is over."""

    @property
    def rests(self) -> bool:
        """True if no program can go on."""

    def end_as_waiting(self, waits: Iterable[Awaited]) -> None:
        """End the run as waiting for *waits*."""

    def emit(self, event: Event) -> None:
        """Tell all instruments of the run."""

    def look_soon(self) -> None:
        """Look whether all programs wait; to be called at each hold, from any thread."""

    def moved(self) -> None:
        """Give programs that may still move their time again: something was asked for or told."""

    def nobody_can_proceed(self, patience_s: float) -> bool:
        """True if nobody will move by himself, as far as can be known; if not, look again soon."""

    def idle_for(self, seconds: float) -> bool:
        """True if nothing has happened for *seconds*; if not, looks again soon."""

    def recalled(self, call: Call, response: Response, requests: int) -> None:
        """Tell caches and budgets that *call* gets a recorded answer."""

    def charged(self, call: Call, response: Response, requests: int) -> None:
        """Charge a recorded answer to the budgets of the blocks around *call*."""

    def refusal(self, call: Call) -> Exception | None:
        """The error with which budgets refuse *call* now; ``None`` if they let it be sent."""


class EarlierObservation(Protocol):
    """An observation of a program in an earlier run."""

    @property
    def value(self) -> Any:
        """The value that was seen."""


class World(Protocol):
    """Hands over what programs are told.

    One that keeps things back, or knows the answers to calls, tells the run so when it opens: then
    it is asked to answer them, and told when all programs wait. Nobody asks what kind it is.
    """

    def opens(self, programs: Programs) -> None:
        """The run begins; called once, before anything else."""

    def expect(
        self, moment: Moment, tell: Tell, live: Go, about: Call | ToolRequest | None = None
    ) -> None:
        """Note that a program expects *moment*: call *tell* with its outcome, or start *live*."""

    def begins_run(self) -> None:
        """Note that a program begins a run of its own, which may ask. Raises if it may not."""

    def see(self, moment: Moment, live: Callable[[], object]) -> object:
        """The value that a program sees, now and on its own thread; *live* looks at the world."""

    def recorded(self, moment: Moment) -> EarlierObservation | None:
        """The observation at *moment* in the earlier run that this goes by, if it has one."""

    def leave(self, moment: Moment) -> None:
        """Forget *moment*, for which nobody waits any more."""

    def ends(self, moment: Moment, how: How, end: Go) -> None:
        """End what the program expected: call *end* at once, in its turn, or not at all."""

    def arrived(self, moment: Moment, end: Callable[[], object]) -> bool:
        """End *moment* from outside: true when *end* was called, false when it waits.

        Raises ``ControlError`` when it is recorded how it ended.
        """

    def skip(self, address: str) -> None:
        """Note that nothing at *address* or below it will be asked for."""

    def dropped(self, address: str) -> bool:
        """True if a call at *address* or below was cancelled when nobody held it any more."""

    def held(self) -> Iterable[tuple[Call, Why, int]]:
        """The calls that are held back, each with the reason and the number of others before it."""

    def idle(self, final: bool = True) -> bool:
        """Hand over the next thing, as all programs wait; false when there is none.

        Not *final* when a timer or a blocked thread may change that. An error ends the run.
        """

    def due(self) -> bool:
        """True if what would be handed over next is what came next when it was recorded."""

    def difference(self) -> Exception | None:
        """The first error about what record and program differ in, also if it was caught."""


@runtime_checkable
class Stepping(Protocol):
    """A backend that answers one call after the other, each time all programs wait."""

    def on_idle(self, final: bool = True) -> bool:
        """Release something; false when nothing waits for it."""


@runtime_checkable
class Shared(Protocol):
    """A stepping backend of several runs, which looks at all of them."""

    def watched_by(self, programs: Programs) -> None:
        """*programs* are those of one more run."""


@runtime_checkable
class Deferring(Protocol):
    """A backend whose answers may come after the end of this process.

    When nothing else can go on the run ends as waiting; the run that goes on asks it again.
    """

    def away(self) -> Iterable[Awaited]:
        """The promises it waits for; ``address`` is that of a call passed to ``complete``."""


class Live:
    """The world as it is: nothing is held back."""

    def opens(self, programs: Programs) -> None:
        # Who tells the instruments, and not the programs, which hold this: the run is freed at once
        # when nobody needs it any more, and does not wait for the garbage collector.
        self._emit = programs.emit

    def expect(
        self, moment: Moment, tell: Tell, live: Go, about: Call | ToolRequest | None = None
    ) -> None:
        live()

    def begins_run(self) -> None:
        pass

    def see(self, moment: Moment, live: Callable[[], object]) -> object:
        value = live()
        # After the look, so that the record's order of times is the order in which things were
        # seen; and before the program goes on, which may see the next thing at once.
        at = time.monotonic_ns()
        self._emit(Observed(moment.address, moment.ordinal, moment.kind, value, at))
        return value

    def recorded(self, moment: Moment) -> EarlierObservation | None:
        return None

    def leave(self, moment: Moment) -> None:
        """Timers that nobody waits for do no harm."""

    def ends(self, moment: Moment, how: How, end: Go) -> None:
        end()

    def arrived(self, moment: Moment, end: Callable[[], object]) -> bool:
        end()
        return True

    def skip(self, address: str) -> None:
        """Nothing was to come."""

    def dropped(self, address: str) -> bool:
        return False

    def held(self) -> Iterable[tuple[Call, Why, int]]:
        return ()

    def idle(self, final: bool = True) -> bool:
        return False

    def due(self) -> bool:
        return False

    def difference(self) -> Exception | None:
        return None


class Expected:
    """The moments that programs expect of a world that holds; an error is told to all of them.

    What has come, and what nobody waits for any more, is let go.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._tells: dict[Moment, Tell] = {}
        self._error: BaseException | None = None

    def expect(
        self, moment: Moment, tell: Tell, live: Go, about: Call | ToolRequest | None = None
    ) -> None:
        """As ``World.expect``; after an error every program is told that error."""
        # These need not come at all: no program is kept waiting by them, and an error that was told
        # to them would end functions that nobody ended.
        if moment.kind in PERHAPS:
            self._world.expect(moment, tell, live, about)
        elif self._error is not None:
            tell(self._error)
        else:
            # Before the world is asked: it may tell the outcome, or go live, in this very call.
            self._tells[moment] = tell
            self._world.expect(
                moment,
                lambda news: self._deliver(moment, news),
                lambda: self._live(moment, live),
                about,
            )

    def leave(self, moment: Moment) -> None:
        """As ``World.leave``."""
        self._tells.pop(moment, None)
        self._world.leave(moment)

    def ends(self, moment: Moment, how: How, end: Go) -> None:
        """As ``World.ends``."""
        self._world.ends(moment, how, lambda: self._live(moment, end))

    def fail(self, error: BaseException) -> None:
        """Tell all who wait, now or later, that *error* keeps the world from going on."""
        self._error = error  # first: a program that goes on now may expect the next thing at once
        for moment in tuple(self._tells):  # being told takes a moment out
            self._deliver(moment, error)

    def _deliver(self, moment: Moment, news: object) -> None:
        # A piece of a stream leaves its moment expected. An outcome takes it away, so that a world
        # which goes live after it cannot tell the program twice.
        ended = not isinstance(news, Chunk)
        tell = self._tells.pop(moment, None) if ended else self._tells.get(moment)
        if tell is not None:
            tell(news)

    def _live(self, moment: Moment, go: Go) -> None:
        self._tells.pop(moment, None)
        go()


class Nobody:
    """A backend that is never asked: its world answers."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        """There is no answer."""
        raise RunError(f"{request.address} was asked where no model is")

    async def aclose(self) -> None:
        """Nothing is held."""
