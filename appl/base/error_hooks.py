"""The hooks by which Python shows errors that nobody caught: what it shows is trimmed before.

Invariant: how an error is trimmed is loaded with the first error that is shown.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

from appl.errors import RunWaiting

Hook = Callable[[type[BaseException], BaseException, TracebackType | None], object]


def install() -> None:
    """Make Python, its threads and IPython trim an error before they show it."""
    hook = sys.excepthook
    if not getattr(hook, "appl", False):
        sys.excepthook = _trimming(hook)
        threading.excepthook = _trimming_in_threads(threading.excepthook)
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is not None and not shell.custom_exceptions:
        shell.set_custom_exc((Exception,), _show_in_shell)


def _trimming(hook: Hook) -> Hook:
    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if isinstance(error, RunWaiting):  # the end of the process says what it waits for
            return
        _trim(error)
        hook(kind, error, error.__traceback__)

    show.appl = True  # type: ignore[attr-defined]
    return show


def _trimming_in_threads(hook: Callable[[threading.ExceptHookArgs], object]) -> Callable[..., None]:
    def show(ended: threading.ExceptHookArgs) -> None:
        error = ended.exc_value
        if error is not None:
            _trim(error)
            parts = (type(error), error, error.__traceback__, ended.thread)
            ended = threading.ExceptHookArgs(parts)
        hook(ended)

    return show


def _show_in_shell(
    shell: Any,
    kind: type[BaseException],
    error: BaseException,
    trace: TracebackType | None,
    tb_offset: int | None = None,
) -> None:
    _trim(error)
    shell.showtraceback((kind, error, error.__traceback__), tb_offset=0)


def _trim(error: BaseException) -> None:
    from appl.base.tracebacks import trim  # most programs end without an error

    trim(error)
