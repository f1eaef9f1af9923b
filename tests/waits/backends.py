"""Backends by which the tests of waits are recorded and resumed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from appl.session import record, resumed
from appl.testing import Echo

_made: list[Any] = []


def made(**_: object) -> Any:
    """The backend of the block around."""
    return _made[-1] if _made else Echo()


@contextlib.contextmanager
def answering(backend: Any) -> Iterator[Any]:
    """A block whose runs ask *backend*."""
    _made.append(backend)
    try:
        yield backend
    finally:
        _made.remove(backend)


def recorded(path: Any, **settings: Any) -> Any:
    """A recorded run that asks the backend of the block around."""
    return record(path, backend=f"{__name__}:made", **settings)


def going_on(path: Any, **options: Any) -> Any:
    """The run at *path*, which goes on with the backend of the block around."""
    return resumed(path, say=lambda _: None, **options)
