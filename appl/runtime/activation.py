"""Activations: a ``@ppl`` function is entered, its code is run in a frame, and it is left.

Invariant: the activation's frame is the current one while its own code runs, and at no other time.
However the code ends, the activation is left, and so is its turn with a state; what it started is
adopted by whoever goes on, or cancelled with it.
"""

from __future__ import annotations

import inspect
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast
from weakref import ref

from appl.prompt import USER, ObservedPrompt, Prompt, RoleName
from appl.runtime.answers.answer import Answer
from appl.runtime.concurrency import structure
from appl.runtime.concurrency.promise import Proxy
from appl.runtime.concurrency.scopes import OWN_CODE, call_in_words
from appl.runtime.concurrency.watchdog import ENTRIES
from appl.runtime.event import ScopeEntered, ScopeLeft
from appl.runtime.frame import FRAME, Frame, PromptWriter, here, owed, states_of
from appl.runtime.snapshot import arguments, snapshot

if TYPE_CHECKING:
    from appl.compiler.ir import CallCounts
    from appl.runtime.prompts.roles import Spoken
    from appl.runtime.prompts.state import Turn

Ctx = Literal["new", "copy", "same", "resume"]
CONTEXTS: tuple[Ctx, ...] = ("new", "copy", "same", "resume")


@dataclass(frozen=True, slots=True)
class CallMode:
    """The mode of one call of a function: set by the decorator, or by the call itself.

    ``given`` is a prompt to work on in place of the caller's. ``model`` is asked where a call of
    the activation names none. ``block`` is what all of its text is said in.
    ``listener`` is called whenever the activation's prompt has grown, and has its answers streamed.
    """

    ctx: str = "new"
    context: PromptWriter | None = None
    model: str | None = None
    block: Spoken | None = None
    metadata: Mapping[str, object] | None = None
    listener: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True)
class Decoration:
    """The options of ``@ppl``, as they were written."""

    ctx: str = "new"
    compositor: Spoken | None = None
    model: str | None = None
    default_return: str | None = None
    docstring_as: RoleName | None = None
    parallel: bool = False
    auto_prime: bool = False
    new_ctx_func: Callable[[], PromptWriter] | None = None


class _Recursion:
    """Lets functions call themselves as deep as plain ones may.

    Below the user's frame each activation has up to two of our own. Python's limit is raised by
    them, in steps, when activations are nested deeper than ``reach``, and never lowered. A
    recursion without an end still reaches the user's own limit.
    """

    def __init__(self) -> None:
        self.reach = 32
        self._ours = 0

    def extend(self, depth: int) -> None:
        """Have room for activations that are nested *depth* deep, if plain ones may be."""
        limit = sys.getrecursionlimit()
        if depth < limit - self._ours:
            self.reach = depth + 32
            ours = 2 * self.reach
            sys.setrecursionlimit(limit + ours - self._ours)
            self._ours = ours


_recursion = _Recursion()

KEEPING: set[int] = set()
"""The ids of code of this package that calls functions of users and takes their futures."""


def _returned(frame: Frame, value: object) -> None:
    """Tell what the activation returned, unless it is the answer of its last ``gen``."""
    of = value._address if isinstance(value, Answer) else None
    if isinstance(value, Proxy):
        of = value._pending.address
    if of is not None and of == f"{frame.address}/gen.{frame.counts.get('gen', 0) - 1}":
        return
    if (watcher := frame.run.reporter.watcher) is not None:
        shown = None if of is not None else snapshot(value)
        watcher.on_event(ScopeLeft(frame.address, of, shown, None, time.monotonic_ns()))


def leave(frame: Frame) -> None:
    """End the activation, which returned: its caller answers for what it left running."""
    if frame.block is not None:
        frame.block.end(frame)
    frame.finish()
    if unfinished := owed(frame.started):
        parent = frame.parent
        after = heir(frame) if parent is None or parent.ended else parent
        after.started.extend(unfinished)
        if len(after.started) > after.prune_at:
            after.prune()


def fail(frame: Frame, error: BaseException) -> None:
    """End the activation by *error*: cancel the calls that nobody else holds."""
    frame.finish()
    reporter = frame.run.reporter
    if (
        reporter.shows_arguments
        and (watcher := reporter.watcher) is not None
        and isinstance(error, Exception)
    ):
        watcher.on_event(ScopeLeft(frame.address, None, None, error, time.monotonic_ns()))
    frame.started = unfinished = owed(frame.started)
    if not unfinished:
        return
    # First: a Ctrl-C may come anywhere below, and cancels what those who go on answer for.
    after = heir(frame)
    after.started.extend(unfinished)
    ours = unfinished
    if isinstance(error, Exception | GeneratorExit):
        from appl.runtime.concurrency.unread_calls import unheld  # few functions fail

        ours = unheld(frame.address, unfinished, error, frame)
    structure.cancel_all(ours)
    after.prune()


def heir(frame: Frame) -> Frame:
    """The innermost activation around *frame* that still runs."""
    parent = frame.parent
    while parent is not None and parent.ended and parent.parent is not None:
        parent = parent.parent
    return parent if parent is not None else frame.run.tree.root


# -- ways to run the code of one: at once, or awaited; for generators see ``generators``


