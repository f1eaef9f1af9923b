"""One served run on a thread of its own: its session, the call of its function, and its outcome.

Invariant: a run that exists is gone on with, and never begun anew; only where no call of it can
have been sent, because its trace has no beginning, it begins.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from appl import config as settings
from appl.backend import Response
from appl.compiler.hooks import program_of
from appl.config import Config
from appl.errors import (
    ApplError,
    Awaited,
    BackendBusy,
    BackendError,
    BackendTimeout,
    BackendUnavailable,
    BudgetExceeded,
    ConfigError,
    InDoubtBatch,
    InDoubtEffect,
    PromptTooLong,
    RunWaiting,
    TraceError,
)
from appl.parts.serving.functions import ServedFunction, WrongArguments, words_of
from appl.parts.serving.journal import read
from appl.runtime.answers.stream import TextStream
from appl.runtime.concurrency.loop_thread import io_thread
from appl.runtime.concurrency.parallel import call as started
from appl.runtime.event import CallEnded, Event
from appl.runtime.resolve import aresolve, resolve
from appl.runtime.run import Run
from appl.runtime.scheduling.accounts import Account
from appl.runtime.waiting.forms import Form
from appl.session.entry import Entry, changed_files
from appl.session.next_steps import QUESTION_KINDS
from appl.session.ownership import require_own
from appl.session.resume import resume_session
from appl.session.session import RECORDED, Session, make_session, settled
from appl.tracing.format.keys import first_record
from appl.tracing.reading.trace import Trace
from appl.tracing.reading.waits import open_questions
from appl.tracing.recording.secret import Masker
from appl.tracing.replaying.resumer import Resumer

_LOG = logging.getLogger("appl.serve")
Emit = Callable[[str, Any], None]


class CommonAccount(Account):
    """The account around those of all runs of a server.

    Each run has its own queue of calls that wait for room, and hears nothing of what another run
    gives back: so it looks.
    """

    __slots__ = ()
    poll_s = 0.05

    @property
    def is_spent(self) -> bool:
        """True if no further call can be sent."""
        return any(
            limit is not None and (spent or 0) >= limit
            for limit, spent in zip(self.limits, self._spent, strict=True)
        )


@dataclass(frozen=True, slots=True)
class RunSettings:
    """The settings of all runs of a server; *overrides* are those of its command line."""

    config: Config
    overrides: Mapping[str, object]
    account: CommonAccount | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a run, or of its part in this process; *value* is JSON, as in the journal."""

    state: str
    value: str | None
    due: float | None = None
    usage: str | None = None


@dataclass(slots=True)
class ServedJob:
    """The work for one run: a new one, or one to go on with if its trace is at *path*.

    *emit* gets what the run streams, on its thread; with *streams*, answers while they are written.
    *rerun* and *assume* decide about effects in doubt.
    """

    function: ServedFunction
    arguments: str
    path: Path
    emit: Emit
    streams: bool = False
    rerun: tuple[str, ...] = ()
    assume: Mapping[str, str] = field(default_factory=dict)
    stop: Literal["interrupted", "cancelled"] | None = None
    session: Session | None = None

    def end(self, state: Literal["interrupted", "cancelled"]) -> None:
        """End the run in *state*, from any thread: it is interrupted where its program waits."""
        self.stop = self.stop or state
        if self.session is not None:
            io_thread().send(partial(self._fail, self.session.run))

    def _fail(self, run: Run) -> None:
        # On the I/O loop. What is asked from here on is refused; what is under way is given up, and
        # has no answer in the trace: who goes on asks it again.
        run.refusal = run.refusal or "this run was ended from outside"
        run.fail(KeyboardInterrupt())


def execute(job: ServedJob, common: RunSettings) -> Outcome:
    """Do the work of *job*; its end. Never raises."""
    return replace(_outcome(job, common), usage=_usage(job.session))


