"""Activations: what happens to the prompt when a ``@ppl`` function is entered and left.

Invariant: what an activation started is adopted by whoever goes on, or cancelled with it.
"""

from __future__ import annotations

import contextlib
import time
import weakref
from collections.abc import Iterable
from typing import Any, Literal

from appl.errors import DeadlockError
from appl.prompt import Node, Prompt, RoleName
from appl.runtime import structure
from appl.runtime.event import ScopeEntered
from appl.runtime.fiber import Strand, arrive, strand_here, wait
from appl.runtime.frame import FRAME, Frame, owed
from appl.runtime.held import unheld
from appl.runtime.pending import Pending, Value
from appl.runtime.place import Kept

Ctx = Literal["new", "copy", "same", "resume"]
CONTEXTS: tuple[Ctx, ...] = ("new", "copy", "same", "resume")


class Turn(Pending):
    """One activation's turn with the state of a ``resume`` function."""

    __slots__ = ("before", "frame", "state", "strand")

    def __init__(self, state: State, frame: Frame, before: Turn | None) -> None:
        super().__init__(frame.address, None)
        self.state, self.frame, self.before = state, frame, before
        self.strand: Strand | None = None

    def blockers(self) -> Iterable[Pending]:
        waits = self.strand.waits if self.strand is not None else None
        return (waits,) if waits is not None else ()

    def begun(self) -> None:
        """The one before has ended: this one continues its prompt."""
        self.before = None
        self.frame.origin = self.frame.prompt.tip

    def over(self) -> None:
        """The next one may begin."""
        self.settle(Value(None))


class State:
    """The prompt that the activations of a ``resume`` function continue, one after the other."""

    __slots__ = ("keep", "last", "prompt")

    def __init__(self, prompt: Prompt, keep: object) -> None:
        self.prompt, self.keep = prompt, keep
        self.last: Turn | None = None


def enter(
    caller: Frame, name: str, ctx: str, key: tuple[Any, Any], *, beside: bool, line: int | None,
    file: str | None,
) -> tuple[Frame, Turn | None]:  # fmt: skip
    """The frame of a new activation; *key* is the function, and the object of a method."""
    run = caller.run
    run.check_open()
    state = _state(caller, key) if ctx == "resume" else None
    role: RoleName = caller.role if ctx in ("same", "copy") else "user"
    prompt = state.prompt if state is not None else _prompt(caller, ctx, beside)
    regions = () if beside else caller.regions
    frame = Frame(run, caller, caller.issue(name), prompt, role, regions)
    frame.shares = state is not None
    if beside:
        shelter(frame, caller)
    turn = _turn(state, caller, frame) if state is not None else None
    if run.watched:
        at = time.monotonic_ns()
        run.emit(ScopeEntered(frame.address, caller.address, name, file, line, at))
    return frame, turn


def _prompt(caller: Frame, ctx: str, beside: bool) -> Prompt:
    if ctx == "same" and not beside:
        return caller.prompt
    return caller.prompt.copy() if ctx in ("copy", "same") else Prompt()


def keep_place(caller: Frame, frame: Frame, pending: Pending) -> None:
    """Where a ``same`` function that runs beside its caller will have said its text."""

    def nodes(_: Pending) -> list[Node]:
        tip = frame.tip()
        return tip.since(frame.origin) if tip is not None else []

    frame.shares = True
    caller.prompt.append(caller.role, Kept(pending, nodes))


def _state(caller: Frame, key: tuple[Any, Any]) -> State:
    function, owner = key
    states = caller.run.states
    place = function, id(owner)
    state: State | None = states.get(place)
    if state is None:
        keep: object = owner
        with contextlib.suppress(TypeError):
            weakref.finalize(owner, states.pop, place, None).atexit = False
            keep = None
        state = states[place] = State(caller.prompt.copy(), keep)
    return state


def _turn(state: State, caller: Frame, frame: Frame) -> Turn:
    before = state.last
    if before is not None and before.done:
        before = None
    if before is not None and caller.within(before.frame):
        raise DeadlockError(
            f"{frame.address} continues the prompt of {before.address}, which is still running "
            f"and called it: it would wait for itself; use ctx='copy' or 'same' for the inner call"
        )
    turn = state.last = Turn(state, frame, before)
    return turn


def begin(turn: Turn) -> None:
    """Wait for the activation before this one."""
    turn.strand = strand_here()
    if turn.before is not None:
        wait(turn.before)
    turn.begun()


async def abegin(turn: Turn) -> None:
    """:func:`begin` in a coroutine."""
    if turn.before is not None:
        await arrive(turn.before)
    turn.begun()


def leave(frame: Frame) -> None:
    """The activation returned: whoever goes on answers for what it left running."""
    frame.finish()
    if frame.started:
        heir(frame).adopt(frame.started)


def fail(frame: Frame, error: BaseException) -> None:
    """The activation ends with *error*: cancel what nobody else holds.

    Inside a region nothing is cancelled: it waits for all, and raises the earliest failure.
    """
    frame.finish()
    left = owed(frame.started)
    if not isinstance(error, Exception | GeneratorExit):
        structure.cancel_all(left)
    elif not _in_region(frame):
        structure.cancel_all(unheld(frame, left, error))
    frame.started = left
    if left:
        heir(frame).adopt(left)


def heir(frame: Frame) -> Frame:
    """The innermost activation around *frame* that still runs."""
    parent = frame.parent
    while parent is not None and parent.ended and parent.parent is not None:
        parent = parent.parent
    return parent if parent is not None else frame.run.root


def shelter(frame: Frame, caller: Frame) -> None:
    """*frame* runs beside *caller*: note whether a region of *caller* will wait for it."""
    frame.sheltered = caller.sheltered or bool(caller.regions)


def resumed(frame: Frame) -> None:
    """A generator goes on: what it starts now is started inside the regions of who resumes it."""
    caller = FRAME.get()
    own = tuple(region for region in frame.regions if region.belongs_to(frame))
    frame.regions = (*caller.regions, *own) if caller is not None else own


def _in_region(frame: Frame) -> bool:
    return frame.sheltered or bool(frame.regions)
