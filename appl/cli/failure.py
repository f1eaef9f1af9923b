"""The message and the exit code of a failure.

Invariant: the traceback of a user's program begins and ends in the user's files. A mistake in a
command is explained in a sentence, without a traceback. No secret of the environment appears in any
message.
"""

from __future__ import annotations

import time
import traceback
from typing import Any

from appl.base import tracebacks
from appl.base.collecting import stack_of
from appl.base.tracebacks import is_library
from appl.cli import exits
from appl.cli.commands import Options
from appl.cli.target import UsageError
from appl.cli.terminal import as_json, out, say, say_next, term_safe
from appl.errors import (
    ApplError,
    AuthenticationFailed,
    BackendNotFound,
    ConfigError,
    ControlError,
    DivergenceError,
    ExportError,
    MissingExtra,
    ModelNotFound,
    PromptSyntaxError,
    RunWaiting,
    SecretInRecord,
    SourceUnavailable,
    TraceError,
)
from appl.session.deferred_close import users_threads
from appl.session.session import shown
from appl.tracing.recording.secret import Masker

_PLAIN = (UsageError, TraceError, ControlError, ExportError)
_USAGE = (UsageError, ConfigError, ModelNotFound, BackendNotFound, MissingExtra)
_SOURCE = (PromptSyntaxError, SourceUnavailable)
_PATIENCE_S = 1.0
"""Seconds in which the threads of an interrupted program end without a word about them."""


def explain(error: BaseException, options: Options) -> int:
    """Tell the user of *error*, which ended the command of *options*; return the exit code."""
    # A run that waits has ended so, whatever error the program has made of it.
    waiting = options.session.run.waiting if options.session is not None else None
    waiting = waiting or (error if isinstance(error, RunWaiting) else None)
    if waiting is not None:
        return _tell_waiting(waiting, options)
    code = exit_code(error)
    masker = Masker()
    plain = isinstance(error, (*_PLAIN, AuthenticationFailed))  # which no line of a program causes
    if isinstance(error, KeyboardInterrupt):
        head = "appl: interrupted"
    elif plain or (isinstance(error, _USAGE) and not _lines(error)):
        head = "\n  ".join([f"appl: {error}", *_notes(error)])
    else:
        head = text(error)
    say(masker.text(head, []))
    session, counts = options.session, options.counts
    if session is not None:
        where = f"; recorded in {shown(session.path)}" if session.path else ""
        if counts is not None and (counts.started or where):
            say(f"appl: {counts.line()}{where}")
        if isinstance(error, KeyboardInterrupt):
            if counts and counts.started:
                say_next(session.resume_line())
            # A thread of the program that goes on is named: Python waits for it before it exits.
            until = time.monotonic() + _PATIENCE_S
            for thread in users_threads():
                thread.join(max(0.0, until - time.monotonic()))
            for thread in users_threads()[:1]:
                lines = [(f.f_code.co_filename, f.f_lineno) for f in stack_of(thread.ident)]
                at = next(
                    (f" at {file}:{line}" for file, line in lines if not is_library(file)), ""
                )
                say(f"appl: the program's {thread.name} goes on{at}; Ctrl-C once more ends it")
    if options.json:
        out(as_json(masker.cleaned({"error": describe(error), "exit_code": code})))
    return code


def _tell_waiting(waiting: RunWaiting, options: Options) -> int:
    """Tell the user what the run waits for, and how it goes on."""
    from appl.session import next_steps as words  # only a run that waits needs it

    session = options.session
    name = session.run_name() if session else options.recorded
    by_command = session is not None and session.entry.kind == "cli"
    for line in words.lines(waiting.waits, name, by_command=by_command):
        say(line)
    if options.json:
        waits = [entry._asdict() for entry in waiting.waits]
        path = str(session.path) if session and session.path else None
        data = {"waiting": waits, "trace": path, "exit_code": exits.WAITING}
        out(as_json(Masker().cleaned(data)))
    return exits.WAITING


def exit_code(error: BaseException) -> int:
    """The exit code for *error*."""
    if isinstance(error, KeyboardInterrupt):
        return exits.INTERRUPTED
    if isinstance(error, DivergenceError | SecretInRecord):
        return exits.DIVERGED
    if isinstance(error, TraceError):
        return exits.TRACE
    return exits.USAGE if isinstance(error, (*_USAGE, *_SOURCE)) else exits.FAILED


def describe(error: BaseException) -> dict[str, Any]:
    """The error as data, for ``--json``."""
    return {
        "type": type(error).__name__,
        "message": str(error),
        "notes": _notes(error),
        "traceback": _lines(error),
    }


def text(error: BaseException) -> str:
    """*error* with the part of its traceback that lies in the user's files."""
    tracebacks.advise(error)
    lines = _lines(error)
    head = ["Traceback (most recent call last):"] if lines else []
    last = "".join(traceback.format_exception_only(error))
    before = _before(error)
    return term_safe(before + "\n".join([*head, *lines, last.rstrip("\n")]))


def _before(error: BaseException) -> str:
    """The error that led to *error*, if it is to be shown."""
    cause = error.__cause__
    if cause is None and not error.__suppress_context__:
        cause = error.__context__
    if cause is None or isinstance(error, ApplError):
        return ""
    link = "direct cause of" if error.__cause__ is not None else "reason to handle, and then of"
    return f"{text(cause)}\n\nThis was the {link} the next:\n\n"


def _notes(error: BaseException) -> list[str]:
    return [str(note) for note in getattr(error, "__notes__", ())]


def _lines(error: BaseException) -> list[str]:
    """The traceback's lines, from the first to the last frame in the user's files."""
    entries = [traceback.extract_tb(entry, 1)[0] for entry in tracebacks.shown(error)]
    return "".join(traceback.format_list(entries)).rstrip("\n").splitlines()