def _outcome(job: ServedJob, common: RunSettings) -> Outcome:
    try:
        value = _performed(job, common)
        if job.stop is not None:
            return _stopped(job)
        return Outcome("finished", value)
    except RunWaiting as waiting:
        return _waiting(job, waiting.waits)
    except BaseException as error:
        if job.stop is not None:
            return _stopped(job)
        return Outcome("failed", json.dumps(error_data(error, job)))


def _usage(session: Session | None) -> str | None:
    """The use of the whole run, also of its parts in earlier processes, as JSON."""
    recorder = session.recording.recorder if session and session.recording else None
    if recorder is None:
        return None
    totals = recorder.totals
    cost = None if totals.cost_unknown else totals.cost / 1e6
    return json.dumps({"calls": totals.calls, **totals.tokens, "cost": cost})


def _stopped(job: ServedJob) -> Outcome:
    if job.stop == "interrupted":
        return Outcome("interrupted", None)
    error = {"type": "Cancelled", "message": "the run was cancelled", "status": 409}
    return Outcome("cancelled", json.dumps(error))


def _performed(job: ServedJob, common: RunSettings) -> str:
    values = job.function.arguments(job.arguments)
    session = job.session = _session(job, common)
    try:
        if common.account is not None:
            root = session.run.tree.root
            if root.account is None:
                root.account = common.account
            else:
                root.account.around = common.account
        if session.recording is not None:
            session.recording.gate()  # the run is on disk before its program begins
        if job.stop is not None:
            job.end(job.stop)  # it came before there was a session
        with settled(session.run.outside.world):
            value = _called(job, session.run, values)
        return job.function.result(value)
    finally:
        session.close()


# -- its session


def _session(job: ServedJob, common: RunSettings) -> Session:
    entry = Entry("served", job.function.file, job.function.place, words_of(job.arguments))
    watching = [_Progress(job.emit)] if job.streams else []
    if _has_begun(job.path):
        require_own(job.path, False, "remove it from the journal: nobody goes on with it here")
        trace = Trace.open(job.path, home=common.config.home)
        edited = bool(changed_files(trace.header))
        resumer = Resumer(trace, edited=edited, rerun=job.rerun, assume=job.assume)
        present = {k: v for k, v in common.overrides.items() if k not in (*RECORDED, "seed")}
        return resume_session(resumer, present, entry=entry, instruments=watching, say=_log)
    return make_session(common.config, entry=entry, instruments=watching, path=job.path, say=_log)


def _has_begun(path: Path) -> bool:
    """True if there is a run at *path*; what is there without a beginning is removed.

    The beginning is on disk before the first call is sent.
    """
    if not path.exists():
        return False
    try:
        first_record(path)
    except TraceError:
        path.unlink()
        return False
    return True


def _log(line: str) -> None:
    _LOG.info("%s", line)


class _Progress:
    """Has all calls streamed, and tells of each that has ended."""

    wants_chunks = True

    def __init__(self, emit: Emit) -> None:
        self._emit = emit

    def on_event(self, event: Event) -> None:
        """Tell of the end of a call."""
        if isinstance(event, CallEnded):
            answered = isinstance(event.response, Response)
            outcome = "answered" if answered else "failed"
            self._emit("call", {"address": event.address, "outcome": outcome})


# -- the call


def _called(job: ServedJob, run: Run, values: dict[str, Any]) -> object:
    function = job.function.function
    inner = inspect.unwrap(function)
    if inspect.iscoroutinefunction(inner) or inspect.isasyncgenfunction(inner):
        return asyncio.run(_acalled(job, run, values))
    with run:
        if job.streams and program_of(function) is not None and not job.function.streams:
            value: Any = started(function, **values)  # a future, whose text can be read as it comes
        else:
            value = function(**values)
        return _read(job, value)


