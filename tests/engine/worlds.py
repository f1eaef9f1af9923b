"""Maps over workers that are threads, recorded and replayed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from appl.backend import Emit, Request, Response
from appl.session import replayed
from appl.testing import Fake, Log, Run
from appl.tracing import RecordedCall, Recorder, Trace, profile_data


class NeverSlow(Fake):
    """Answers in capitals, but nothing that begins with ``slow``; ``aborted`` are those addresses.

    What it is asked is passed to *answer* first.
    """

    def __init__(self, answer: Callable[[Request], Any]) -> None:
        super().__init__(words)
        self.aborted: list[str] = []
        self._note = answer

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        self._note(request)
        if words(request).startswith("SLOW"):
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                self.aborted.append(request.address)
        return await super().complete(request, emit)


class World:
    """A run whose workers answer with *answer*; all backends' requests are counted together."""

    def __init__(self, answer: Callable[[Request], Any], **options: Any) -> None:
        self._answer, self._options = answer, options
        self.backends: list[Fake] = []
        self.log = Log()

    def backend(self) -> Fake:
        made = Fake(self._answer)
        self.backends.append(made)
        return made

    @property
    def asked(self) -> list[str]:
        return sorted(request.address for each in self.backends for request in each.requests)

    @contextmanager
    def run(self, path: Path | None = None) -> Iterator[Run]:
        """A run with this world's backend, recorded in *path* if there is one."""
        backend = self.backend()
        watching: list[Any] = [self.log]
        recorder = None
        if path is not None:
            recorder = Recorder(path, {"profile": profile_data(backend.profile), "seed": 5})
            watching.append(recorder)
        run = Run(backend, instruments=watching, seed=5, **self._options)
        try:
            with run:
                yield run
        finally:
            if recorder is not None:
                recorder.close()


def replay(path: Path, program: Callable[[], Any]) -> Any:
    """The value of *program*, answered from *path* alone."""
    with replayed(path):
        return program()


def calls(path: Path) -> dict[str, tuple[Any, ...]]:
    """What each call of a trace was and had, by address."""
    return {call.address: _facts(call) for call in Trace.open(path).calls}


def _facts(call: RecordedCall) -> tuple[Any, ...]:
    spans = [link.spans for link in call.messages.links()] if call.messages else []
    return call.content, call.ordinal, call.outcome, call.edges, call.line, spans


def words(request: Request) -> str:
    """The last message, in capitals."""
    return list(request.messages or ())[-1].content.upper()
