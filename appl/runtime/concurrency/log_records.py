"""Answers that are logged are there before the logging handler takes its lock.

``logging.info("%s", answer)`` formats the answer while the handler holds its lock. The I/O thread,
on which the answer comes, may log a line of its own, and would wait for that lock for ever.

An error that is logged has the note that it would have where Python shows it.

Invariant: a record is that of the factory that was there before, with the same arguments.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from typing import Any

from appl.runtime.concurrency.fiber import in_coroutine
from appl.runtime.concurrency.future import result_of
from appl.runtime.concurrency.loop_thread import io_thread
from appl.runtime.concurrency.promise import Proxy

_factory: Callable[..., logging.LogRecord] | None = None


def wait_before_logging() -> None:
    """Have futures in log records waited for when a record is made; once in a process."""
    global _factory
    if _factory is None:
        _factory = logging.getLogRecordFactory()
        logging.setLogRecordFactory(_record)


def _record(
    name: Any, level: Any, file: Any, line: Any, message: Any, args: Any, *rest: Any, **more: Any
) -> logging.LogRecord:
    assert _factory is not None
    if args or not isinstance(message, str):
        _finish(message)
        _finish(args)
    if rest and isinstance(rest[0], tuple) and isinstance(rest[0][1], Exception):
        from appl.base.corrections import note_advice  # a server logs the errors of its requests

        note_advice(rest[0][1])
    return _factory(name, level, file, line, message, args, *rest, **more)


def _finish(value: object) -> None:
    """Wait for the futures that the text of *value* needs."""
    if isinstance(value, tuple | list):
        for item in tuple(value):
            _finish(item)
    elif isinstance(value, dict):
        _finish(tuple(value.values()))
    elif isinstance(value, Proxy) or type(value).__module__.startswith("appl."):
        if in_coroutine() or io_thread().on_loop():  # which may not wait
            return
        # What failed is raised again where it is formatted, as any error of an argument is.
        with contextlib.suppress(Exception):
            result_of(value._pending) if isinstance(value, Proxy) else str(value)
