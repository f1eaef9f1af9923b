"""Previews: a program runs until it needs an answer, and no model is asked.

Invariant: no call reaches a backend and nothing is recorded. When every program waits, all of
them are told that there will be no answer, and end there.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from types import FrameType, TracebackType
from typing import Any, Self

from appl.errors import InvalidOption
from appl.runtime.activation import KEEPING
from appl.runtime.answers.call import Call
from appl.runtime.concurrency.fiber import hub_here, in_coroutine, wait
from appl.runtime.concurrency.loop_thread import io_thread
from appl.runtime.concurrency.promise import Error, Promise
from appl.runtime.frame import FRAME, FrameRun, current
from appl.runtime.prompts.rendering import Holes, Need, Rendered, Rendering
from appl.runtime.run import Run
from appl.runtime.world import (
    LOOP_LIMIT,
    LOOP_TIMER,
    Go,
    Live,
    Moment,
    Nobody,
    Programs,
    Tell,
    ToolRequest,
)

MOST = 1000
"""The calls after which a preview ends: a program may go on for ever without waiting."""

PATIENCE_S = 2.0
"""The seconds in which a program may set timers of its event loop without making a call: one that
polls would do so for ever."""

_UNSEEN = frozenset({"input"})
"""Observations that a preview does not make."""


def render(f: Callable[..., object], /, *args: object, **kwargs: object) -> Rendering:
    """The prompts of ``f(*args, **kwargs)`` before any call is made, with holes for answers.

    Shown are its first call, and every further one that it comes to without waiting for an
    answer; where it waits, what follows is not known, and the rendering says so. The function's
    own Python runs, except ``appl.input`` and ``appl.observe``; no model is asked and nothing is
    recorded. Of a generator, all that it yields is taken, and nothing is sent in.
    """
    if not callable(f):
        raise InvalidOption(
            f"appl.render(f, ...) takes a function and its arguments, got {f!r:.80}; write "
            "appl.render(f, x), not appl.render(f(x))"
        )
    outer = current()

    def previewed() -> Rendering:
        preview = Preview(outer)
        preview.perform(f, args, kwargs)
        return preview.rendering()

    return _in_thread(previewed) if _is_async(f) and in_coroutine() else previewed()


def _is_async(f: Callable[..., object]) -> bool:
    inner = inspect.unwrap(f)
    return inspect.iscoroutinefunction(inner) or inspect.isasyncgenfunction(inner)


def _in_thread(action: Callable[[], Rendering]) -> Rendering:
    """*action* on a thread of its own: the loop of this one is running."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(copy_context().run, action).result()


class _Unanswered(BaseException):
    """Ends a program that needs an answer; no handler of ordinary errors catches it."""


class _NoAnswer(_Unanswered):
    """The stand-in for an answer; it notes which program needed the answer, and where."""

    def __init__(self, preview: Preview, what: str) -> None:
        super().__init__(f"a preview does not know {what}")
        self._preview, self._what = preview, what

    def with_traceback(self, traceback: TracebackType | None) -> Self:
        """Called each time the stored error is raised, where it is raised."""
        self._preview.needs(self._what)
        return super().with_traceback(traceback)

    def outcome(self) -> Error:
        """The outcome of the call; nobody has to look at it."""
        outcome = Error(self)
        outcome.looked = True
        return outcome


class _Unasked(Live):
    """The world of a preview: looked at, but neither asked nor waited for."""

    def __init__(self, preview: Preview) -> None:
        self._preview = preview
        self._waits = 0

    def opens(self, programs: Programs) -> None:
        super().opens(programs)
        programs.held_by(self)
        programs.answered_by(self, caches=False)

    def begins_run(self) -> None:
        self._preview.withhold("the answers of a run of its own")

    def see(self, moment: Moment, live: Callable[[], object]) -> object:
        if moment.kind in _UNSEEN:
            self._preview.withhold(f"what {moment.kind}() gives")
        if moment.kind == "done":
            self._poll()
        return super().see(moment, live)

    def expect(
        self, moment: Moment, tell: Tell, live: Go, about: Call | ToolRequest | None = None
    ) -> None:
        """A sleep is over at once, limits of time are kept, and no function is run.

        That is one given to ``observe``: there is no model that calls a tool.
        """
        if moment.kind == "sleep":
            self._poll()
            io_thread().send(lambda: tell(None))
        elif moment.kind in (LOOP_TIMER, LOOP_LIMIT):
            now = time.monotonic()
            self._preview.polls_since = self._preview.polls_since or now
            if now > self._preview.polls_since + PATIENCE_S:
                self._preview.withhold("time to pass")
            live()
        elif moment.kind == "workers":
            tell(None)
        elif moment.kind == "tool":
            self._preview.withhold("what observe() gives")
        else:
            live()

    def idle(self, final: bool = True) -> bool:
        return self._preview.end_all(final)

    def _poll(self) -> None:
        """Note that a program asks, or waits for time to pass, before anything is delivered."""
        self._waits += 1
        if self._waits > MOST:
            self._preview.withhold("time to pass")


