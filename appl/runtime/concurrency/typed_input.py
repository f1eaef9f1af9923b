"""Lines that a person types, for whoever asks: the main thread, a tool, a function on a worker.

Invariant: no thread but the main one is ever inside a read of standard input that has to wait. It
waits as for an answer, so that it can be cancelled, and reads when there is something to read. So
Ctrl-C ends a question at once, and no thread is left that holds a stream when the process ends.
"""

from __future__ import annotations

import builtins
import contextlib
import select
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, TextIO

from appl import threads
from appl.late import late_import
from appl.runtime.concurrency.clock import Signal
from appl.runtime.concurrency.fiber import strand_here, wait
from appl.runtime.concurrency.lock import Lock
from appl.runtime.frame import FRAME

_input = builtins.input
_asking = Lock("standard input")
"""Held by the worker that asks: one question after the other."""


def typed(prompt: object = "", /) -> str:
    """A line from standard input, like Python's ``input``. Raises ``EOFError``."""
    with _undisturbed():
        stream = sys.stdin
        if threading.current_thread() is threading.main_thread() or not _is_file(stream):
            return _plain_input()(prompt)
        with _asking:
            return _typed_beside(prompt, stream)


@contextlib.contextmanager
def input_replaced() -> Iterator[None]:
    """A block in which Python's own ``input`` is ``typed``, also in tools."""
    before = builtins.input
    if before is not _input:  # a notebook's, or a test's
        yield
        return
    builtins.input = typed
    try:
        yield
    finally:
        builtins.input = before


def _plain_input() -> Callable[[object], str]:
    """Python's ``input``, or what stands in its place."""
    found: Callable[[object], str] = builtins.input
    return _input if found is typed else found


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """A block in which no line of ours is drawn over what is typed."""
    if not sys.stderr or not sys.stderr.isatty():
        yield
        return
    with late_import("appl.status_line").terminal.reading():
        yield


def _is_file(stream: TextIO | None) -> bool:
    """True if *stream* is the process's own, which can be waited for."""
    if stream is not sys.__stdin__ or _plain_input() is not _input:
        return False
    if stream is None:
        return False
    try:
        select.select([stream.fileno()], [], [], 0)
    except (OSError, ValueError):
        return False
    return True


def _typed_beside(prompt: object, stream: TextIO) -> str:
    """A line, on a thread that is not the main one."""
    if sys.stdout is not None:
        sys.stdout.write(str(prompt))
        sys.stdout.flush()
    if stream.isatty():  # it gives whole lines
        _wait_for(stream.fileno())
        line = stream.readline()
    else:
        with _patient(stream):
            line = stream.readline()
    if not line:
        raise EOFError
    return line.removesuffix("\n")


@contextlib.contextmanager
def _patient(stream: Any) -> Iterator[None]:
    """A block in which *stream* waits for its next bytes as programs wait.

    Nobody can see from outside whether the stream still holds a line that it has read before. It
    knows, and asks its buffer for more only when it has none.
    """
    read, descriptor = stream.buffer.read1, stream.fileno()

    def read1(size: int = -1, /) -> bytes:
        _wait_for(descriptor)
        found: bytes = read(size)
        return found

    stream.buffer.read1 = read1
    try:
        yield
    finally:
        del stream.buffer.read1


def _wait_for(descriptor: int) -> None:
    """Wait until *descriptor* can be read; others go on meanwhile."""
    frame = FRAME.get()
    detection = frame.run.outside.idle_detection if frame is not None else None
    ready = Signal(frame.address if frame is not None else "", strand_here().hub)
    if detection is not None:  # the person who types moves the run: nobody need give it up
        detection.timers += 1
    try:
        # The helper only looks. If the question is cancelled it stays in ``select``, which holds
        # nothing that the end of the process needs.
        threads.start(lambda: _look(descriptor, ready), "appl-input")
        wait(ready)
    finally:
        if detection is not None:
            detection.timers -= 1


def _look(descriptor: int, ready: Signal) -> None:
    with contextlib.suppress(OSError, ValueError):
        select.select([descriptor], [], [])
    ready.reached()