class Body:
    """The code of a function, and the way to run it in a frame."""

    body: Callable[..., Any]
    name: str
    qualname: str
    file: str | None
    line: int | None
    mode: CallMode
    asks = False
    """True if a call without keywords has a mode of its own."""
    begins = False
    """True if something is to be done before the first line of the code."""
    _names: tuple[str, ...] | None = None
    """The names of the parameters that arguments go to by their place, once they were needed."""

    def counts(self) -> CallCounts | None:
        """The calls that an activation makes on its own prompt; ``None`` if nobody knows."""
        return None

    def owner(self, args: tuple[object, ...]) -> Any:
        """The object that a method is called on, to which its ``resume`` state belongs."""

    def asked(self, kwargs: dict[str, object]) -> CallMode:
        """The mode of a call; options about the call are taken out of *kwargs*."""
        return self.mode

    def enter(
        self,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        *,
        mode: CallMode | None = None,
        caller: Frame | None = None,
        beside: bool = False,
    ) -> tuple[Frame, Turn | None]:
        """The frame of a call, made at the place of the call.

        It is of the *mode* that is asked for, unless that is known, and so is its *caller*.
        """
        if mode is None:
            mode = self.asked(kwargs) if kwargs or self.asks else self.mode
        if caller is None:
            caller = here(call_in_words, self.name, args)
        run, ctx = caller.run, mode.ctx
        if run.closed or run.refusal:
            run.check_open()
        around: PromptWriter = mode.context or caller
        voice = around.voice if ctx in ("same", "copy") else USER
        state = turn = None
        if ctx == "resume":
            state = states_of(caller).of(self, self.owner(args), around.prompt)
            prompt = state.prompt
        elif ctx == "same" and not beside:
            prompt = around.prompt
        else:
            prompt = Prompt() if ctx == "new" else around.prompt.copy()
        regions = () if beside else caller.regions
        frame = Frame(run, caller, caller.issue(self.name), prompt, voice, regions)
        if frame.depth > _recursion.reach:
            _recursion.extend(frame.depth)
        frame.shares = state is not None or prompt is around.prompt
        frame.model, frame.block, frame.body = mode.model, mode.block, ref(self)
        if mode.listener is not None:
            frame.prompt, frame.streams = ObservedPrompt(prompt, mode.listener), True
        if state is not None:
            turn = state.turn(caller, frame)
        if (watcher := run.reporter.watcher) is not None:
            at, address, parent = time.monotonic_ns(), frame.address, caller.address
            shown = self._shown(args, kwargs) if run.reporter.shows_arguments else None
            about = mode.metadata
            watcher.on_event(
                ScopeEntered(address, parent, self.name, self.file, self.line, at, about, shown)
            )
        return frame, turn

    def _shown(self, args: tuple[object, ...], kwargs: dict[str, object]) -> tuple[str, ...]:
        """What is shown of the arguments of a call; a method's object is not."""
        if self._names is None:
            code = getattr(getattr(self, "function", self.body), "__code__", None)
            self._names = () if code is None else code.co_varnames[: code.co_argcount]
        if args and self._names[:1] in (("self",), ("cls",)):
            return arguments(self._names[1:], args[1:], kwargs)
        return arguments(self._names, args, kwargs)

    def begun(self, frame: Frame) -> None:
        """Called in *frame* before the first line of the code, if it ``begins`` or has a block."""

    def in_place_of_none(self, frame: Frame) -> object:
        """The value that the caller gets where the code returns ``None``."""

    def execute(
        self,
        frame: Frame,
        turn: Turn | None,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        settle: bool = False,
    ) -> object:
        """Run the body in *frame*; with *settle* its result is waited for."""
        token = FRAME.set(frame)
        try:
            if turn is not None:
                turn.begin()
            if self.begins or frame.block is not None:
                self.begun(frame)
            # what is waited for has no name here: a failure cancels the calls that nobody holds
            body = self.body
            if settle:
                from appl.runtime.returning import settled  # most results are given as they are

                result = settled(body(*args, **kwargs))
            else:
                result = body(*args, **kwargs)
            if frame.run.reporter.shows_arguments:
                _returned(frame, result)
            leave(frame)  # in here: a Ctrl-C that breaks it off finds what it had left
        except BaseException as error:
            fail(frame, error)
            raise
        finally:
            FRAME.reset(token)
            if turn is not None:
                turn.over()
        return self.in_place_of_none(frame) if result is None else result

    async def aexecute(
        self,
        frame: Frame,
        turn: Turn | None,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        settle: bool = False,
    ) -> object:
        """Run an ``async def`` body in *frame*; with *settle* its result is waited for."""
        # It was called before its loop ran, as in asyncio.run(main()).
        frame.run.tree.scope_tasks()
        token = FRAME.set(frame)
        frame.thread = threading.get_ident()
        try:
            if turn is not None:
                await turn.abegin()
            if self.begins or frame.block is not None:
                self.begun(frame)
            if settle:
                from appl.runtime.returning import asettled

                result = await asettled(await self.body(*args, **kwargs))
            else:
                result = await self.body(*args, **kwargs)
            if frame.run.reporter.shows_arguments:
                _returned(frame, result)
            leave(frame)
        except BaseException as error:
            fail(frame, error)
            raise
        finally:
            FRAME.reset(token)
            if turn is not None:
                turn.over()
        return self.in_place_of_none(frame) if result is None else result


OWN_CODE.add(Body.aexecute.__code__)
ENTRIES |= {Body.execute.__code__, Body.aexecute.__code__}


def marked(wrapper: Callable[..., object]) -> Callable[..., Any]:
    """Have *wrapper* recognised as a coroutine function."""
    mark = getattr(inspect, "markcoroutinefunction", None)
    if mark is not None:
        return cast("Callable[..., Any]", mark(wrapper))
    import asyncio  # only an async function needs it

    wrapper._is_coroutine = asyncio.coroutines._is_coroutine  # type: ignore[attr-defined]
    return wrapper
