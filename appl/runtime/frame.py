"""Frames: one activation of a function each, with its prompt, role and the counters of addresses.

Invariant: an address is fixed when something is issued, from the frame's own counters alone, so it
is the same under every schedule. A program, a task and a thread of the user's own each are in one
frame of one run, also where several runs are open. ``FRAME`` is the only ``ContextVar`` of appl.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol, cast
from weakref import ReferenceType

from greenlet import getcurrent

from appl.base import services
from appl.prompt.voice import USER, Voice
from appl.runtime.concurrency.fiber import Stack, strand_here
from appl.runtime.concurrency.loop_thread import task_here
from appl.runtime.world import Live

if TYPE_CHECKING:
    import asyncio
    from pathlib import Path

    from appl.backend import Profile
    from appl.errors import RunWaiting
    from appl.prompt.chain import Prompt, PromptNode
    from appl.prompt.origin import Origin
    from appl.runtime.answers.call import Call, CallBody
    from appl.runtime.concurrency.promise import Promise
    from appl.runtime.dispatch import Dispatch
    from appl.runtime.outside import Outside
    from appl.runtime.prompts.recent import Recent
    from appl.runtime.prompts.roles import Spoken
    from appl.runtime.prompts.state import States
    from appl.runtime.reporter import Reporter
    from appl.runtime.run_services import Services
    from appl.runtime.scheduling.accounts import Account
    from appl.runtime.tools.offers import ToolMemory
else:
    from appl.base import deferred_asyncio as asyncio

_PRUNE = 64


class FrameBlock(Protocol):
    """A block of statements in which a frame starts calls: see ``Block``."""

    around: list[Promise]
    due: dict[Promise, None]

    def note(self, pending: Promise, issuer: Frame) -> None:
        """Note that *pending* was issued inside, by *issuer*."""

    def forget(self, pending: Promise) -> None:
        """Forget *pending*, and what it left in a prompt."""

    def belongs_to(self, frame: Frame) -> bool:
        """True if this is a block of *frame* itself."""


class FrameTree(Protocol):
    """The scopes of a run, as far as its frames need them: see ``ScopeTree``."""

    root: Frame
    task: asyncio.Task[object] | None
    suspended: dict[Frame, None]
    guests: set[Frame]

    def scope_tasks(self) -> None:
        """Give scopes to the tasks that the running loop makes from now on."""

    def scope(self, run: FrameRun, parent: Frame, content: str, is_guest: bool = False) -> Frame:
        """A scope for a task of the user's own, or for what it calls on a thread of its own."""

    def next_scope(self, frame: ThreadFrame, content: str) -> None:
        """The thread of *frame* makes its next outermost call, named by *content*."""


class FrameRun(Protocol):
    """The run of a frame: all that programs, calls and tools ask of it."""

    services: Services
    reporter: Reporter
    outside: Outside
    dispatch: Dispatch
    trace_path: Callable[[], Path | None]
    nests: bool
    answered_by: str
    closed: bool
    refusal: str
    waiting: RunWaiting | None
    longest_wait: float

    @property
    def tool_memory(self) -> ToolMemory | None:
        """The tools of servers that the user has seen."""

    @property
    def states(self) -> States:
        """The states of functions with ``ctx="resume"``."""

    @property
    def recent(self) -> Recent:
        """The messages that were given to calls lately."""

    @property
    def profile(self) -> Profile:
        """The profile of the run's own backend."""

    @property
    def tree(self) -> FrameTree:
        """Its scopes."""

    def check_open(self) -> None:
        """Refuse calls and functions after the end."""

    def submit(self, call: Call) -> None:
        """Hand an issued call to the scheduler."""

    def admit(self, call: Call) -> None:
        """Send *call* on its way; on the I/O loop."""


class PromptWriter:
    """A writer of text into a prompt, in a voice; ``fresh`` if the next part begins an item.

    ``address`` says whose prompt it is. ``origin`` is where its own part of the prompt begins,
    and ``base`` the voice in which it begins. ``site`` is the statement whose parts are being said.
    """

    __slots__ = ("address", "base", "fresh", "origin", "prompt", "site", "voice")

    def __init__(self, address: str, prompt: Prompt, voice: Voice = USER) -> None:
        self.address, self.prompt = address, prompt
        self.voice = self.base = voice
        self.origin: PromptNode | None = prompt.tip
        self.fresh = True
        self.site: Origin = None

    def tip(self) -> PromptNode | None:
        """The newest node that belongs to this."""
        return self.prompt.tip


