"""Activations: what happens to the prompt when a ``@ppl`` function is entered and left.

Invariant: what an activation started is adopted by whoever goes on, or cancelled with it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from appl.prompt import USER, ObservedPrompt, Prompt, PromptNode
from appl.runtime.concurrency import structure
from appl.runtime.concurrency.promise import Promise
from appl.runtime.concurrency.unread_calls import unheld
from appl.runtime.event import ScopeEntered
from appl.runtime.frame import FRAME, Frame, owed, owes
from appl.runtime.prompts.place import Kept
from appl.runtime.prompts.roles import Spoken
from appl.runtime.prompts.state import Turn
from appl.runtime.prompts.writer import PromptWriter

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
    given: PromptWriter | None = None
    model: str | None = None
    block: Spoken | None = None
    metadata: Mapping[str, object] | None = None
    listener: Callable[[], None] | None = None


def enter(
    caller: Frame,
    name: str,
    mode: CallMode,
    key: tuple[object, object],
    *,
    beside: bool,
    line: int | None,
    file: str | None,
) -> tuple[Frame, Turn | None]:
    """The frame of a new activation; *key* is the function, and the object of a method."""
    run, ctx = caller.run, mode.ctx
    if run.closed or run.refusal:
        run.check_open()
    around: PromptWriter = mode.given or caller
    state = run.states.of(*key, around.prompt) if ctx == "resume" else None
    voice = around.voice if ctx in ("same", "copy") else USER
    if state is None:
        prompt = Prompt() if ctx == "new" else _prompt(around, ctx, beside)
    else:
        prompt = state.prompt
    regions = () if beside else caller.regions
    frame = Frame(run, caller, caller.issue(name), prompt, voice, regions)
    if frame.depth > _recursion.reach:
        _recursion.extend(frame.depth)
    frame.shares = state is not None or prompt is around.prompt
    frame.model, frame.block = mode.model, mode.block
    if mode.listener is not None:
        frame.prompt, frame.streams = ObservedPrompt(prompt, mode.listener), True
    turn = state.turn(caller, frame) if state is not None else None
    if run.reporter.watched:
        at = time.monotonic_ns()
        parent, about = caller.address, mode.metadata
        run.reporter.emit(ScopeEntered(frame.address, parent, name, file, line, at, about))
    return frame, turn


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


def _prompt(around: PromptWriter, ctx: str, beside: bool) -> Prompt:
    """The prompt of an activation that goes on from the one *around* it, unless it resumes."""
    if ctx == "same" and not beside:
        return around.prompt
    return around.prompt.copy() if ctx in ("copy", "same") else Prompt()


def keep_place(around: PromptWriter, frame: Frame, pending: Promise) -> None:
    """Add a place for the text of a ``same`` function that runs beside its caller."""

    def nodes(_: Promise) -> list[PromptNode]:
        tip = frame.tip()
        return tip.since(frame.origin) if tip is not None else []

    frame.shares = True
    around.prompt.say(around.voice, Kept(pending, nodes, frame.base))


def leave(frame: Frame) -> None:
    """End the activation, which returned: its caller answers for what it left running."""
    if frame.block is not None:
        frame.block.end(frame)
    frame.finish()
    left = list(filter(owes, frame.started))
    if left:
        parent = frame.parent
        after = heir(frame) if parent is None or parent.ended else parent
        after.started.extend(left)


def fail(frame: Frame, error: BaseException) -> None:
    """End the activation by *error*: cancel the calls that nobody else holds."""
    frame.finish()
    frame.started = left = owed(frame.started)
    if not left:
        return
    # First: a Ctrl-C may come anywhere below, and cancels what those who go on answer for.
    heir(frame).started.extend(left)
    ours = unheld(frame, left, error) if isinstance(error, Exception | GeneratorExit) else left
    structure.cancel_all(ours)


def heir(frame: Frame) -> Frame:
    """The innermost activation around *frame* that still runs."""
    parent = frame.parent
    while parent is not None and parent.ended and parent.parent is not None:
        parent = parent.parent
    return parent if parent is not None else frame.run.tree.root


def resumed(frame: Frame) -> None:
    """Have a generator go on: what it starts now belongs to the regions of its consumer."""
    caller = FRAME.get()
    own = tuple(region for region in frame.regions if region.belongs_to(frame))
    frame.regions = (*caller.regions, *own) if caller is not None else own
