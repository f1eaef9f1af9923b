"""Tracebacks that begin and end in the user's files.

Invariant: an error of the package itself, one that nobody raised on purpose, keeps every frame; so
does every error under ``APPL_TRACEBACK=full``.
"""

from __future__ import annotations

import dis
import os
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import greenlet

from appl.base.corrections import note_advice
from appl.errors import ApplError

_OURS = (
    str(Path(__file__).parents[1]) + os.sep,
    str(Path(greenlet.__file__).parent) + os.sep,
    "<frozen",
)
_BACKENDS = f"{os.sep}appl_backends{os.sep}"
_PYTHON = sysconfig.get_paths()["stdlib"]


def is_full() -> bool:
    """True if the user wants every frame."""
    return os.environ.get("APPL_TRACEBACK") == "full"


def is_ours(file: str) -> bool:
    """True if *file* belongs to this package, or to greenlet, which switches between programs."""
    return file.startswith(_OURS) or _BACKENDS in file


def is_library(file: str) -> bool:
    """True if *file* is not the user's own: it is ours, Python's, or installed."""
    return is_ours(file) or file.startswith(_PYTHON) or f"{os.sep}site-packages{os.sep}" in file


def shown(error: BaseException) -> list[TracebackType]:
    """The entries of *error*'s traceback that the user is shown."""
    entries = list(_entries(error.__traceback__))
    users = [i for i, entry in enumerate(entries) if not _is_hidden(_file(entry))]
    if is_full() or not any(is_ours(_file(entry)) for entry in entries):
        return entries
    beyond = entries[users[-1] + 1 :] if users else entries
    our_bug = beyond and not isinstance(error, _NO_BUG) and is_ours(_file(beyond[-1]))
    if our_bug and not _raises(beyond[-1]):  # it arose in our code, and was not raised there
        return entries
    if not users:
        return []
    on_purpose = isinstance(error, ApplError)
    shown_entries = [entries[i] for i in users] if on_purpose else entries[users[0] :]
    return [entry for entry in shown_entries if not is_ours(_file(entry))]


def trim(error: BaseException) -> None:
    """Reduce the tracebacks of *error* and its causes to what the user is shown; add advice."""
    for linked in _chain(error):
        advise(linked)
        if not is_full():
            trace: TracebackType | None = None
            for entry in reversed(shown(linked)):
                trace = TracebackType(trace, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
            linked.__traceback__ = trace


def advise(error: BaseException) -> None:
    """Note the correction on *error* if its message cannot say it."""
    note_advice(error, _late(error))


def _late(error: BaseException) -> str:
    """The ``try`` that the program had left before *error* came about; empty if there is none."""
    notes = [note for note in getattr(error, "__notes__", ()) if note.startswith("in call ")]
    if not notes:
        return ""
    files = {_file(entry) for entry in _entries(error.__traceback__)}
    from appl.compiler import late_failure as late  # only when an error is shown

    return str(late.passed_by(notes, [file for file in files if not is_library(file)]))


def _entries(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _file(entry: TracebackType) -> str:
    return entry.tb_frame.f_code.co_filename


def _is_hidden(file: str) -> bool:
    """True if *file* is ours, or Python's machinery between us and the user."""
    return is_ours(file) or (file.startswith(_PYTHON) and "site-packages" not in file)


_NO_BUG = (ApplError, KeyboardInterrupt, RecursionError, MemoryError)
"""Errors that are raised on purpose, or wherever the program happens to be."""


def _raises(entry: TracebackType) -> bool:
    """True if *entry* stands at code that reports the user's mistake, or applies an operator."""
    code = entry.tb_frame.f_code
    return dis.opname[code.co_code[entry.tb_lasti]] in _RAISING or "op" in code.co_freevars


_RAISING = frozenset({"RAISE_VARARGS", "RERAISE", "CALL_FUNCTION_EX"})
"""The last one calls a function of the user's with the user's arguments, which may not fit."""


def _chain(error: BaseException) -> Iterator[BaseException]:
    """*error*, the members of a group, and all their causes."""
    visited: set[int] = set()
    todo: list[BaseException | None] = [error]
    while todo:
        current = todo.pop()
        if current is None or id(current) in visited:
            continue
        visited.add(id(current))
        yield current
        members = current.exceptions if isinstance(current, BaseExceptionGroup) else ()
        todo += [current.__cause__, current.__context__, *members]
