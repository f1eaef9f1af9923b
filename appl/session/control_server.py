"""The server that makes a run reachable by ``appl ctl``.

Invariant: a run works as well if the server cannot start. The code that answers is imported with
the first request.
"""

from __future__ import annotations

import functools
import time
from typing import TYPE_CHECKING, Any

from appl.errors import ControlError
from appl.parts.control.server import ControlServer
from appl.runtime.concurrency.loop_thread import io_thread
from appl.tracing.recording.secret import Masker

if TYPE_CHECKING:
    from appl.session.session import Session, Tell
    from appl.tracing import Recorder


def start_server(session: Session, say: Tell, recorder: Recorder | None) -> ControlServer:
    """The server of *session*'s run, which the caller may close.

    It starts on the I/O loop: at once if the user asked for it, and otherwise a moment later, since
    most runs of a web server are over by then. If the user asked for it and it cannot start, *say*
    gets a line.
    """
    began = time.time()

    @functools.cache
    def handler() -> Any:
        about = _about(session, recorder, began)
        from appl.parts.control.requests import RequestHandler

        return RequestHandler(session.run, about)

    server = ControlServer(lambda request: handler().answer(request))

    def opens() -> None:
        try:
            server.open()
        except (ControlError, OSError) as error:
            say(f"appl: `appl ctl` cannot reach this run: {error}")

    if session.config.origin("ctl") == "default":
        server.open_later()
    else:
        io_thread().send(opens)
    return server


def _about(session: Session, recorder: Recorder | None, began: float) -> Any:
    config, program = session.config, session.entry.program
    from appl.parts.control.view import About  # only a run that is looked at from outside needs it

    return About(
        name=recorder.path.stem if recorder is not None else program,
        program=program,
        trace=str(recorder.path.absolute()) if recorder is not None else None,
        masker=recorder.masker if recorder is not None else Masker(),
        content=config.privacy == "full" and config.redact is None,
        began=began,
    )
