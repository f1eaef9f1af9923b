"""Regions: a ``try`` body or a foreign ``with`` block ends when the calls inside have ended.

Invariant: of several failures the one that is earliest in program order is raised, and the prompt
is then as it was when the call that failed was issued.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType

from appl.prompt import Node
from appl.runtime.concurrency import structure
from appl.runtime.concurrency.pending import Error, Pending, Value
from appl.runtime.frame import FRAME, Frame

_PRUNE = 256


class Region:
    """The body of one ``try`` or ``with``; the same object serves plain and async code."""

    __slots__ = ("_frame", "_prune_at", "_started", "_tips", "_within")

    def __init__(self) -> None:
        self._frame: Frame | None = FRAME.get()
        self._within: list[Pending] = []
        self._started: list[Pending] = []
        self._tips: dict[Pending, Node | None] = {}
        self._prune_at = _PRUNE

    def note(self, pending: Pending) -> None:
        """*pending* was issued inside; remember how far the prompt was."""
        assert self._frame is not None
        self._tips[pending] = self._frame.prompt.tip
        if len(self._tips) > self._prune_at:
            for done in [p for p in self._tips if isinstance(p.outcome, Value) and not p.children]:
                del self._tips[done]
            self._prune_at = 2 * len(self._tips) + _PRUNE

    def belongs_to(self, frame: Frame) -> bool:
        """Whether this is the body of a ``try`` or ``with`` of *frame* itself."""
        return self._frame is frame

    def __enter__(self) -> None:
        frame = self._frame
        if frame is not None:
            self._within, frame.started = frame.started, self._started
            frame.regions = (*frame.regions, self)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._frame is None:
            return
        try:
            if error is None or isinstance(error, Exception):
                structure.join(list(self._tips))
        finally:
            self._close()
        self._settle(error)

    async def __aenter__(self) -> None:
        self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._frame is None:
            return
        try:
            if error is None or isinstance(error, Exception):
                await structure.ajoin(list(self._tips))
        finally:
            self._close()
        self._settle(error)

    def _close(self) -> None:
        frame = self._frame
        assert frame is not None
        frame.started = self._within
        frame.regions = tuple(region for region in frame.regions if region is not self)
        frame.adopt(self._started)

    def _settle(self, error: BaseException | None) -> None:
        """Raise the earliest failure, unless it is the one that is on its way already."""
        if error is not None and not isinstance(error, Exception):
            return
        failures = (each for pending in self._tips for each in _failures(pending))
        first = next((each for each in failures if each.unseen() or _is(each, error)), None)
        for pending in self._tips:
            structure.excuse(pending)
        if first is None:
            return
        assert self._frame is not None and isinstance(first.outcome, Error)
        self._frame.prompt.tip = self._tip_before(first.outcome.error)
        if first.outcome.error is not error:
            raise first.outcome.raised()

    def _tip_before(self, error: BaseException) -> Node | None:
        """How far the prompt was when the first call was issued that failed with *error*.

        Others failed with it because their prompts held that call.
        """
        for pending, tip in self._tips.items():
            if any(_is(each, error) for each in _failures(pending)):
                return tip
        raise AssertionError("a region raises what did not fail in it")


def _is(failure: Pending, error: BaseException | None) -> bool:
    return isinstance(failure.outcome, Error) and failure.outcome.error is error


def _failures(pending: Pending) -> Iterator[Pending]:
    """The failures in *pending* in program order: what it left behind came before its own end."""
    for child in pending.children or ():
        yield from _failures(child)
    if isinstance(pending.outcome, Error):
        yield pending
