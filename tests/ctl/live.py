"""A run that goes on in a thread of its own while a test looks at it from outside."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from appl.backend import Emit, Request, Response
from appl.config import load
from appl.parts.control import About, RequestHandler, ask
from appl.session import Session, make_session
from appl.testing import Held, Run, on_backend_loop
from appl.tracing import Masker

PATIENCE_S = 60.0


class Watched(Held):
    """Answers when told, and tells who waits for it which calls have come."""

    def __init__(self, answer: Any = None, **profile: Any) -> None:
        super().__init__(answer, **{"name": "watched", **profile})
        self.came: list[str] = []
        self._news = threading.Condition()

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        with self._news:
            self.came.append(request.address)
            self._news.notify_all()
        return await super().complete(request, emit)

    def has(self, *addresses: str) -> None:
        """Return when all of *addresses* have come, and can be released."""
        with self._news:
            assert self._news.wait_for(lambda: set(addresses) <= set(self.came), PATIENCE_S), (
                self.came
            )
        on_backend_loop(lambda: None)  # the step of the loop in which the last one came is over


class Going:
    """A program in its thread, in the run that *make* makes there: its value or error at the end."""

    run: Run

    def __init__(self, make: Callable[[], Run], program: Callable[[], Any]) -> None:
        self.value: Any = None
        self.error: BaseException | None = None
        self.told: list[str] = []
        self._make, self._program = make, program
        self._made = threading.Event()
        self._thread = threading.Thread(target=self._go, name="program")
        self._thread.start()
        assert self._made.wait(PATIENCE_S)

    def _go(self) -> None:
        try:
            self.run = self._make()  # in the thread that the program is at home in
            self.run.reporter.tell = self.told.append
            self._made.set()
            with self.run:
                self.value = self._program()
        except BaseException as error:
            self.error = error

    def over(self) -> Any:
        """Wait for its end; the value, or raise what it raised."""
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the program does not end"
        if self.error is not None:
            raise self.error
        return self.value

    def look(self, action: Callable[[Run], Any]) -> Any:
        """What *action* finds on the I/O loop."""
        return on_backend_loop(lambda: action(self.run))

    def why(self) -> dict[str, tuple[str, str]]:
        """Where each call is, and why, by address."""
        return self.look(lambda run: {h.call.address: (h.stage, h.why) for h in run.holdings()})


@contextmanager
def going(backend: Any, program: Callable[[], Any], **options: Any) -> Iterator[Going]:
    """*program* in a run on *backend*; at the end all that it waits for is cancelled."""
    made = Going(lambda: Run(backend, **options), program)
    try:
        yield made
    finally:
        made.look(resume)
        made.look(lambda run: [h.call.end_from_outside() for h in run.holdings()])
        made._thread.join(PATIENCE_S)


class Recorded(Going):
    """The same in a session, which is recorded and can be reached through its socket."""

    session: Session

    def __init__(self, make: Callable[[], Session], program: Callable[[], Any]) -> None:
        def run() -> Run:
            self.session = make()
            return self.session.run

        super().__init__(run, program)

    @property
    def backend(self) -> Any:
        """Who answers."""
        return self.session.backend

    @property
    def socket(self) -> Path:
        return eventually(lambda: self.session.control_server.path)

    def ask(self, do: str, **fields: Any) -> Any:
        """What the run says through its socket."""
        return ask(self.socket, do, **fields)

    def close(self) -> None:
        self._thread.join(PATIENCE_S)
        self.session.close()


@contextmanager
def recorded(
    program: Callable[[], Any],
    path: Path,
    backend: str = f"{__name__}:Watched",
    say: Callable[[str], None] = lambda line: None,
    **settings: Any,
) -> Iterator[Recorded]:
    """*program*, recorded at *path*; the settings are those of a file, with ``backends`` by name."""
    config = load({"backend": backend, "durability": "process", **settings}, environ={})
    made = Recorded(lambda: make_session(config, path=path, say=say), program)
    try:
        yield made
    finally:
        if made._thread.is_alive():
            made.look(resume)
            made.look(lambda run: [h.call.end_from_outside() for h in run.holdings()])
        made.close()


@contextmanager
def environment(**values: str | None) -> Iterator[None]:
    """Variables of the environment; ``None`` for none."""
    before = {name: os.environ.get(name) for name in values}
    _set(values)
    try:
        yield
    finally:
        _set(before)


def _set(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def control(run: Run, do: str, **fields: object) -> Any:
    """The reply of *run* to a request of ``appl ctl``; on the I/O loop."""
    about = About("run", "program", None, Masker())
    return RequestHandler(run, about).answer({"do": do, **fields})


def pause(run: Run) -> None:
    """Have *run* begin no attempt."""
    control(run, "pause")


def resume(run: Run) -> None:
    """Have *run* begin attempts again, if it is not over."""
    if not run.over:
        control(run, "resume")


def eventually(look: Callable[[], Any]) -> Any:
    """What *look* finds as soon as that is true; it is asked again until then."""
    end = time.monotonic() + PATIENCE_S
    while not (found := look()):
        assert time.monotonic() < end, f"never: {look()!r}"
        threading.Event().wait(0.002)
    return found
