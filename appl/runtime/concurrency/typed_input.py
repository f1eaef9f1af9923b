"""Lines that a person types, for whoever asks: the main thread, a tool, a function on a worker.

Invariant: nobody is inside a read of standard input that has to wait, but the main thread while it
lets the user edit the line. A worker waits as for an answer, so that it can be cancelled, and reads
when there is something to read. So Ctrl-C ends a question at once, whoever asks, and no thread is
left that holds a stream when the process ends.
"""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType
from typing import Any, TextIO

from appl.base import threads
from appl.runtime.concurrency.clock import Signal
from appl.runtime.concurrency.fiber import in_coroutine, strand_here, wait
from appl.runtime.concurrency.lock import Lock
from appl.runtime.concurrency.loop_thread import task_here
from appl.runtime.frame import FRAME

_SLICE_S = 0.1
_input = builtins.input
_asking = Lock("standard input")
"""Held by the worker that asks: one question after the other."""


def _forget() -> None:
    """In a forked child the parent's workers ask nothing."""
    global _asking
    _asking = Lock("standard input")


os.register_at_fork(after_in_child=_forget)


def typed(prompt: object = "", /) -> str:
    """A line from standard input, like Python's ``input``. Raises ``EOFError``."""
    with _undisturbed():
        stream = sys.stdin
        if not _is_file(stream):
            return _plain_input()(prompt)
        if not _on_main_thread():
            with _asking:
                return _line(prompt, stream)
        if "readline" in sys.modules and stream.isatty() and not in_coroutine():
            with _woken_by_signals():
                return _input(prompt)
        return _line(prompt, stream)


def _on_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def replace_input() -> None:
    """Have Python's own ``input`` be ``typed`` from now on; that of a notebook or a test stays."""
    if _is_pythons(builtins.input):
        builtins.input = typed


def _is_pythons(function: object) -> bool:
    return function is _input and isinstance(function, BuiltinFunctionType)


def _plain_input() -> Callable[[object], str]:
    """Python's ``input``, or what stands in its place."""
    reader: Callable[[object], str] = builtins.input
    return _input if reader is typed else reader


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """A block in which no line of ours is drawn over what is typed."""
    if not sys.stderr or not sys.stderr.isatty():
        yield
        return
    from appl.base.status_line import terminal  # only a live display needs it

    with terminal.reading():
        yield


def _is_file(stream: TextIO | None) -> bool:
    """True if *stream* is the process's own, which can be waited for."""
    if stream is not sys.__stdin__ or not _is_pythons(_plain_input()):
        return False
    if stream is None:
        return False
    try:
        select.select([stream.fileno()], [], [], 0)
    except (OSError, ValueError):
        return False
    return True


def _line(prompt: object, stream: TextIO) -> str:
    """A line, after the *prompt*, read when it is there."""
    task = task_here()
    before = task.cancelling() if task is not None else 0

    def cancelled() -> bool:
        return task is not None and task.cancelling() > before

    if sys.stdout is not None:
        sys.stdout.write(str(prompt))
        sys.stdout.flush()
    if stream.isatty():  # it gives whole lines
        _wait_for(stream.fileno(), cancelled)
        line = stream.readline()
    else:
        with _patient(stream, cancelled):
            line = stream.readline()
    if not line:
        raise EOFError
    return line.removesuffix("\n")


@contextlib.contextmanager
def _patient(stream: Any, cancelled: Callable[[], bool]) -> Iterator[None]:
    """A block in which *stream* waits for its next bytes as programs wait.

    Nobody can see from outside whether the stream still holds a line that it has read before. It
    knows, and asks its buffer for more only when it has none.
    """
    read, descriptor = stream.buffer.read1, stream.fileno()

    def read1(size: int = -1, /) -> bytes:
        _wait_for(descriptor, cancelled)
        data: bytes = read(size)
        return data

    stream.buffer.read1 = read1
    try:
        yield
    finally:
        del stream.buffer.read1


def _wait_for(descriptor: int, cancelled: Callable[[], bool]) -> None:
    """Wait until *descriptor* can be read, in a coroutine until its task is *cancelled*."""
    if _on_main_thread():
        # In slices: a signal that comes just before the wait does not end it, and its handler runs
        # when Python code does. Under ``asyncio.run`` the handler of Ctrl-C only cancels the task.
        while not select.select([descriptor], [], [], _SLICE_S)[0]:
            if cancelled():
                raise asyncio.CancelledError
        return
    frame = FRAME.get()  # on a worker: others go on
    detection = frame.run.outside.idle_detection if frame is not None else None
    alarms = frame.run.outside.alarms if frame is not None else set()
    ready = Signal(frame.address if frame is not None else "", strand_here().hub)
    alarms.add(ready)
    if detection is not None:  # the person who types moves the run: nobody need give it up
        detection.timers += 1
    try:
        # The helper only looks. If the question is cancelled it stays in ``select``, which holds
        # nothing that the end of the process needs.
        threads.start(lambda: _look(descriptor, ready), "appl-input")
        wait(ready)
    finally:
        alarms.discard(ready)
        if detection is not None:
            detection.timers -= 1


def _look(descriptor: int, ready: Signal) -> None:
    with contextlib.suppress(OSError, ValueError):
        select.select([descriptor], [], [])
    ready.reached()


@contextlib.contextmanager
def _woken_by_signals() -> Iterator[None]:
    """A block in which the main thread may read: a signal just before the read ends it, too.

    Python notes such a signal, and runs its handler after the read, which nothing would end.
    """
    noticed, end = socket.socketpair()
    noticed.setblocking(False)
    before = signal.set_wakeup_fd(noticed.fileno(), warn_on_full_buffer=False)
    threads.start(lambda: _repeat(end), "appl-signals")
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        noticed.close()  # which ends the helper


def _repeat(end: socket.socket) -> None:
    """Send Ctrl-C once more to the main thread if it still reads a moment after it."""
    with end, contextlib.suppress(OSError):
        while number := end.recv(1):
            if number[0] == signal.SIGINT and not select.select([end], [], [], _SLICE_S)[0]:
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
