"""Writes what happens in a run to its trace, as it happens.

Invariant: a record is encoded before it is queued, and all that it refers to is queued before it;
when something cannot be recorded, ``gate`` keeps the next call from being started.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import secrets
import sys
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from appl.backend import Request, Response, Sampling
from appl.errors import CallCancelled, TraceWriteError
from appl.prompt import (
    Media,
    Message,
    Messages,
    Origin,
    Rope,
    Spans,
    ToolCall,
    digest_of,
    joined,
    line_of,
)
from appl.runtime.event import (
    AttemptFailed,
    CallDispatched,
    CallEnded,
    CallStarted,
    ChunkArrived,
    ChunksDelivered,
    Delivered,
    Event,
    Observed,
    RunEnded,
    ScopeEntered,
    ToolEnded,
    ToolStarted,
    Warned,
)
from appl.tracing.format import chunks, codec, keys, record
from appl.tracing.format.allowance import unlimited
from appl.tracing.format.store import QUEUE_BYTES, Committed, Durability, Fault, Writer
from appl.tracing.recording.privacy import Mode, Redact, Veil
from appl.tracing.recording.secret import MASKED, Masker

if TYPE_CHECKING:
    from appl.tracing.reading.trace import Call, Trace

LONG_TEXT = 1 << 20
_SHORT_TEXT = 1 << 12
"""Characters up to which a text is known again by itself: to digest it takes five times as long."""
_MAX_EDGES = 100_000
_REMEMBERED, _REMEMBERED_TEXT = 1 << 16, 1 << 22
_NAMES_SHOWN = 5


def home() -> Path:
    """The folder ``.appl`` of the working directory, or what ``APPL_HOME`` says."""
    return Path(os.environ.get("APPL_HOME") or ".appl")


usual_home = home
"""The same, where a parameter has the name."""


def new_path(program: str, folder: Path | None = None) -> Path:
    """A name for a new trace: when it began, the program, and four random hexadecimal digits."""
    now = datetime.now(UTC)
    stamp = f"{now:%Y%m%dT%H%M%S}.{now.microsecond // 1000:03d}Z"
    word = re.sub(r"[^A-Za-z0-9_]+", "_", program).strip("_")[:40] or "run"
    runs = folder if folder is not None else home() / "runs"
    return runs / f"{stamp}-{word}-{secrets.token_hex(2)}.trace"


class _Memo:
    """What was written already, by key: bounded, and forgetting the least used half."""

    def __init__(self, limit: int = _REMEMBERED) -> None:
        self._limit = limit
        self.young: dict[Any, int] = {}
        self.old: dict[Any, int] = {}

    def get(self, key: Any) -> int | None:
        found = self.young.get(key)
        if found is None and self.old and (found := self.old.get(key)) is not None:
            self.put(key, found)
        return found

    def put(self, key: Any, number: int) -> None:
        if len(self.young) >= self._limit:
            self._forget()
        self.young[key] = number

    def learn(self, numbers: dict[Any, int]) -> None:
        if len(self.young) >= self._limit:
            self._forget()
        self.young.update(numbers)

    def _forget(self) -> None:
        self.old, self.young = self.young, {}


class _Said(_Memo):
    """The same of messages, by role and text, or by their digest: bounded in characters too."""

    _size, _most = 0, _REMEMBERED_TEXT

    def learn(self, numbers: dict[Any, int]) -> None:
        for key in numbers:
            self._size += len(key[-1])
        if self._size > self._most or len(self.young) >= self._limit:
            self._size = 0
            self._forget()
        self.young.update(numbers)


class _Ropes(weakref.WeakKeyDictionary[Rope, int]):
    """What was written of texts that go on, as long as somebody holds them."""

    put = weakref.WeakKeyDictionary.__setitem__


class _New:
    """What an event adds: records, and what is to be remembered of them once they are queued."""

    __slots__ = ("nodes", "others", "records", "said")

    def __init__(self) -> None:
        self.records: list[Any] = []
        self.nodes: dict[Any, int] = {}
        self.said: dict[Any, int] = {}
        self.others: list[tuple[_Memo | _Ropes, Any, int]] = []


class Sums:
    """The sums that the last record holds, so that listing runs need not read them whole."""

    def __init__(self) -> None:
        self.calls = self.answered = self.failed = self.cancelled = self.attempts_failed = 0
        self.tokens = {"prompt_tokens": 0, "completion_tokens": 0, "cached_tokens": 0}
        self.unknown = dict.fromkeys(self.tokens, 0)
        self.cost, self.cost_unknown, self.reused = 0, 0, 0
        self.recalled = self.saved = self.in_doubt = self.earlier_us = 0

    @classmethod
    def of(cls, trace: Trace) -> Sums:
        """The sums over what *trace* holds, for who goes on with it."""
        sums = cls()
        known = trace.totals().as_data()
        vars(sums).update({name: known[name] for name in vars(sums) if name in known})
        sums.earlier_us = round(trace.seconds() * 1e6)
        return sums

    def forget(self, call: Call) -> None:
        """*call* is begun again: what it took stays, how it ended does not count."""
        self.calls -= 1
        if call.outcome is not None:
            setattr(self, call.outcome, getattr(self, call.outcome) - 1)
        elif call.attempts:
            self.in_doubt += 1

    def recall(self, response: Response | None) -> None:
        """An answer, or a failure, of an earlier run."""
        self.recalled += 1
        self.answered += response is not None
        self.failed += response is None
        self.saved += (response.cost or 0) if response is not None else 0

    def add(self, response: Response) -> None:
        self.answered += 1
        self.reused += response.reused
        used = response.usage
        for name in self.tokens:
            count = getattr(used, name)
            if count is None:
                self.unknown[name] += 1
            else:
                self.tokens[name] += count
        if response.cost is None:
            self.cost_unknown += 1
        else:
            self.cost += response.cost

    def as_data(self) -> dict[str, Any]:
        return dict(vars(self))


class Recorder:
    """An instrument that writes a trace.

    *header* is plain data about the run. *secrets* are values to be masked besides those of the
    environment. *redact* sees each message before it is stored, answers too. *privacy* says what is
    stored of texts at all (see ``Veil``); the key of a private trace lies below *home*. When
    recording fails,
    the next call is refused, or with ``on_error="warn"`` the run goes on unrecorded.
    """

    def __init__(
        self,
        path: Path | None = None,
        header: Mapping[str, Any] | None = None,
        *,
        append: bool = False,
        reason: str = "run",
        durability: Durability = "system",
        on_error: Literal["stop", "warn"] = "stop",
        redact: Redact | None = None,
        privacy: Mode = "full",
        home: Path | None = None,
        secrets: Mapping[str, str] | Iterable[str] = (),
        notify: Callable[[str], None] | None = None,
        fault: Fault | None = None,
        limit: int = QUEUE_BYTES,
        writer: type[Writer] = Writer,
    ) -> None:
        header = dict(header or {})
        self.path = path or new_path(str(header.get("program", "run")))
        self._on_error, self._notify = on_error, notify or _complain
        self._masker = Masker(secrets)
        self._veil = self._veiled(append, privacy, home or usual_home(), redact)
        self._redact = redact if self._veil is None else None
        self._whole = redact is not None or self._veil is not None
        self._writer = writer(
            self.path, append=append, durability=durability, filter=self._filter,
            fault=fault, limit=limit,
        )  # fmt: skip
        self.torn = self._writer.torn
        self._error: TraceWriteError | None = None
        self._off = self._closed = self._told = False
        self._began = time.monotonic_ns()
        self._ids = itertools.count(1)
        self._texts, self._messages, self._nodes = _Memo(), _Said(), _Memo()
        self._media, self._ropes = _Memo(), _Ropes()
        self._sites: dict[tuple[int, int], tuple[Any, int]] = {}
        self._firsts: dict[str, int] = {}
        self._lines: dict[tuple[str, int], int] = {}
        self._params, self._scopes, self._calls = _Memo(), _Memo(), _Memo(1 << 17)
        self._last_params: tuple[Sampling | None, str, int] = (None, "", 0)
        self._totals = Sums()
        self._ended: RunEnded | None = None
        self._handlers: dict[type, Callable[[Any], None]] = {
            ScopeEntered: self._scope,
            CallStarted: self._started,
            CallDispatched: self._dispatched,
            AttemptFailed: self._attempt_failed,
            ChunkArrived: self._arrived,
            ChunksDelivered: self._chunks_delivered,
            CallEnded: self._call_ended,
            Delivered: self._delivered,
            ToolStarted: self._tool_started,
            ToolEnded: self._tool_ended,
            Observed: self._observed,
            Warned: self._warned,
            RunEnded: self._run_ended,
        }
        try:
            self._open(header, append, reason)
        except BaseException:
            with contextlib.suppress(TraceWriteError):
                self._writer.close()
            raise

    def _veiled(
        self, append: bool, privacy: Mode, home: Path, redact: Redact | None
    ) -> Veil | None:
        """What makes the trace private; a trace that goes on stays what it is."""
        if not append:
            return None if privacy == "full" else Veil(privacy, keys.make(home), redact)
        head = keys.first_record(self.path) or {}
        if "privacy" not in head:
            return None
        name = keys.identity_in(head)
        key = keys.find(home, name) if name is not None else None
        if name is None or key is None:
            raise TraceWriteError(
                f"{self.path} is private, and its key {name or ''} is not in {home / keys.FOLDER}; "
                "without it nothing can be added"
            )
        return Veil(head["privacy"]["mode"], key, redact)

    def _filter(self, items: list[bytes]) -> list[bytes]:
        """The records of a group as they are written."""
        items = self._masker.filter(items)
        return items if self._veil is None else self._veil.filter(items)

    def _open(self, header: dict[str, Any], append: bool, reason: str) -> None:
        first = b"" if append else codec.pack(("H", codec.plain(self._header(header))))
        wall = time.time_ns()
        beginning = (
            "I",
            self._writer.blocks,
            os.getpid(),
            os.uname().nodename,
            reason,
            wall,
            self._began,
        )
        self._writer.append(first + codec.pack(beginning))
        self._writer.barrier()

    def _header(self, header: dict[str, Any]) -> dict[str, Any]:
        redaction, entry = "hook" if self._redact else "full", header.get("entry")
        if self._redact and isinstance(entry, dict) and entry.get("argv"):
            words = [self._redacted(Message("user", str(w)), []).content for w in entry["argv"]]
            header = {**header, "entry": {**entry, "argv": words}}
        private = {} if self._veil is None else {"privacy": self._veil.about()}
        return {"format": record.FORMAT, **header, "redaction": redaction, **private}

    # -- what the run uses -----------------------------------------------------------------

    def on_event(self, event: Event) -> None:
        """Encode *event* and queue it; never blocks and never raises."""
        if self._off or self._closed:
            return
        try:
            self._handlers[type(event)](event)
        except Exception as error:
            self._error = TraceWriteError(
                f"{type(event).__name__} cannot be recorded to {self.path}: {error}; "
                "no further call is started"
            )

    def gate(self) -> None:
        """Let the next call start, or wait for room in the queue, or raise ``TraceWriteError``."""
        writer = self._writer
        if writer.failed or self._error or writer.forked or writer.pending > writer.limit:
            self._checked(writer.wait_for_room)

    def conceal(self, secrets: Mapping[str, str]) -> None:
        """Take *secrets*, by name, out of what is written from now on."""
        self._masker.add(secrets)

    @property
    def masker(self) -> Masker:
        """What takes the secrets out of the trace."""
        return self._masker

    def barrier(self, timeout: float | None = None) -> None:
        """Return when all that happened so far is written. Raises ``TraceWriteError``."""
        self._checked(lambda: self._writer.barrier(timeout))

    def on_commit(self, done: Committed) -> None:
        """Call *done* on the writer thread when all that happened so far is written."""
        self._writer.on_commit(done)

    def close(self, reason: str | None = None) -> None:
        """Write what is left and the closing record. Raises ``TraceWriteError``."""
        if self._closed or self._writer.forked:
            return
        ended = self._ended
        error = ended.error if ended else None
        said = None if error is None else record.error_data(error)
        why = reason or (ended.reason if ended else "finished")
        now = (time.monotonic_ns() - self._began) // 1000
        self._writer.append(codec.pack(("Z", why, said, now, self._totals.as_data())))
        self._closed = True
        try:
            self._writer.close()
        except TraceWriteError as error:
            self._error = self._error or error
        self._checked(lambda: None)

    def leave(self) -> None:
        """Let go of the file as it is, without a closing record."""
        self._closed = True
        self._writer.close()

    def _checked(self, action: Callable[[], None]) -> None:
        """Do *action*; an error of recording stops the run, or is told once, as the user chose."""
        try:
            if self._error is not None and not self._writer.forked:
                raise self._error
            if not self._off:
                action()
        except TraceWriteError as error:
            self._off = self._on_error == "warn"
            message = str(error) + self._unsaved()
            if not self._off:
                raise TraceWriteError(message) from error
            if not self._told:
                self._told = True
                self._notify(f"appl: {message}; the run goes on unrecorded")

    def _unsaved(self) -> str:
        """What is lost when the process ends now, in words."""
        records = [r for item in self._writer.unsaved() for r in codec.unpack(item, unlimited())]
        answers = [
            r for r in (_inner(r) for r in records) if r[0] == "E" and r[2] == record.ANSWERED
        ]
        if not answers:
            return f"; {len(records)} records are not saved" if records else ""
        known = {number: address for address, number in self._calls_by_address()}
        names = [known.get(r[1], r[1]) for r in answers[:_NAMES_SHOWN]]
        more = ", …" if len(answers) > _NAMES_SHOWN else ""
        return f"; not saved: {len(answers)} answers ({', '.join(map(str, names))}{more})"

    def _calls_by_address(self) -> list[tuple[str, int]]:
        return [*self._calls.old.items(), *self._calls.young.items()]

    # -- one method per event --------------------------------------------------------------

    def _put(self, *fields: Any) -> None:
        self._writer.append(codec.pack(fields))

    def _at(self, nanoseconds: int) -> int:
        return (nanoseconds - self._began) // 1000

    def _call(self, address: str) -> int | str:
        calls = self._calls
        return calls.young.get(address) or calls.get(address) or address

    def _scope(self, event: ScopeEntered) -> None:
        number = next(self._ids)
        parent: int | str = self._scopes.get(event.parent) or event.parent
        name = event.address.rpartition("/")[2] if event.parent else event.address
        if f"{event.parent}/{name}" != event.address:
            parent, name = "", event.address
        file = self._file(event.file)
        at = self._at(event.at)
        masks = list[str]()
        about = self._about(event, masks) if event.metadata else ()
        fields = ("X", number, parent, name, event.name, file, event.line, at, *about)
        self._writer.append(_packed(fields, masks))
        self._scopes.put(event.address, number)

    def _about(self, event: ScopeEntered, masks: list[str]) -> tuple[Any, ...]:
        try:
            return (codec.plain(event.metadata, lambda text: self._long(text, masks)),)
        except (TypeError, ValueError):  # not plain data: it was only meant to be looked at
            return (self._long(repr(event.metadata), masks),)

    def _file(self, file: str | None) -> int | None:
        """The number of *file*, which is queued before anybody can find it: threads share it."""
        if file is None:
            return None
        number = self._texts.get(file)
        if number is None:
            number = next(self._ids)
            self._put("T", number, file)
            self._texts.put(file, number)
        return number

    def _started(self, event: CallStarted) -> None:
        request, new = event.request, _New()
        prompt = self._prompt(request.messages, new)
        params = self._parameters(request, new)
        file = self._file(event.file)
        scope, _, name = request.address.rpartition("/")
        edges = [self._call(address) for address in event.edges[:_MAX_EDGES]] if event.edges else ()
        number = next(self._ids)
        new.records.append((
            "S", number, self._scopes.get(scope) or scope, name, request.ordinal, event.kind,
            prompt, params, request.n, request.sample, request.digest, edges, file, event.line,
            self._at(event.at), request.timeout,
        ))  # fmt: skip
        self._queue(new)
        self._calls.put(request.address, number)
        self._totals.calls += 1

    def _queue(self, new: _New) -> None:
        """Queue what is *new*, and remember it only then: another thread may refer to it."""
        self._writer.append(codec.pack_all(new.records))
        if new.nodes:
            self._nodes.learn(new.nodes)
        if new.said:
            self._messages.learn(new.said)
        for memo, key, number in new.others:
            memo.put(key, number)

    def _prompt(self, chain: Messages | None, new: _New) -> int | None:
        """The number of *chain*, which may be *new*."""
        fresh: list[tuple[Messages, tuple[bytes, int]]] = []
        link, number = chain, None
        while link is not None:
            key = link.digest, link.trail
            if (number := self._nodes.get(key)) is not None:
                break
            fresh.append((link, key))
            link = link.parent
        for link, key in reversed(fresh):
            message, of = self._said(link, new)
            parent, number = number, next(self._ids)
            new.records.append(("N", number, parent, message, key[0], *of))
            new.nodes[key] = number
        return number

    def _said(self, link: Messages, new: _New) -> tuple[int, tuple[Any, ...]]:
        """The number of the last message of *link*, and its origins where it does not tell them."""
        if link.is_roped:
            said = self._message(link.message, new) if self._whole else self._longer(link, new)
            return said, ()
        spans = link.spans
        return self._message(link.message, new), self._origins(spans) if spans else ()

    def _longer(self, link: Messages, new: _New) -> int:
        """The number of a message that goes on, of which only what was added is stored."""
        rope, later = link.rope, list[Rope]()
        while rope.base is not None and rope not in self._ropes:
            later.append(rope)
            rope = rope.base
        later.reverse()
        added = "".join(each.added for each in later)
        if self._straddles(rope, added):
            return self._message(link.message, new)
        base = self._ropes.get(rope)
        if base is None:
            first = Message(link.outline.role, str(rope), name=link.outline.name)
            base = self._message(first, new)
            new.others.append((self._ropes, rope, base))
            later.insert(0, rope)  # of the message that goes on, the origins are told here
        masks = list[str]()
        more = self._more(link.outline, masks) if not link.outline.bare else {}
        for origins in self._origins(joined((len(r.added), r.spans) for r in later)):
            more["from"] = origins
        number, stored = next(self._ids), self._long(added, masks)
        fields = ("L", number, base, stored, more) if more else ("L", number, base, stored)
        new.records.append(_masked(fields, masks))
        new.others.append((self._ropes, link.rope, number))
        return number

    def _origins(self, spans: Spans) -> tuple[list[Any], ...]:
        """What the records say of *spans*: lengths and numbers in turn, or nothing."""
        if len(spans) == 2:
            one = self._origin(spans[1])
            return () if one is None else ([spans[0], one],)
        found: list[Any] = []
        for length, origin in zip(spans[::2], spans[1::2], strict=True):
            number = self._origin(origin)
            if found and found[-1] == number:
                found[-2] += length
            else:
                found += (length, number)
        return (found,) if len(found) > 2 or (found and found[1] is not None) else ()

    def _origin(self, origin: Origin) -> int | str | None:
        if not isinstance(origin, tuple):
            return self._call(origin) if origin is not None else None
        key = (id(origin[0]), origin[1])
        known = self._sites.get(key)
        if known is None:
            file, line = line_of(origin) or ("", 0)
            known = origin[0], self._line(file, line)  # held, so that its id stays its own
            self._sites[key] = known
        return known[1]

    def _line(self, file: str, line: int) -> int:
        number = self._lines.get((file, line))
        if number is None:
            of = self._file(file)
            number = next(self._ids)
            self._put("U", number, of, line)
            self._lines[file, line] = number
        return number

    def _straddles(self, rope: Rope, added: str) -> bool:
        """Whether a secret begins in *rope* and ends in *added*: no record alone would show it."""
        longest = self._masker.longest
        seam = rope.tail(longest) + added[:longest]
        return bool(longest) and self._masker.finds(seam.encode("utf-8", "surrogatepass"))

    def _message(self, message: Message, new: _New) -> int:
        role, content = message.role, message.content
        short = len(content) <= _SHORT_TEXT and message.bare
        key: Any = (role, content) if short else (digest_of(*message.fields()),)
        number = self._messages.get(key)
        if number is None:
            number = new.said[key] = next(self._ids)
            if short and self._redact is None:
                new.records.append(("M", number, role, content))
            else:
                new.records.append(self._unusual(number, message))
        return number

    def _unusual(self, number: int, message: Message) -> tuple[Any, ...]:
        """The record of a *message* that is long, has more than a text, or is redacted."""
        masks = list[str]()
        shown = self._redacted(message, masks)
        more = [self._more(shown, masks)] if not shown.bare else ()
        stored = self._long(shown.content, masks)
        return _masked(("M", number, message.role, stored, *more), masks)

    def _more(self, message: Message, masks: list[str]) -> dict[str, Any]:
        """What a message has besides role and text."""
        found: dict[str, Any] = {}
        if message.media:
            found["media"] = [(offset, self._medium(medium)) for offset, medium in message.media]
        if message.tool_calls:
            calls = message.tool_calls
            found["calls"] = record.calls_data(calls, lambda text: self._long(text, masks))
        for key, value in (
            ("of", message.tool_call_id), ("name", message.name), ("error", message.has_error),
        ):  # fmt: skip
            if value:
                found[key] = value
        return found

    def _medium(self, medium: Media) -> int:
        """The number of an image or a sound, which is written once however often it is said."""
        number = self._media.get(medium.digest)
        if number is None:
            masks = list[str]()
            data = self._long(medium.data, masks)
            number = next(self._ids)
            fields = ("G", number, medium.kind, medium.url, data, medium.mime, medium.detail)
            self._writer.append(_packed(fields, masks))
            self._media.put(medium.digest, number)
        return number

    def _redacted(self, message: Message, masks: list[str]) -> Message:
        if self._redact is None:
            return message
        try:
            shown = self._redact(message)
            record.checked(str, shown.content)
        except Exception as error:
            shown = Message(message.role, f"[redaction failed: {type(error).__name__}]")
        if shown.fields() != message.fields():
            masks.append("redact")
        return shown

    def _long(self, text: str | bytes, masks: list[str]) -> Any:
        """*text*, or what stands for it when it is long: then it is written in pieces before."""
        if len(text) <= LONG_TEXT:
            return text
        is_text = isinstance(text, str)
        if isinstance(text, str):
            data = self._masker.text(text, masks).encode("utf-8", "surrogatepass")
        else:
            data = self._masker._clean_bytes(text, masks)
        number = next(self._ids)
        for index, start in enumerate(range(0, len(data), LONG_TEXT)):
            self._put("B", number, index, data[start : start + LONG_TEXT])
        return {"$blob": [number, len(data), is_text]}

    def _parameters(self, request: Request, new: _New) -> int:
        if self._last_params[0] is request.sampling and self._last_params[1] == request.model:
            return self._last_params[2]
        key = (request.model, request.sampling.canonical())
        number = self._params.get(key)
        if number is not None:
            self._last_params = (request.sampling, request.model, number)
        else:
            number, masks = next(self._ids), list[str]()
            stored = self._long(key[1], masks)
            new.records.append(_masked(("P", number, request.model, stored), masks))
            new.others.append((self._params, key, number))
        return number

    def _dispatched(self, event: CallDispatched) -> None:
        more = self._waited(event.waited) if event.waited else ()
        self._put("D", self._call(event.address), event.attempt, self._at(event.at), *more)

    def _waited(self, nanoseconds: Mapping[str, int]) -> tuple[dict[str, int], ...]:
        waited = {why: took // 1000 for why, took in nanoseconds.items() if took >= 1000}
        return (waited,) if waited else ()

    def _attempt_failed(self, event: AttemptFailed) -> None:
        masks = list[str]()
        error = record.error_data(event.error, lambda text: self._long(text, masks))
        at = self._at(event.at)
        wait = round(event.wait_s * 1e6)
        fields = ("A", self._call(event.address), event.attempt, error, at, wait)
        self._writer.append(_packed(fields, masks))
        self._totals.attempts_failed += 1

    def _call_ended(self, event: CallEnded) -> None:
        response = event.response
        if response is None or self._redact is not None or not _is_short(response):
            self._ended_otherwise(event)
            return
        self._count(event, response)
        data = record.response_data(response)
        later = (chunks.lengths(event.chunks),) if event.chunks else ()
        if self._firsts or event.source is not None:
            later = (*later, *self._about_end(event))
        self._put("E", self._call(event.address), record.ANSWERED, data, self._at(event.at), *later)

    def _ended_otherwise(self, event: CallEnded) -> None:
        masks = list[str]()
        status, value = self._outcome(event, masks)
        later = self._stream(event, masks) if event.chunks else ()
        later = (*later, *self._about_end(event))
        fields = ("E", self._call(event.address), status, value, self._at(event.at), *later)
        self._writer.append(_packed(fields, masks))

    def _arrived(self, event: ChunkArrived) -> None:
        """The chunks of a call are written when it has ended: they may yet be a secret."""
        self._firsts.setdefault(event.address, event.at)

    def _about_end(self, event: CallEnded) -> tuple[dict[str, Any], ...]:
        """What else there is to say about a call that ended."""
        about: dict[str, Any] = {}
        first = self._firsts.pop(event.address, None)
        if first is not None:
            about["first"] = self._at(first)
        if event.source is not None:
            about |= {"source": event.source.kind, "of": event.source.of}
        return (about,) if about else ()

    def _count(self, event: CallEnded, response: Response) -> None:
        if event.source is None:
            self._totals.add(response)
        else:
            self._totals.recall(response)

    def _stream(self, event: CallEnded, masks: list[str]) -> tuple[Any, ...]:
        """The chunks of an answer; what they said is kept where there is no answer."""
        if event.response is not None:
            return (chunks.lengths(event.chunks),)
        said = [
            (sample, kind, self._answer(text, masks))
            for (sample, kind), text in chunks.texts(event.chunks).items()
        ]
        return chunks.lengths(event.chunks), said

    def _chunks_delivered(self, event: ChunksDelivered) -> None:
        self._put("C", self._call(event.address), event.count, self._at(event.at))

    def _outcome(self, event: CallEnded, masks: list[str]) -> tuple[int, Any]:
        if event.response is not None:
            self._count(event, event.response)
            data = record.response_data(event.response, lambda text: self._answer(text, masks))
            if masks and self._redact is not None:
                untold = [(text, reason, None, *more) for text, reason, _, *more in data[0]]
                data = (untold, *data[1:])
            return record.ANSWERED, data
        error = event.error or CallCancelled("cancelled")
        value = record.error_data(error, lambda text: self._long(text, masks))
        if isinstance(error, CallCancelled):
            self._totals.cancelled += 1
            # from outside: the program does not cancel it again in a replay, but hears of it again
            return (record.FAILED if error.outside else record.CANCELLED), value
        if event.source is not None:
            self._totals.recall(None)
        else:
            self._totals.failed += 1
        return record.FAILED, value

    def _answer(self, text: str | bytes, masks: list[str]) -> Any:
        assert isinstance(text, str)
        return self._long(self._redacted(Message("assistant", text), masks).content, masks)

    def _delivered(self, event: Delivered) -> None:
        self._put("V", self._call(event.address), self._at(event.at))

    def _tool_started(self, event: ToolStarted) -> None:
        masks = list[str]()
        scope, _, leaf = event.address.rpartition("/")
        file, number = self._file(event.file), next(self._ids)
        arguments = self._long(self._arguments(event, masks), masks)
        fields = (
            "F", number, self._scopes.get(scope) or scope, leaf, event.name, arguments,
            event.effect, file, event.line, self._at(event.at),
        )  # fmt: skip
        self._writer.append(_packed(fields, masks))
        self._calls.put(event.address, number)

    def _arguments(self, event: ToolStarted, masks: list[str]) -> str:
        """The arguments as they may be stored: part of what the model said."""
        call = ToolCall("", event.name, event.arguments)
        shown = self._redacted(Message("assistant", "", tool_calls=(call,)), masks)
        return shown.tool_calls[0].arguments if shown.tool_calls else shown.content

    def _tool_ended(self, event: ToolEnded) -> None:
        new, masks = _New(), list[str]()
        value: Any
        if event.message is not None:
            status, value = record.ANSWERED, self._message(event.message, new)
        else:
            error = event.error or CallCancelled("cancelled")
            cancelled = isinstance(error, CallCancelled)
            status = record.CANCELLED if cancelled else record.FAILED
            value = record.error_data(error, lambda text: self._long(text, masks))
        fields = ("R", self._call(event.address), status, value, self._at(event.at))
        new.records.append(_masked(fields, masks))
        self._queue(new)

    def _observed(self, event: Observed) -> None:
        masks = list[str]()
        value = codec.plain(event.value, lambda text: self._long(text, masks))
        fields = ("O", event.address, event.ordinal, event.kind, value, self._at(event.at))
        self._writer.append(_packed(fields, masks))

    def _warned(self, event: Warned) -> None:
        self._put("W", event.address, event.message, self._at(event.at))

    def _run_ended(self, event: RunEnded) -> None:
        self._ended = event


def _is_short(response: Response) -> bool:
    if len(response.samples) != 1:
        return False
    sample = response.samples[0]
    size = len(sample.text)
    if sample.tool_calls:
        size += sum(len(call.arguments) for call in sample.tool_calls)
    return size + len(sample.reasoning or "") <= LONG_TEXT


def _masked(fields: tuple[Any, ...], masks: list[str]) -> tuple[Any, ...]:
    return (MASKED, sorted(set(masks)), fields) if masks else fields


def _packed(fields: tuple[Any, ...], masks: list[str]) -> bytes:
    return codec.pack(_masked(fields, masks))


def _inner(fields: Any) -> Any:
    return fields[2] if fields[0] == MASKED else fields


def _complain(message: str) -> None:
    print(message, file=sys.stderr)