def _read(job: ServedJob, value: Any) -> object:
    """The finished *value*; what it streams is emitted as it comes."""
    if isinstance(value, TextStream):
        return _joined(job, value)
    if inspect.isgenerator(value):
        return _joined(job, (resolve(item) for item in value))
    if job.streams and hasattr(value, "text_stream") and not isinstance(value, str):
        for piece in value.text_stream:
            if isinstance(piece, str):
                job.emit("text", str(piece))
    return resolve(value)


def _joined(job: ServedJob, pieces: Iterable[object]) -> object:
    items = []
    for piece in pieces:
        _emit_item(job, piece)
        items.append(piece)
    return _whole(items)


def _emit_item(job: ServedJob, piece: object) -> None:
    if isinstance(piece, str):
        job.emit("text", str(piece))
    else:
        job.emit("item", read(job.function.result(piece)))


def _whole(items: list[object]) -> object:
    """The value of a stream: one text, or the list of its items."""
    return "".join(map(str, items)) if all(isinstance(item, str) for item in items) else items


async def _acalled(job: ServedJob, run: Run, values: dict[str, Any]) -> object:
    async with run:
        value = job.function.function(**values)
        if inspect.iscoroutine(value):
            value = await value
        if not (inspect.isasyncgen(value) or isinstance(value, TextStream)):
            return await aresolve(value)
        items = []
        async for piece in value:
            items.append(await aresolve(piece))
            _emit_item(job, items[-1])
        return _whole(items)


# -- its end


def _waiting(job: ServedJob, waits: Iterable[Awaited]) -> Outcome:
    """The waits of the run, with the forms of its questions."""
    entries = list(waits)
    forms: dict[str, Any] = {}
    if any(entry.kind in QUESTION_KINDS for entry in entries):
        trace = Trace.open(job.path, home=settings.load().home)
        forms = {each.address: each for each in open_questions(trace)}
    masker = Masker()
    found = []
    for entry in entries:
        data: dict[str, Any] = {
            "address": entry.address,
            "kind": entry.kind,
            "text": masker.text(entry.text, []),
            "due": entry.due,
        }
        if (question := forms.get(entry.address)) is not None:
            data["answer"] = Form.of_data(question.form).hint
        found.append(data)
    dues = [entry.due for entry in entries if entry.due is not None]
    return Outcome("waiting", json.dumps(found), min(dues, default=None))


def error_data(error: BaseException, job: ServedJob) -> dict[str, Any]:
    """*error* as clients get it, with the HTTP status that fits."""
    if not isinstance(error, ApplError | WrongArguments):
        _LOG.warning("the run %s failed", job.path.stem, exc_info=error)
    data: dict[str, Any] = {
        "type": type(error).__name__,
        "message": Masker().text(str(error), []) or type(error).__name__,
        "status": _status(error),
    }
    if isinstance(error, WrongArguments):
        data["detail"] = error.problems
    if isinstance(error, BudgetExceeded):
        data["code"] = "budget_exceeded"
    return data


def _status(error: BaseException) -> int:
    """The HTTP status for a run that failed of *error*."""
    table: tuple[tuple[type[BaseException], int], ...] = (
        (WrongArguments, 422),
        (BudgetExceeded, 429),
        (PromptTooLong, 400),
        (InDoubtEffect, 409),
        (InDoubtBatch, 409),
        (BackendTimeout, 504),
        (BackendBusy, 503),
        (BackendUnavailable, 502),
        (BackendError, 502),
    )
    return next((status for kind, status in table if isinstance(error, kind)), 500)


def served_config(overrides: Mapping[str, object]) -> Config:
    """The settings of served runs; each is recorded, as otherwise nobody could go on with it.

    Raises ``ConfigError``.
    """
    config = settings.load(dict(overrides))
    if config.privacy != "full":
        raise ConfigError(
            f"privacy = {config.privacy!r} keeps texts out of traces, and a server keeps requests "
            "and results as they are, to go on with its runs: serve with APPL_PRIVACY=full"
        )
    return replace(config, trace=True)
