"""Writes what happens in a run to its trace, as it happens.

Invariant: events are queued in the order in which they happen, and encoded in this order by the
thread that writes them; when something cannot be recorded, ``gate`` keeps the next call from being
started.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from appl.errors import TraceWriteError
from appl.prompt import Message
from appl.runtime.event import (
    AttemptFailed,
    CallEnded,
    CallStarted,
    ChunkArrived,
    Event,
    Failed,
    Observed,
    RunEnded,
    ScopeEntered,
    ScopeLeft,
    ToolEnded,
    ToolStarted,
)
from appl.tracing.format import codec, folders, record, table
from appl.tracing.format.block_file import Fault
from appl.tracing.format.signing import Owner
from appl.tracing.format.totals import Totals
from appl.tracing.recording.encoder import CANCELLED, Closing, EventEncoder, WithError
from appl.tracing.recording.secret import Masker, Secrets
from appl.tracing.recording.writer import QUEUE_BYTES, Committed, Durability, Writer

if TYPE_CHECKING:
    from appl.tracing.recording.privacy import Mode, Redact, Veil

_header_row, _process_row = table.row(table.HeaderRecord), table.row(table.ProcessRecord)
_WEIGHT = 512
"""Bytes that an event is taken to hold besides its text, for the limit of the queue."""
_TOKEN = 64
"""Bytes that a token with its log-probability is taken to hold."""


def new_path(program: str, folder: Path | None = None) -> Path:
    """A name for a new trace: when it began, the program, and four random hexadecimal digits.

    A secret in the name of the program is masked.
    """
    now = datetime.now(UTC)
    stamp = f"{now:%Y%m%dT%H%M%S}.{now.microsecond // 1000:03d}Z"
    name = f"{stamp}-{_word(program, Masker().refresh())}-{secrets.token_hex(2)}.trace"
    return (folder or folders.runs_folder()) / name


@lru_cache(maxsize=16)
def _word(program: str, masking: Secrets) -> str:
    """The name of *program* as a part of the name of a file, without the secrets of *masking*."""
    return re.sub(r"[^A-Za-z0-9_]+", "_", masking.masked(program, [])).strip("_")[:40] or "run"


class Recorder:
    """An instrument that writes a trace.

    *header* is plain data about the run. *secrets* are values to be masked besides those of the
    environment; *shapes* adds what looks like a key. With *arguments* it keeps what is shown of the
    arguments and results of functions. *redact* sees each message, answers too,
    before it is stored. *privacy* says what is stored of texts at all (see ``Veil``); the key of a
    private trace lies below *home*. The trace is signed for *owner*. When recording fails, the next
    call is refused, or with ``on_error="warn"`` the run goes on unrecorded.
    """

    never_raises: ClassVar[bool] = True

    def __init__(
        self,
        path: Path | None = None,
        header: Mapping[str, object] | None = None,
        *,
        append: bool = False,
        reason: str = "run",
        durability: Durability = "system",
        on_error: Literal["stop", "warn"] = "stop",
        redact: Redact | None = None,
        privacy: Mode = "full",
        home: Path | None = None,
        secrets: Mapping[str, str] | Iterable[str] = (),
        shapes: bool = True,
        arguments: bool = False,
        notify: Callable[[str], None] | None = None,
        fault: Fault | None = None,
        limit: int = QUEUE_BYTES,
        writer: type[Writer] = Writer,
        owner: Owner | None = None,
    ) -> None:
        header = dict(header or {})
        self.path = path or new_path(str(header.get("program", "run")))
        self.wants_arguments = arguments
        self._on_error = on_error
        self._notify = notify = notify or (lambda message: print(message, file=sys.stderr))
        self._masker = Masker(secrets, shapes=shapes)
        self._veil = self._veiled(append, privacy, home or folders.home(), redact)
        self._began, self._wall = time.monotonic_ns(), time.time_ns()
        self.encoder = EventEncoder(
            self._began,
            self._masker,
            redact if self._veil is None else None,
            whole=redact is not None or self._veil is not None,
        )
        self._error: TraceWriteError | None = None
        self._off = self._closed = self._is_reported = False
        self._ended: RunEnded | None = None
        self.writer = writer(
            self.path,
            append=append,
            durability=durability,
            filter=self._filter,
            fault=fault,
            limit=limit,
            owner=owner,
        )
        self.writer.report = lambda error: notify(f"appl: {error}")
        self.torn = self.writer.file.torn
        try:
            self._open(header, append, reason)
        except BaseException:
            with contextlib.suppress(TraceWriteError):
                self.writer.close()
            raise

    def _veiled(
        self, append: bool, privacy: Mode, home: Path, redact: Redact | None
    ) -> Veil | None:
        """The veil of a private trace, else ``None``; a continued trace keeps its own privacy."""
        if not append and privacy == "full":
            return None
        from appl.tracing.format import keys  # most runs keep their texts

        head = (keys.first_record(self.path) or {}) if append else {}
        if append and "privacy" not in head:
            return None
        from appl.tracing.recording.privacy import Veil

        if not append:
            return Veil(privacy, keys.make(home), redact)
        name = keys.identity_in(head)
        key = keys.find(home, name) if name is not None else None
        if name is None or key is None:
            raise TraceWriteError(
                f"{self.path} is private, and its key {name or ''} is not in {home / keys.FOLDER}; "
                "without it nothing can be added"
            )
        return Veil(head["privacy"]["mode"], key, redact)

    def _filter(self, items: list[object]) -> list[bytes]:
        """The records of a group as they are written."""
        # Called by the thread that writes. Secrets are masked in whole records, as any field may
        # hold one; the veil of a private trace comes last, so that it digests masked texts.
        records = self._masker.filter(self.encoder.encode(items, self._refused))
        return records if self._veil is None else self._veil.filter(records)

    def _refused(self, what: str, error: Exception) -> None:
        """*what* is not in the trace, so that recording has failed."""
        self._error = TraceWriteError(f"{what} cannot be recorded to {self.path}: {error}")

    def _open(self, header: dict[str, object], append: bool, reason: str) -> None:
        first = b"" if append else codec.pack(_header_row(codec.plain(self._header(header))))
        host = os.uname().nodename
        beginning = _process_row(
            self.writer.file.last.blocks, os.getpid(), host, reason, self._wall, self._began
        )
        # Written by this thread before the program goes on: whenever its process ends, the file
        # says what it is of, and which process wrote what follows.
        self.writer.append(first + codec.pack(beginning), wake=False)
        self.writer.write_now()

    def _header(self, header: dict[str, object]) -> dict[str, object]:
        hook = self.encoder.redact is not None
        redaction, entry = "hook" if hook else "full", header.get("entry")
        if hook and isinstance(entry, dict) and entry.get("argv"):
            words = [
                self.encoder.redacted(Message("user", str(w)), []).content for w in entry["argv"]
            ]
            header = {**header, "entry": {**entry, "argv": words}}
        private = {} if self._veil is None else {"privacy": self._veil.about()}
        return {"format": record.FORMAT, **header, "redaction": redaction, **private}

    # -- what the run uses -----------------------------------------------------------------

    def on_event(self, event: Event) -> None:
        """Queue *event*; never blocks and never raises."""
        if self._off or self._closed:
            return
        try:
            # Called on the thread where it happened: the program's own, or the I/O thread. What the
            # program may change afterwards is copied now; encoding is the writer thread's work.
            hold = _HOLDS.get(type(event))
            if hold is not None:
                self.writer.append(*hold(event))
            elif isinstance(event, ChunkArrived):
                # They are written when the call has ended, as they may yet be a secret.
                self.encoder.firsts.setdefault(event.address, event.at)
            elif isinstance(event, RunEnded):
                self._ended = event
            else:
                self.writer.append(event, _WEIGHT)
        except Exception as error:
            self._refused(type(event).__name__, error)

    @property
    def is_free(self) -> bool:
        """True if the next call may start: nothing failed, and there is room in the queue."""
        writer = self.writer
        return not (
            writer.failed or self._error or writer.forked or writer.queue.pending > writer.limit
        )

    def gate(self) -> None:
        """Let the next call start, or wait for room in the queue, or raise ``TraceWriteError``."""
        # Before a call starts: an answer that cannot be recorded must not be paid for. Events are
        # never refused, or what was paid for already would be lost.
        if not self.is_free:
            self._checked(self.writer.wait_for_room)

    def conceal(self, secrets: Mapping[str, str]) -> None:
        """Take *secrets*, by name, out of what is written from now on."""
        self._masker.add(secrets)

    @property
    def totals(self) -> Totals:
        """The sums over what was encoded so far; over the whole run once it is closed."""
        return self.encoder.totals.whole

    @property
    def masker(self) -> Masker:
        """The masker that takes secrets out of the trace."""
        return self._masker

    def barrier(self, timeout: float | None = None) -> None:
        """Return when all that happened so far is written. Raises ``TraceWriteError``."""
        self._checked(lambda: self.writer.barrier(timeout))

    def on_commit(self, done: Committed) -> None:
        """Call *done* on the writer thread when all that happened so far is written."""
        self.writer.on_commit(done)

    def close(self, reason: str | None = None) -> None:
        """Write what is left and the closing record. Raises ``TraceWriteError``."""
        if self._closed or self.writer.forked:
            return
        ended, self._ended = self._ended, None  # it may hold the error with the program's frames
        error = ended.error if ended else None
        error_fields: tuple[object, ...] | None = None
        if error is not None:
            from appl.tracing.format.recorded_errors import error_data  # most runs end well

            error_fields = error_data(error)
        why = reason or (ended.reason if ended else "finished")
        # First the closing record is queued, then further events are ignored. An event that another
        # thread queues in between comes behind that record, where the encoder stops.
        self.writer.append(Closing(why, error_fields, time.monotonic_ns()), _WEIGHT, wake=False)
        self._closed = True
        try:
            self.writer.close()
            self.writer.file.note_end()
        except TraceWriteError as error:
            self._error = self._error or error
        self._checked(lambda: None, "the trace is not complete", "the trace is not complete")

    def leave(self) -> None:
        """Let go of the file as it is, without a closing record."""
        self._closed = True
        self.writer.close()

    def _checked(
        self,
        action: Callable[[], None],
        stopping: str = "no further call is started",
        going_on: str = "the run goes on unrecorded",
    ) -> None:
        """Do *action*; an error of recording stops the run, or is told once, as the user chose.

        The message ends with what follows, which is *stopping* or *going_on*.
        """
        try:
            if self._error is not None and not self.writer.forked:
                raise self._error
            if not self._off:
                action()
        except TraceWriteError as error:
            self._off = self._on_error == "warn"
            from appl.tracing.recording.unsaved import unsaved  # few runs cannot be recorded

            message = f"{error}{unsaved(self.encoder, self.writer)}"
            if not self._off:
                raise TraceWriteError(f"{message}; {stopping}") from error
            if not self._is_reported:
                self._is_reported = True
                self._notify(f"appl: {message}; {going_on}")


# -- by type: what is queued in place of an event, and the bytes that it is taken to hold. What the
# program may still change before it is encoded is copied. Raises ``TypeError`` or ``ValueError``
# where something observed is no plain data.

Held = tuple[Event | WithError, int]


def _with_error(
    event: AttemptFailed | CallEnded | ToolEnded, error: BaseException | None
) -> WithError:
    from appl.tracing.format.recorded_errors import error_data  # few calls fail

    return WithError(event, error_data(error or CANCELLED))


def _scope(event: ScopeEntered) -> Held:
    if not event.metadata:
        return event, _WEIGHT
    try:
        about = codec.plain(event.metadata)
    except (TypeError, ValueError):  # it was only meant to be looked at
        about = repr(event.metadata)
    return replace(event, metadata=about), _WEIGHT


def _left(event: ScopeLeft) -> Held:
    if event.error is not None:
        from appl.tracing.format.recorded_errors import short_error  # few functions fail

        return WithError(event, short_error(event.error)), _WEIGHT
    return event, _WEIGHT


def _answered(event: CallEnded) -> Held:
    response, weight = event.response, _WEIGHT
    if response is None:
        return _with_error(event, event.error), weight + sum(
            len(chunk.text) for chunk in event.chunks
        )
    fixed = type(response.samples) is tuple
    fixed = fixed and type(response.prompt_logprobs) in (tuple, type(None))
    weight += _TOKEN * len(response.prompt_logprobs or ())
    if response.vectors is not None:
        fixed = fixed and type(response.vectors) is tuple
        weight += sum(len(vector) for vector in response.vectors)
    for sample in response.samples:
        weight += len(sample.text)
        fixed = fixed and type(sample.tool_calls) is tuple
        if sample.tool_calls:
            weight += sum(len(call.arguments) for call in sample.tool_calls)
        if sample.reasoning is not None:
            weight += len(sample.reasoning)
        if sample.logprobs is not None:
            fixed = fixed and type(sample.logprobs) is tuple
            weight += _TOKEN * len(sample.logprobs)
    # It may have lists in place of tuples, which a backend could still change.
    return event if fixed else replace(event, response=deepcopy(response)), weight


def _held_result(event: ToolEnded) -> Held:
    if event.message is None:
        return _with_error(event, event.error), _WEIGHT
    return event, _WEIGHT + len(event.message.content)


def _failed(event: Failed) -> Held:
    from appl.tracing.format.recorded_errors import short_error

    return WithError(event, short_error(event.error)), _WEIGHT


def _held_observation(event: Observed) -> Held:
    value = event.value
    weight = _WEIGHT + (len(value) if isinstance(value, str | bytes) else 0)
    return replace(event, value=codec.plain(value)), weight


_HOLDS: dict[type, Callable[[Any], Held]] = {
    ScopeEntered: _scope,
    ScopeLeft: _left,
    CallStarted: lambda event: (
        event,
        _WEIGHT + (event.request.messages.size if event.request.messages is not None else 0),
    ),
    AttemptFailed: lambda event: (_with_error(event, event.error), _WEIGHT),
    CallEnded: _answered,
    ToolStarted: lambda event: (event, _WEIGHT + len(event.arguments)),
    ToolEnded: _held_result,
    Failed: _failed,
    Observed: _held_observation,
}