class Preview(Run):
    """A run like *other*, with the same models and settings, in which no model answers."""

    def __init__(self, other: FrameRun) -> None:
        like = other.services
        super().__init__(
            Nobody(other.profile),
            world=_Unasked(self),
            models=other.dispatch.models,
            temperature=like.temperature,
            max_tokens=like.max_tokens,
            sampling=like.sampling,
            seed=like.seed,
            salt=like.salt,
        )
        self._calls: list[Call] = []
        self._rendered: tuple[Rendered, ...] = ()
        self._withheld: list[Promise] = []
        self._needs: dict[str, Need] = {}  # by what: whoever else needs it got it passed on
        self._over = self._ending = False
        self.polls_since: float | None = None  # when the first timer after its last call was set

    def perform(
        self, f: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
    ) -> None:
        """Run the program as far as it goes."""
        with self.as_far_as_it_goes():
            if _is_async(f):
                asyncio.run(self._aperform(f, args, kwargs))
                return
            with self:
                value = f(*args, **kwargs)
                if inspect.isgenerator(value):
                    list(itertools.islice(value, MOST))

    @contextlib.contextmanager
    def as_far_as_it_goes(self) -> Iterator[None]:
        """A block that ends where its program needs a value that it does not get, or exits."""
        try:
            yield
        except (_Unanswered, SystemExit):
            return
        except BaseExceptionGroup as group:  # of tasks, one of which ended so
            others = group.split(_Unanswered)[1]
            if others is not None:
                raise others from None

    async def _aperform(
        self, f: Callable[..., Any], args: tuple[object, ...], kwargs: dict[str, object]
    ) -> None:
        async with self:
            value = f(*args, **kwargs)
            if not inspect.isasyncgen(value):
                await value
                return
            async for _ in value:
                if len(self._calls) >= MOST:
                    break

    def rendering(self) -> Rendering:
        """The prompts that were rendered, and the values that were needed."""
        if not self._over:
            self._render()
        return Rendering(self._rendered, tuple(self._needs.values()))

    def _render(self) -> None:
        self._rendered = tuple(map(Holes().rendered, self._calls[:MOST]))

    def submit(self, call: Call) -> None:
        """Keep an issued call instead of handing it to the scheduler."""
        if self._over:
            io_thread().send(lambda: self._end_call(call))
            return
        self._calls.append(call)
        self.polls_since = None
        if len(self._calls) > MOST:
            self.needs(f"more than {MOST} calls")
            raise _Unanswered(f"a preview ends after {MOST} calls")

    def withhold(self, what: str) -> None:
        """Have the program that runs here wait for *what*, which it does not get."""
        if in_coroutine():  # where a wait would hold all other tasks
            self.needs(what)
            raise _NoAnswer(self, what)
        never = Promise(what, hub_here())
        self._withheld.append(never)
        wait(never)
        raise never.seen()

    def needs(self, what: str) -> None:
        """Note that the program that runs here needs *what*."""
        if io_thread().on_loop() or current() is not self:
            return  # only somebody who looks at outcomes, no program
        frame = FRAME.get() or self.tree.root
        if self._ending and frame is self.tree.root:
            return
        self._needs.setdefault(what, Need(frame.address, what, *_place()))

    def finish(self, error: BaseException | None = None) -> None:
        self._ending = True
        super().finish(error)

    async def afinish(self, error: BaseException | None = None) -> None:
        self._ending = True
        await super().afinish(error)

    def end_all(self, final: bool) -> bool:
        """On the I/O loop: tell all programs, which wait, that there is no answer."""
        detection = self.outside.idle_detection
        waits_for_time = not final and detection is not None and not detection.timers
        if waits_for_time or self._over:
            return False
        self._over = True
        self._render()
        for call in self._calls:
            self._end_call(call)
        for never in self._withheld:
            never.finish(_NoAnswer(self, never.address).outcome())
        return True

    def _end_call(self, call: Call) -> None:
        call.failed_as(_NoAnswer(self, f"the answer of {call.address}").outcome())


def _place() -> tuple[str | None, int | None]:
    """The user's line that runs: the innermost that is not of this package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not frame.f_globals.get("__name__", "").startswith(("appl.", "asyncio.")):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return None, None


KEEPING |= {id(Preview.perform.__code__), id(Preview._aperform.__code__)}