class Frame(PromptWriter):
    """One activation: of a ``@ppl`` function, of what ``call`` started, of a task, or of the run.

    ``shares`` is true when its prompt lives on after it. ``started`` are the calls that this frame
    answers for, in program order; an open region takes its place while it lasts. ``regions`` are
    those around this frame, outer ones first. ``model`` is the name that its calls ask when they
    give none; ``account`` is what they are charged to, when there is a budget;
    ``block`` is the block of text that all of it is said in, when there is one. ``body`` refers
    weakly to the function whose activation it is, where it is a prompt function: a prompt that is
    kept holds its frame, and would hold the function. ``streams`` is true when all of its answers
    are streamed. ``call_place`` is the user's line for calls that have none of their own. ``depth``
    is the number of frames above, ``prune_at`` that of started calls above which ``prune`` acts.
    """

    __slots__ = (
        "__weakref__",
        "_at_end",
        "account",
        "block",
        "body",
        "call_place",
        "counts",
        "depth",
        "end",
        "ended",
        "generations",
        "model",
        "parent",
        "prune_at",
        "regions",
        "run",
        "shares",
        "started",
        "streams",
        "thread",
    )

    def __init__(
        self,
        run: FrameRun,
        parent: Frame | None,
        address: str,
        prompt: Prompt,
        voice: Voice = USER,
        regions: tuple[FrameBlock, ...] = (),
    ) -> None:
        super().__init__(address, prompt, voice)
        self.run, self.parent, self.regions = run, parent, regions
        self.end: PromptNode | None = None
        self.ended = False
        self._at_end: list[Callable[[], None]] | None = None
        self.shares = False
        self.counts: dict[str, int] = {}
        self.generations = 0
        self.depth, self.streams = 0, False
        self.model: str | None = None
        self.account: Account | None = None
        if parent is not None:
            self.depth, self.streams = parent.depth + 1, parent.streams
            self.model, self.account = parent.model, parent.account
        self.call_place: tuple[str, int] | None = None
        self.block: Spoken | None = None
        self.body: ReferenceType[CallBody] | None = None
        self.started: list[Promise] = []
        self.thread = threading.get_ident()
        self.prune_at = _PRUNE

    def issue(self, name: str) -> str:
        """The address of the next *name* in this frame."""
        count = self.counts.get(name, 0)
        self.counts[name] = count + 1
        return f"{self.address}/{name}.{count}"

    def add(self, pending: Promise) -> None:
        """Answer for *pending* from now on."""
        self.started.append(pending)
        if len(self.started) > self.prune_at:
            self.prune()
        for region in self.regions:
            region.note(pending, self)

    def prune(self) -> None:
        """Let go of the calls that nobody has to wait for any more, when there are many.

        To be called after each addition. The bound doubles with what is left, so looking through
        all of them costs each addition a constant time.
        """
        started = self.started
        count = len(started)
        if count <= self.prune_at or self.thread != threading.get_ident():
            return
        # Another thread may append meanwhile, where all frames in between have ended. What it
        # appends stands after the first *count*, which alone are replaced.
        started[:count] = owed(started[:count])
        self.prune_at = 2 * len(started) + _PRUNE

    def unfinished(self) -> Iterator[Promise]:
        """The calls that this frame has started, also around its open regions; in program order."""
        for region in self.regions:
            if region.belongs_to(self):
                yield from region.around
        yield from self.started

    def finish(self) -> None:
        """End the activation: its part of the prompt is settled."""
        self.end, self.ended = self.prompt.tip, True
        if self._at_end is not None:
            self._tell_end()

    def when_ended(self, act: Callable[[], None]) -> None:
        """Have *act* called once when the activation has ended; from any thread."""
        if self._at_end is None:
            self._at_end = []
        self._at_end.append(act)
        if self.ended:  # perhaps meanwhile, on its own thread
            self._tell_end()

    def _tell_end(self) -> None:
        while self._at_end:
            with contextlib.suppress(IndexError):  # both threads may come here
                self._at_end.pop()()

    def root_of_prompt(self) -> Frame:
        """The outermost frame that writes to the same prompt."""
        frame = self
        while frame.parent is not None and frame.parent.prompt is frame.prompt:
            frame = frame.parent
        return frame

    def tip(self) -> PromptNode | None:
        """The newest node that belongs to this activation."""
        return self.end if self.ended else self.prompt.tip

    def within(self, other: PromptWriter) -> bool:
        """True if *other* is this frame or one around it."""
        frame: Frame | None = self
        while frame is not None:
            if frame is other:
                return True
            frame = frame.parent
        return False


class NestedFrame(Frame):
    """The outermost frame of a run inside a run, with states of its own of ``resume`` functions."""

    __slots__ = ("states",)
    states: States


def states_of(frame: Frame) -> States:
    """The states of ``resume`` functions that are called in *frame*."""
    around: Frame | None = frame
    while around is not None:
        if isinstance(around, NestedFrame):
            return around.states
        around = around.parent
    return frame.run.states


