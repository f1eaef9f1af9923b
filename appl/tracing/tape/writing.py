"""Writes a trace as a tape.

Invariant: two recordings with the same answers give the same lines, but for the order of what the
programs were told, unless all that differs from one to the next is asked for too.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import tempfile
from collections.abc import Iterable, Iterator
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any

from appl.prompt import Message, Messages, digest_of, tagged
from appl.prompt.message import LONG
from appl.tracing.format import record as records, table
from appl.tracing.format.recorded_errors import error_data, error_with
from appl.tracing.reading.tooluse import ToolUse
from appl.tracing.reading.trace import Observation, RecordedCall, Trace
from appl.tracing.tape.lines import FORMAT, Line, LongTexts, canonical_data, dumped, line_of
from appl.tracing.tape.places import after_their_needs

_FACTS = "program backend model models places profile seed redaction privacy sets timers".split()
_SETTINGS = "model backend temperature max_tokens top_p stop backend_options".split()
_WENT = "file line at".split()  # fields that differ from one recording to the next
_SAID_AGAIN = 64  # characters of a message from which on the one that it begins refers to it
_NAME = 10  # characters that parameters are named by
_STATUS = {"answered": records.ANSWERED, "failed": records.FAILED, "cancelled": records.CANCELLED}


def write(trace: Trace, *, full: bool = False) -> Iterator[str]:
    """The lines of the tape of *trace*, each with its end.

    With *full* it also tells how the run went: times, processes, source lines, attempts, scopes.
    """
    yield dumped({"tape": "appl", "format": FORMAT})
    for line in _Lines(trace, full).every():
        yield dumped(line)


def save(trace: Trace, path: str | os.PathLike[str], *, full: bool = False) -> None:
    """Write the tape of *trace* to *path*: all of it or, when something fails, nothing.

    Folders are made; several processes may write the same tape at once. Raises ``OSError``.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(".tmp", f".{target.name}.", target.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.writelines(write(trace, full=full))
        umask = os.umask(0)
        os.umask(umask)
        Path(name).chmod(0o666 & ~umask)  # a tape is to be committed: no file of one's own
        Path(name).replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise


class _Lines:
    """Makes the lines of *trace*; knows which messages, parameters and media stand in some."""

    def __init__(self, trace: Trace, full: bool) -> None:
        self._trace, self._full, self._texts = trace, full, LongTexts()
        self._said: dict[bytes, str] = {}  # the names of prompts by their digests
        self._last: dict[tuple[str, int], tuple[str, str, str]] = {}
        self._known: set[str] = set()
        self._shared: dict[tuple[type, type], list[str]] = {}  # names of fields that both have

    def every(self) -> Iterator[Line]:
        """All lines but the first."""
        trace = self._trace
        yield from self._header()
        for process in trace.incarnations if self._full else ():
            times = {"wall_ns": process.wall, "monotonic_ns": process.monotonic}
            yield from self._line(table.ProcessRecord, process, **times)
        for scope in trace.scopes if self._full else ():
            leaf = scope.address.removeprefix(f"{scope.parent}/" if scope.parent else "")
            about = self._texts.plain(scope.metadata)
            yield from self._line(table.ScopeRecord, scope, leaf=leaf, metadata=about)
        for event in self._events():
            yield from self._tool(event) if isinstance(event, ToolUse) else self._call(event)
        yield from self._order()
        for _, failure in sorted(trace.failures.items()):
            error = self._error(failure.error)
            yield from self._line(table.FailureRecord, failure, error=error)
        for end in trace.returns.values() if self._full else ():
            ended = {"scope": end.address, "error": self._error(end.error)}
            yield from self._line(table.ReturnRecord, end, **ended)
        for batch in trace.batches.values() if self._full else ():
            yield from self._line(table.BatchRecord, batch)
        for address, message in trace.warnings if self._full else ():
            yield from self._line(table.WarningRecord, address=address, message=message)
        if trace.state == "finished":
            yield from self._line(
                table.CloseRecord, reason=trace.reason, error=self._error(trace.error)
            )

    def _line(
        self, kind: table.Kind, value: Any = None, masked: Iterable[str] = (), /, **fields: object
    ) -> Iterator[Line]:
        """The line of a record, and those of its texts that have several lines.

        It has the *fields*, and those of *value* that have the names of others.
        """
        key = kind, type(value)
        if key not in self._shared:
            self._shared[key] = [name for name in kind._fields if hasattr(value, name)]
        own = {name: getattr(value, name) for name in self._shared[key]}
        line = line_of(kind, {**own, **fields}, () if self._full else _WENT)
        if masked:
            line["masked"] = sorted(set(masked))
        if self._full and getattr(value, "incarnation", None):
            line["incarnation"] = value.incarnation
        yield line
        yield from self._texts.below()

    def _header(self) -> Iterator[Line]:
        for name, value in sorted(self._trace.header.items()):
            if name == "settings" and isinstance(value, dict) and not self._full:
                value = {key: value[key] for key in _SETTINGS if value.get(key) is not None}
            if self._full or name in _FACTS or (name == "settings" and value):
                yield from self._line(table.HeaderRecord, facts={name: self._texts.plain(value)})

    def _events(self) -> Iterable[RecordedCall | ToolUse]:
        """The calls, also of tools, by address, each after those whose answers it holds.

        A full tape has them as they began.
        """
        calls, tools = self._trace.by_address, self._trace.tools
        if self._full:
            return sorted([*calls.values(), *tools.values()], key=attrgetter("position"))
        needs = {address: call.edges for address, call in calls.items()}
        order = after_their_needs({**dict.fromkeys(tools, ()), **needs})
        both = ((calls.get(address), tools.get(address)) for address in order)
        return (event for event in itertools.chain(*both) if event is not None)

    # -- calls

    def _call(self, call: RecordedCall) -> Iterator[Line]:
        if call.started is not None:
            yield from self._prompt(call)
            yield from self._parameters(call)
            yield from self._start(call)
        for one in call.attempts if self._full else ():
            about: Line = {"call": call.address, "attempt": one.number}
            waited = one.waited or None
            yield from self._line(table.DispatchRecord, **about, at=one.at, waited=waited)
            if one.error is not None:
                error = self._error(one.error)
                yield from self._line(table.RetryRecord, **about, error=error, wait=one.wait)
        if call.delivered is not None:
            yield from self._ended(call)

    def _parameters(self, call: RecordedCall) -> Iterator[Line]:
        name = _named(call)
        if self._is_new(name):
            options = canonical_data(call.sampling)
            yield from self._line(table.ParametersRecord, call, id=name, options=options)

    def _is_new(self, name: str) -> bool:
        is_present = name in self._known
        self._known.add(name)
        return not is_present

    def _start(self, call: RecordedCall) -> Iterator[Line]:
        prompt_digest = call.messages.digest if call.messages else b""
        same = digest_of(prompt_digest, call.model, call.sampling) == call.content
        yield from self._line(
            table.StartRecord,
            call,
            _masked(call),
            **_place(call),
            prompt=self._said.get(prompt_digest),
            parameters=_named(call),
            content=None if same else tagged(call.content),
        )

    def _prompt(self, call: RecordedCall) -> Iterator[Line]:
        """The messages of the prompt of *call* that were in no prompt before."""
        fresh: list[Messages] = []
        link = call.messages
        while link is not None and link.digest not in self._said:
            fresh.append(link)
            link = link.parent
        for link in reversed(fresh):
            yield from self._message(link, call.address)

    def _message(self, link: Messages, address: str) -> Iterator[Line]:
        message, name = link.message, f"{address}#{link.length}"
        place = address.rpartition("/")[0], link.length
        base, role, before = self._last.get(place, ("", "", ""))
        text = message.content
        goes_on = (
            role == message.role
            and not message.media
            and _SAID_AGAIN < len(before) < len(text)
            and text.startswith(before)
        )
        self._last[place] = name, message.role, text
        if goes_on:
            more, rest = self._more(message), self._texts.shortened(text[len(before) :])
            yield from self._line(table.LongerRecord, id=name, message=base, text=rest, more=more)
        else:
            yield from self._whole(name, message)
        long = goes_on and len(text) > LONG
        own = not long and Messages(link.parent, message.plain()).digest == link.digest
        digest = None if own else tagged(link.digest)
        parent = self._said[link.parent.digest] if link.parent else None
        self._said[link.digest] = name
        yield from self._line(table.PromptRecord, parent=parent, digest=digest)

    def _whole(self, name: str, message: Message) -> Iterator[Line]:
        for _, medium in message.media:
            digest = tagged(medium.digest)
            if self._is_new(digest):
                data = self._texts.shortened(b"" if medium.url is not None else medium.data)
                yield from self._line(table.MediumRecord, medium, id=digest, data=data)
        content, more = self._texts.shortened(message.content), self._more(message)
        yield from self._line(table.MessageRecord, message, id=name, content=content, more=more)

    def _more(self, message: Message) -> Line | None:
        """The fields of *message* besides role and text."""
        more = {
            "of": message.tool_call_id,
            "name": message.name,
            "error": message.has_error,
            "media": [[offset, tagged(medium.digest)] for offset, medium in message.media],
            "calls": records.calls_data(message.tool_calls, self._texts.shortened),
            "provided": message.provider_fields
            and records.provided_data(message.provider_fields, self._texts.shortened),
        }
        return {name: value for name, value in more.items() if value} or None

    def _error(self, error: BaseException | None) -> object:
        """As ``recorded_errors.error_data``; of one that was read, its recorded type."""
        if error is None:
            return None
        kind, *rest = error_data(error)
        error_fields = error.__dict__.get("recorded_type", kind), *rest
        return error_with(error_fields, self._texts.shortened)

    def _ended(self, event: RecordedCall | ToolUse) -> Iterator[Line]:
        if event.outcome is None:
            return
        end: Line = {"call": event.address, "status": _STATUS[event.outcome], "at": event.ended}
        if isinstance(event, RecordedCall):
            unstarted = event.masked if event.started is None else ()
            end |= self._outcome(event)
            yield from self._line(table.EndRecord, None, event.lost or unstarted, **end)
            return
        if event.message is not None:
            end["value"] = f"{event.address}#result"
            yield from self._whole(end["value"], event.message)
        else:
            end["value"] = self._error(event.error)
        yield from self._line(table.ToolEndRecord, None, event.lost, **end)

    def _outcome(self, call: RecordedCall) -> Line:
        shortened, response = self._texts.shortened, call.response
        facts = {"first": call.first, "source": call.source, "of": call.of} if self._full else {}
        return {
            "value": records.response_data(response, shortened)
            if response is not None
            else self._error(call.error),
            "lengths": [*call.cuts] or None,
            "texts": [[*key, shortened(text)] for key, text in (call.begun or {}).items()] or None,
            "about": {name: value for name, value in facts.items() if value is not None} or None,
        }

    def _tool(self, used: ToolUse) -> Iterator[Line]:
        place = {**_place(used), "arguments": self._texts.shortened(used.arguments)}
        yield from self._line(table.ToolStartRecord, used, _masked(used), **place)
        if used.delivered is not None:
            yield from self._ended(used)

    # -- the order of what the program was told

    def _order(self) -> Iterator[Line]:
        trace, positioned = self._trace, list[tuple[int, Iterator[Line]]]()
        silent: list[RecordedCall | ToolUse] = []
        for event in self._events():
            about: Line = {"call": event.address}
            if event.delivered is None:
                silent.append(event)
            else:
                line = self._line(table.DeliveryRecord, **about, at=event.delivered_at)
                positioned.append((event.delivered, line))
            for position, chunks in getattr(event, "shown", ()):
                positioned.append(
                    (position, self._line(table.ChunksRecord, **about, chunks=chunks))
                )
        positioned += [
            (observation.position, self._observation(observation))
            for observation in trace.observations
        ]
        for _, lines in sorted(positioned, key=itemgetter(0)):
            yield from lines
        for event in sorted(silent, key=attrgetter("end_position")):
            yield from self._ended(event)

    def _observation(self, observation: Observation) -> Iterator[Line]:
        value = self._texts.plain(observation.value)
        yield from self._line(table.ObservationRecord, observation, observation.masked, value=value)


def _named(call: RecordedCall) -> str:
    """The name of the parameters of *call*."""
    return digest_of(call.model, call.sampling).hex()[:_NAME]


def _place(event: RecordedCall | ToolUse) -> Line:
    scope, _, leaf = event.address.rpartition("/")
    return {"scope": scope, "leaf": leaf, "at": event.started}


def _masked(event: RecordedCall | ToolUse) -> tuple[str, ...]:
    """The names of secrets that were taken out of what stands before the outcome."""
    return event.masked[: len(event.masked) - len(event.lost)]
