"""A session with given settings, for the tests of what a session makes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from appl.config import Config
from appl.session import Session, make_session
from appl.session.session import block, tell
from appl.testing import Run


@block
def open_run(config: Config, *, say: Callable[[str], None] = tell) -> Iterator[tuple[Run, Session]]:
    """An open session; at the end of the block it waits, raises and closes."""
    session = make_session(config, say=say)
    try:
        yield session.run, session
    finally:
        session.close()
