"""Programs that log, print and call back while they hold locks: with each backend, all end."""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from appl import call, gen, map, ppl
from appl.backend import Backend, Emit, Request, Response
from appl.errors import DeadlockError
from appl.testing import Echo, Run
from tests.faults.storm import CLIENTS
from tests.wire.servers import FaultServer

LOG = logging.getLogger("terminal.locks")
LOCK = threading.RLock()
SLOW_S = 0.1
"""An answer that takes longer is received on the I/O thread, never on that of who waits for it."""


@ppl
def ask(question: str) -> Any:
    f"{question}"
    return gen()


@ppl
def conversation() -> Any:
    "Hello"
    (_ := gen())
    "and on"
    return gen()


class Shown:
    """Has an answer in its text."""

    def __init__(self) -> None:
        self.answer = ask("shown")

    def __str__(self) -> str:
        return f"<{self.answer}>"


class Locked(io.StringIO):
    """A stream with a lock of its own."""

    def write(self, text: str) -> int:
        with LOCK:
            return super().write(text)


class Printing(logging.Handler):
    """Formats in a lock of its own, too."""

    def emit(self, record: logging.LogRecord) -> None:
        with LOCK:
            print(self.format(record), file=io.StringIO())


def with_lock() -> None:
    with LOCK:
        print(ask("x"), file=io.StringIO())


def with_own_handler() -> None:
    handler = Printing()
    LOG.addHandler(handler)
    try:
        LOG.info("%s", ask("x"))
    finally:
        LOG.removeHandler(handler)


def in_threads() -> None:
    threads = [threading.Thread(target=LOG.info, args=["%s", ask(str(n))]) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def with_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn(f"{ask('x')}", stacklevel=1)


def redirected() -> None:
    with contextlib.redirect_stdout(Locked()):
        print(ask("x"), str(ask("y")))


def logged_error() -> None:
    try:
        raise ValueError(str(ask("x")))
    except ValueError:
        LOG.exception("failed with %s", ask("y"))


PROGRAMS: dict[str, Callable[[], object]] = {
    "an argument": lambda: LOG.info("%s", ask("x")),
    "two arguments": lambda: LOG.info("%s and %s", ask("x"), ask("y")),
    "a named argument": lambda: LOG.info("%(a)s", {"a": ask("x")}),
    "a message": lambda: LOG.info(ask("x")),
    "a list": lambda: LOG.info("%s", [ask("x"), ask("y")]),
    "a repr": lambda: LOG.info("%r", ask("x")),
    "a conversation": lambda: LOG.info("%s", conversation()),
    "an adapter": lambda: logging.LoggerAdapter(LOG, {}).info("%s", ask("x")),
    "a warning of logging": lambda: LOG.warning("%s", ask("x")),
    "an error": logged_error,
    "the root": lambda: logging.info("%s", ask("x")),
    "a level": lambda: LOG.log(logging.CRITICAL, "%s", ask("x")),
    "a handler that prints": with_own_handler,
    "threads": in_threads,
    "a tool of call": lambda: str(call(lambda: LOG.info("%s", ask("x")))),
    "a map": lambda: list(map(lambda n: LOG.info("%s", ask(str(n))), range(3))),
    "a print with a lock of its own": with_lock,
    "a stream with a lock": redirected,
    "a warning": with_warning,
    "an object with an answer": lambda: LOG.info("%s", Shown()),
}


@contextlib.contextmanager
def logging_to(
    stream: io.StringIO, kind: type[logging.StreamHandler] = logging.StreamHandler
) -> Iterator[None]:
    """A block in which everything is logged to *stream*, also by clients on the I/O thread."""
    handler, root = kind(stream), logging.getLogger()
    before, root.handlers, level = root.handlers, [handler], root.level
    root.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.handlers = before
        root.setLevel(level)


class Logging:
    """A backend whose client logs each request, and takes a lock, on the I/O thread."""

    def __init__(self, backend: Backend) -> None:
        self._backend, self.profile, self.aclose = backend, backend.profile, backend.aclose

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        logging.getLogger("client").info("asking %s", request.address)
        response = await self._backend.complete(request, emit)
        logging.getLogger("client").info("answered %s", request.address)
        return response


@contextlib.contextmanager
def served(name: str) -> Iterator[Backend]:
    if name == "echo":
        yield Echo()
        return
    with FaultServer() as server:
        yield CLIENTS[name](server)


@pytest.mark.parametrize(
    "backend", ["echo", "openai", "sglang", pytest.param("litellm", marks=pytest.mark.long)]
)
def test_every_program_ends(backend: str) -> None:
    stream, errors = io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stderr(errors),  # where logging reports what it could not format
        served(backend) as answers,
        Run(Logging(answers)),
        logging_to(stream),
    ):
        for program in PROGRAMS.values():
            program()
    assert stream.getvalue().count("failed with ") == 1
    # Nobody knows beforehand that the text of an object needs an answer: it may end with an error.
    assert errors.getvalue().count("--- Logging error ---") <= 1


class Telling(logging.StreamHandler):  # type: ignore[type-arg] # at run time it has none
    """Says that it formats a record, which it does while it holds its lock."""

    formats = threading.Event()

    def format(self, record: logging.LogRecord) -> str:
        self.formats.set()
        return super().format(record)


class Late(Echo):
    """Logs on the I/O thread as soon as a handler holds its lock, and answers then."""

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        while not Telling.formats.is_set():
            await asyncio.sleep(0.001)
        await asyncio.sleep(SLOW_S)
        logging.getLogger("client").info("answering")
        return await super().complete(request, emit)


def test_an_object_whose_text_needs_an_answer_ends_with_an_error_that_names_the_lock() -> None:
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors), Run(Late()), logging_to(io.StringIO(), Telling):
        LOG.info("%s", Shown())
    assert errors.getvalue().count("--- Logging error ---") == 1
    assert "while it holds the lock `self.lock`" in errors.getvalue()


def test_the_error_names_the_lock_and_both_lines() -> None:
    class Needy(Echo):
        """Takes the lock on the I/O thread before it answers."""

        async def complete(self, request: Any, emit: Any = None) -> Any:
            await asyncio.sleep(SLOW_S)
            with LOCK:
                return await super().complete(request, emit)

    with Run(Needy()), pytest.raises(DeadlockError) as caught, LOCK:
        str(ask("x"))
    assert "holds the lock `LOCK`" in str(caught.value)
    assert str(caught.value).count(__file__) == 2
