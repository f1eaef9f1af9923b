"""The search for calls of a failing function that only its own variables refer to.

Invariant: a call that other code might still read is never found. When in doubt it is kept: its
reference count must be explained by the frames that the error has left.
"""

from __future__ import annotations

import gc
import sys
from collections import deque
from collections.abc import Set
from types import CellType, FrameType, GeneratorType

from appl.runtime.answers.call import sources
from appl.runtime.concurrency.promise import Promise, Proxy
from appl.runtime.frame import Frame

_ITERATORS: tuple[object, ...] = (
    iter([]),
    iter(()),
    iter({}.values()),
    enumerate(()),
    zip(),
    reversed([]),
)
_CONTAINERS: frozenset[type] = frozenset(
    {list, tuple, dict, set, frozenset, deque, CellType, GeneratorType, *map(type, _ITERATORS)}
)
_MOST = 20_000
_OURS = 2  # the references that the search itself holds: its list's, and getrefcount's argument


def unheld(
    address: str, unfinished: list[Promise], error: BaseException, ended: Frame | None = None
) -> list[Promise]:
    """The calls of *unfinished* that nobody can read once *error* has left what is at *address*.

    That is the activation *ended*, or else a block: the variables of the block's own function live
    on, and its prompt does not count, as it is taken back. Failed calls are among them: whether a
    call had failed by then must make no difference.
    """
    if not unfinished:
        return []
    local = _Locals(error, _running() if ended is None else frozenset())
    free = set[Promise]()
    for pending in unfinished:
        holder = pending.holder
        is_needed = holder is not None and not f"{holder}/".startswith(f"{address}/")
        if not is_needed and local.owns_pending(pending):
            free.add(pending)
    parent = ended.parent if ended is not None else None
    if ended is not None and (
        ended.shares or (parent is not None and parent.prompt is ended.prompt)
    ):
        # its prompt lives on, and the calls that are parts of it
        for hole in ended.prompt.tip.holes() if ended.prompt.tip is not None else ():
            source = hole.prompt_source()
            if isinstance(source, Promise):
                free.discard(source)
    # The calls in the prompts of calls that are needed are needed, too.
    needed_calls = [pending for pending in unfinished if pending not in free]
    while needed_calls:
        for needed in _needs(needed_calls.pop()):
            if needed in free:
                free.discard(needed)
                needed_calls.append(needed)
    return [pending for pending in unfinished if pending in free]


def _running() -> set[FrameType]:
    frames: set[FrameType] = set()
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        frames.add(frame)
        frame = frame.f_back
    return frames


def _needs(pending: Promise) -> list[Promise]:
    inner = getattr(pending, "frame", None)
    answered_prompt = inner.prompt.tip if isinstance(inner, Frame) else pending.answered_prompt()
    return list(sources(answered_prompt))


def _frames(error: BaseException) -> list[FrameType]:
    """Every frame that *error*, its causes and its contexts have passed through."""
    frames: dict[FrameType, None] = {}
    visited: set[int] = set()
    todo: list[BaseException | None] = [error]
    while todo:
        cause = todo.pop()
        if cause is None or id(cause) in visited:
            continue
        visited.add(id(cause))
        todo += [cause.__context__, cause.__cause__]
        trace = cause.__traceback__
        while trace is not None:
            frames[trace.tb_frame] = None
            trace = trace.tb_next
    return list(frames)


class _Locals:
    """The objects that the frames of a traceback own; found by trial deletion.

    An object is owned if all references to it come from the frames, or from objects that are owned
    themselves. The garbage collector of Python finds cycles in the same way.
    """

    def __init__(self, error: BaseException, running: Set[FrameType] = frozenset()) -> None:
        self._objects: list[object] = []
        self._index: dict[int, int] = {}
        self._indices: list[int] = []
        self._open: list[int] = []
        for frame in _frames(error):
            if frame in running:
                continue
            self._count(gc.get_referents(frame))
        expanded: set[int] = set()
        while self._open and len(self._objects) < _MOST:  # until no object owned altogether is new
            index = self._open.pop()
            if index in expanded or not self._explained(index):
                continue
            expanded.add(index)
            if type(self._objects[index]) in _CONTAINERS:
                self._count(gc.get_referents(self._objects[index]))

    def _count(self, referents: list[object]) -> None:
        for referent in referents:
            if type(referent) in _CONTAINERS or isinstance(referent, Proxy):
                index = self._index.get(id(referent))
                if index is None:
                    index = self._index[id(referent)] = len(self._objects)
                    self._objects.append(referent)
                    self._indices.append(0)
                self._indices[index] += 1
                self._open.append(index)

    def _explained(self, index: int) -> bool:
        return sys.getrefcount(self._objects[index]) - _OURS == self._indices[index]

    def owns_pending(self, pending: Promise) -> bool:
        """True if nobody but the frames can read *pending*."""
        return pending.proxy is None or self.owns(pending.proxy())

    def owns(self, proxy: object) -> bool:
        """True if nobody but the frames refers to *proxy*, or nobody at all."""
        if proxy is None:
            return True
        index = self._index.get(id(proxy))
        if index is None:
            return False
        # two more references stand here: the parameter and the caller's temporary
        return sys.getrefcount(proxy) - _OURS - _BORROWED == self._indices[index]


def _borrowed() -> int:
    """The number of references that a parameter adds in this version of Python."""

    class Probe:
        pass

    def seen(probe: object) -> int:
        return sys.getrefcount(probe)

    probes = [Probe()]
    return seen(probes[0]) - sys.getrefcount(probes[0])


_BORROWED = _borrowed()
