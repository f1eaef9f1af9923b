"""Frames: one activation of a function each, with its prompt, role and the counters of addresses.

Invariant: an address is fixed when something is issued, from the frame's own counters alone, so it
is the same under every schedule. ``FRAME`` is the only ``ContextVar`` of appl.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING

from appl.prompt import USER, Origin, Prompt, PromptNode, Voice
from appl.runtime.concurrency.promise import Promise

if TYPE_CHECKING:
    from appl.runtime.concurrency.region import Block
    from appl.runtime.prompts.roles import Spoken
    from appl.runtime.run import Run
    from appl.runtime.scheduling.accounts import Account

_PRUNE = 64


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
    ``block`` is the block of text that all of it is said in, when there is one. ``streams`` is true
    when all of its answers are streamed. ``asked_at`` is the
    user's line for calls that have none of their own. ``depth`` is the number of frames above.
    """

    __slots__ = (
        "__weakref__",
        "_prune_at",
        "account",
        "asked_at",
        "block",
        "counts",
        "depth",
        "end",
        "ended",
        "generations",
        "model",
        "parent",
        "regions",
        "run",
        "shares",
        "started",
        "streams",
        "thread",
    )  # fmt: skip

    def __init__(
        self,
        run: Run,
        parent: Frame | None,
        address: str,
        prompt: Prompt,
        voice: Voice = USER,
        regions: tuple[Block, ...] = (),
    ) -> None:
        super().__init__(address, prompt, voice)
        self.run, self.parent, self.regions = run, parent, regions
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.end: PromptNode | None = None
        self.ended = False
        self.shares = False
        self.counts: dict[str, int] = {}
        self.generations = 0
        self.model: str | None = parent.model if parent is not None else None
        self.account: Account | None = parent.account if parent is not None else None
        self.streams: bool = parent is not None and parent.streams
        self.asked_at: tuple[str, int] | None = None
        self.block: Spoken | None = None
        self.started: list[Promise] = []
        self.thread = threading.get_ident()
        self._prune_at = _PRUNE

    def issue(self, name: str) -> str:
        """The address of the next *name* in this frame."""
        count = self.counts.get(name, 0)
        self.counts[name] = count + 1
        return f"{self.address}/{name}.{count}"

    def add(self, pending: Promise) -> None:
        """Answer for *pending* from now on."""
        started = self.started
        started.append(pending)
        if len(started) > self._prune_at:
            started[:] = owed(started)
            self._prune_at = 2 * len(started) + _PRUNE
        for region in self.regions:
            region.note(pending, self)

    def unfinished(self) -> Iterator[Promise]:
        """The calls that this frame has started, also around its open regions; in program order."""
        for region in self.regions:
            if region.belongs_to(self):
                yield from region.around
        yield from self.started

    def adopt(self, started: list[Promise]) -> None:
        """Answer for the calls that a callee left behind."""
        left = owed(started)
        if left:
            self.started.extend(left)

    def finish(self) -> None:
        """End the activation: its part of the prompt is settled."""
        self.end, self.ended = self.prompt.tip, True

    def tip(self) -> PromptNode | None:
        """The newest node that belongs to this activation."""
        return self.end if self.ended else self.prompt.tip

    def within(self, other: Frame) -> bool:
        """True if *other* is this frame or one around it."""
        frame: Frame | None = self
        while frame is not None:
            if frame is other:
                return True
            frame = frame.parent
        return False


class ThreadFrame(Frame):
    """The frame of a thread of the user's own: each outermost call there has another address."""

    __slots__ = ()


def owes(pending: Promise) -> bool:
    """True if somebody still has to wait for *pending*, or to look at its failure."""
    outcome = pending.outcome
    if outcome is None or pending.unseen():
        return True
    return pending.children is not None and any(map(owes, pending.children))


def owed(started: list[Promise]) -> list[Promise]:
    """The calls of *started* that somebody still has to wait for, or look at."""
    return [pending for pending in started if owes(pending)]


FRAME: ContextVar[Frame | None] = ContextVar("appl_frame", default=None)