class ThreadFrame(Frame):
    """The frame of a thread of the user's own: each outermost call there has another address."""

    __slots__ = ()


def owed(started: list[Promise]) -> list[Promise]:
    """The calls of *started* that somebody still has to wait for, or whose failure to look at."""
    unfinished: list[Promise] = []
    for call in started:
        if call.outcome is None or call.unseen() or (call.children and owed(call.children)):
            unfinished.append(call)
    return unfinished


FRAME: ContextVar[Frame | None] = ContextVar("appl_frame", default=None)

# -- the run and the frame that the caller is in

open_runs: list[FrameRun] = []
"""The runs whose blocks were entered and not left, in this order."""


def current() -> FrameRun:
    """The run that the caller is in: its own, the one that is open, else the process's.

    That is the open run of its thread, or the only one. Where several threads or tasks have runs
    open, as in a server, another thread is in none of them; neither is the main thread in that of a
    thread, which may close it at any moment.
    """
    frame = FRAME.get()
    if frame is not None and not _is_left(frame):
        return frame.run
    thread, task = threading.get_ident(), task_here()
    runs = list(open_runs)  # other threads open and close theirs meanwhile
    for run in reversed(runs):
        if run.tree.root.thread == thread and run.tree.task in (None, task):
            return run
    if len({(run.tree.root.thread, run.tree.task) for run in runs}) == 1:
        main = threading.main_thread().ident
        if thread != main or runs[-1].tree.root.thread == main:
            return runs[-1]
    return isolated_run() or cast(FrameRun, services.sessions().process_run())


def _is_left(frame: Frame) -> bool:
    """True if a run is over in which the caller's thread or task has only been a guest."""
    return frame.run.closed and frame in frame.run.tree.guests


def enclosing_run() -> FrameRun | None:
    """The open run that a run which is opened here is inside of; ``None`` if there is none.

    On a thread or task that has no run of its own this is the run of a test's backend, or the one
    that hosts the whole process. Of others it is not known whether they have anything to do with
    the caller, as a server opens one for each request: neither when they are recorded, nor later
    when a record answers them.
    """
    frame = FRAME.get()
    if frame is not None and not frame.run.closed:
        return frame.run
    hosted = cast("FrameRun | None", services.sessions().hosted_run())
    isolated = None if hosted is not None else isolated_run()
    return isolated if isolated is not None and type(isolated.outside.world) is Live else hosted


def isolated_run() -> FrameRun | None:
    """The run of a test's backend or of a record that is open: nobody else may be asked."""
    return next((run for run in reversed(open_runs) if run.answered_by), None)


def here(content: Callable[..., str], *about: object, call: bool = True) -> Frame:
    """The frame that the caller is in.

    *content*, which gets *about*, names the scope of an outermost *call* on a thread of the user's
    own, and that of a task that has none: threads of a pool take their work in any order.
    """
    frame, thread, is_guest = FRAME.get(), threading.get_ident(), False
    if frame is not None and frame.run.closed and _is_left(frame):
        frame = None
    if frame is None or frame.parent is None:  # an outermost one
        if frame is not None:
            run = frame.run
        else:
            run = current()
            is_guest = run in open_runs and run is not services.sessions().hosted_run()
        tree, task = run.tree, None
        if asyncio._get_running_loop() is not None:
            tree.scope_tasks()
            task = task_here()
        in_fiber = frame is not None and type(getcurrent()) is Stack
        frame = tree.root
        if frame.thread != thread or not (in_fiber or tree.task is task):
            frame = tree.scope(run, frame, content(*about), is_guest)
    elif frame.thread != thread:
        frame = frame.run.tree.scope(frame.run, frame, content(*about))
    elif call and type(frame) is ThreadFrame and frame.counts:
        frame.run.tree.next_scope(frame, content(*about))
    if (detection := frame.run.outside.idle_detection) is not None:
        detection.joins(strand_here().hub)
    return frame


def frame_in(run: FrameRun, content: Callable[..., str], *about: object) -> Frame:
    """The frame that the caller is in; on a thread that is in none, a scope of *run*."""
    before = FRAME.get()
    if before is not None and not before.run.closed:
        return here(content, *about)
    FRAME.set(run.tree.root)  # of a thread that was started without the context of the run
    try:
        return here(content, *about)
    finally:
        FRAME.set(before)


def _begin_anew() -> None:
    """In a forked child: the parent's runs are not its own."""
    open_runs.clear()
    FRAME.set(None)


os.register_at_fork(after_in_child=_begin_anew)


def run_of(pending: Promise) -> FrameRun:
    """The run that *pending* belongs to."""
    run: FrameRun | None = getattr(pending, "run", None)
    return run if run is not None else current()
