"""A trace as the lines of a tape.

Invariant: what was asked and answered comes first, in the order of the addresses, so that two
recordings of one program with the same answers agree there line by line; only the order in which
answers reached the program, which a program may depend on, follows from one recording alone.
"""

from __future__ import annotations

import base64
import contextlib
import os
import tempfile
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any

from appl.backend import Response, Sample
from appl.prompt import Media, Message, Messages, ToolCall, digest_of, tagged
from appl.prompt.messages import LONG
from appl.tracing.format import record as records
from appl.tracing.reading.tooluse import ToolUse
from appl.tracing.reading.trace import RecordedCall, Trace
from appl.tracing.tape.lines import FORMAT, Record, canonical_data, dumped, plain
from appl.tracing.tape.places import in_order

_FACTS = frozenset(
    [
        "program",
        "backend",
        "model",
        "models",
        "places",
        "profile",
        "seed",
        "redaction",
        "privacy",
        "sets",
    ]
)
_SETTINGS = ("model", "backend", "temperature", "max_tokens")
_SHORT = 200  # characters of options that are written again rather than referred to
_SAID_AGAIN = 64  # and of a message


def write(trace: Trace, *, full: bool = False) -> Iterator[str]:
    """The lines of the tape of *trace*, each with its end.

    With *full* it also tells how the run went: times, processes, source lines, attempts, scopes.
    """
    for record in _records(trace, full):
        yield dumped(record)


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


def _records(trace: Trace, full: bool) -> Iterator[Record]:
    yield {"tape": "appl", "format": FORMAT}
    yield from _header(trace, full)
    yield from _Content(trace).records()
    yield from _order(trace)
    if trace.state == "finished":
        because = {"because": _error(trace.error)} if trace.error is not None else {}
        yield {"closed": trace.reason, **because}
    if full:
        yield from _how_it_went(trace)


def _header(trace: Trace, full: bool) -> Iterator[Record]:
    for name, value in sorted(trace.header.items()):
        if full or name in _FACTS:
            yield {"header": name, "value": plain(value)}
        elif name == "settings" and isinstance(value, dict):
            told = {key: value[key] for key in _SETTINGS if value.get(key) is not None}
            if told:
                yield {"header": name, "value": plain(told)}


class _Content:
    """The records of calls, tools and observations by address; knows all written messages."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._said: dict[bytes, tuple[str, int]] = {}  # who said it, the how-manieth message of it
        self._options: dict[str, str] = {}
        self._last: dict[tuple[str, int], tuple[str, str, str]] = {}
        self._media: dict[bytes, Media] = {}

    def records(self) -> Iterator[Record]:
        trace, seen = self._trace, dict[str, list[Record]]()
        for observation in trace.observations:
            record = {
                "saw": observation.address,
                "kind": observation.kind,
                "ordinal": observation.ordinal,
            }
            record |= {"value": plain(observation.value), **_masked(observation.masked)}
            seen.setdefault(observation.address, []).append(record)
        for address in in_order({*trace.by_address, *trace.tools, *seen}):
            if address in trace.by_address:
                yield from self._call(trace.by_address[address])
            if address in trace.tools:
                yield from self._tool(trace.tools[address])
            yield from sorted(seen.get(address, ()), key=lambda r: (r["ordinal"], r["kind"]))
        for digest, medium in sorted(self._media.items()):
            yield _medium(digest, medium)

    # -- calls

    def _call(self, call: RecordedCall) -> Iterator[Record]:
        if call.started is None:
            yield {"call": call.address, "unstarted": True, **_masked(call.masked), **_whole(call)}
        else:
            yield from self._asked(call)
        yield from self._ended(call)

    def _asked(self, call: RecordedCall) -> Iterator[Record]:
        shared, messages = self._prompt(call)
        head: Record = {"call": call.address, "kind": call.kind, "model": call.model}
        head |= {"ordinal": call.ordinal, **self._sampling(call), **shared, **_masked(call.masked)}
        head |= _whole(call)
        for name, value, usual in (
            ("n", call.n, 1),
            ("sample", call.sample, 0),
            ("uses", list(call.edges), []),
            ("timeout", call.timeout, None),
        ):
            if value != usual:
                head[name] = plain(value)
        said = call.messages.digest if call.messages else b""
        if digest_of(said, call.model, call.sampling) != call.content:
            head["content"] = tagged(call.content)
        yield head
        for record in messages:
            yield from record

    def _sampling(self, call: RecordedCall) -> Record:
        known = self._options.get(call.sampling)
        if known is not None:
            return {"options_of": known}
        if len(call.sampling) > _SHORT:
            self._options[call.sampling] = call.address
        return {"options": canonical_data(call.sampling)}

    def _prompt(self, call: RecordedCall) -> tuple[Record, list[list[Record]]]:
        """The shared beginning of the prompt of *call*, and its unwritten messages."""
        fresh: list[Messages] = []
        link = call.messages
        while link is not None and link.digest not in self._said:
            fresh.append(link)
            link = link.parent
        shared: Record = {}
        if link is not None:
            owner, count = self._said[link.digest]
            whole = self._trace.by_address[owner].messages
            shared = {"after": owner}
            if whole is not None and whole.length != count:
                shared["first"] = count
        messages = [self._message(message, call.address) for message in reversed(fresh)]
        return shared, messages

    def _message(self, link: Messages, address: str) -> list[Record]:
        message, place = link.message, (address.rpartition("/")[0], link.length)
        record: Record = {"message": message.role}
        text, before = message.content, self._last.get(place, ("", "", ""))
        goes_on = (
            before[1] == message.role
            and not message.media
            and _SAID_AGAIN < len(before[2]) < len(text)
            and text.startswith(before[2])
        )
        if goes_on:
            record["goes_on"], text = before[0], text[len(before[2]) :]
        long = goes_on and len(message.content) > LONG
        if long or Messages(link.parent, message.plain()).digest != link.digest:
            record["digest"] = tagged(link.digest)
        record |= self._about(message)
        self._said[link.digest] = address, link.length
        self._last[place] = address, message.role, message.content
        return [*_texts(record, text), *_calls(message.tool_calls)]

    def _about(self, message: Message) -> Record:
        """The fields of *message* besides role, text and calls."""
        for _, medium in message.media:
            self._media[medium.digest] = medium
        placed = [[offset, tagged(medium.digest)] for offset, medium in message.media]
        named = (
            ("name", message.name),
            ("reply_to", message.tool_call_id),
            ("failed", message.has_error),
            ("media", placed),
        )
        return {name: value for name, value in named if value}

    def _ended(self, call: RecordedCall) -> Iterator[Record]:
        response = call.response
        if response is not None:
            for sample in response.samples:
                yield from _sample(sample)
            yield _answer(response) | _cuts(call)
        elif call.error is not None:
            for (number, kind), text in (call.begun or {}).items():
                yield from _texts({"begun": [number, kind]}, text)
            yield {"error": _error(call.error), "outcome": call.outcome, **_cuts(call)}

    # -- tools

    def _tool(self, used: ToolUse) -> Iterator[Record]:
        yield {
            "tool": used.address,
            "name": used.name,
            "arguments": used.arguments,
            "effect": used.effect,
            **_masked(used.masked),
            **_whole(used),
        }
        if used.message is not None:
            message = used.message
            record: Record = {"message": message.role, **self._about(message)}
            yield from _texts(record, message.content)
            yield from _calls(message.tool_calls)
        elif used.error is not None:
            yield {"error": _error(used.error), "outcome": used.outcome}


def _masked(names: tuple[str, ...]) -> Record:
    return {"masked": sorted(set(names))} if names else {}


def _whole(call: RecordedCall | ToolUse) -> Record:
    """The mark of a masked call whose outcome is unchanged."""
    return {"outcome_whole": True} if call.masked and not call.lost else {}


def _texts(record: Record, text: str) -> Iterator[Record]:
    """*record* with the first line of *text*, and a record for each further line."""
    first, *rest = text.split("\n")
    yield {**record, "text": first + ("\n" if rest else "")}
    for number, line in enumerate(rest, 1):
        last = number == len(rest)
        if not last or line:
            yield {"text": line if last else f"{line}\n"}


def _calls(calls: tuple[ToolCall, ...]) -> Iterator[Record]:
    for call in calls:
        yield {"calls": call.name, "arguments": call.arguments, "id": call.id}


def _sample(sample: Sample) -> Iterator[Record]:
    yield from _texts({"answer": sample.finish_reason}, sample.text)
    yield from _calls(sample.tool_calls)
    if sample.reasoning is not None:
        yield from _texts({"reasoning": True}, sample.reasoning)
    if sample.logprobs is not None:
        yield {
            "tokens": plain([[t.token, t.logprob, list(map(list, t.top))] for t in sample.logprobs])
        }


def _answer(response: Response) -> Record:
    used = response.usage
    record: Record = {"usage": [used.prompt_tokens, used.completion_tokens, used.cached_tokens]}
    for name, value in (
        ("by", response.model),
        ("choice_method", response.choice_method),
        ("scores", response.scores and list(response.scores)),
        ("reused", response.reused),
    ):
        if value:
            record[name] = plain(value)
    if response.cost is not None:
        record["cost"] = response.cost
    return record


def _cuts(call: RecordedCall) -> Record:
    return (
        {"chunks": [cut if type(cut) is int else list(cut) for cut in call.cuts]}
        if call.cuts
        else {}
    )


def _error(error: BaseException) -> object:
    """As ``record.error_data``; of one that was read, its recorded type."""
    kind, *rest = records.error_data(error)
    said = [note for note in getattr(error, "__notes__", ()) if note.startswith(_RECORDED_AS)]
    return plain([said[0].removeprefix(_RECORDED_AS) if said else kind, *rest])


_RECORDED_AS = "recorded as "


def _medium(digest: bytes, medium: Media) -> Record:
    record: Record = {"medium": tagged(digest), "sort": medium.kind, "mime": medium.mime}
    if medium.detail is not None:
        record["detail"] = medium.detail
    if medium.url is not None:
        return record | {"url": medium.url}
    return record | {"base64": base64.b64encode(medium.data).decode("ascii")}


# -- the order of what the program was told


def _order(trace: Trace) -> Iterator[Record]:
    moments: list[tuple[int, Record]] = []
    silent: list[tuple[int, Record]] = []
    every: list[RecordedCall | ToolUse] = [*trace.by_address.values(), *trace.tools.values()]
    for event in every:
        if event.delivered is not None:
            moments.append((event.delivered, {"then": event.address}))
        elif event.ended is not None or event.outcome is not None:
            silent.append((event.end_position, {"ended": event.address}))
        if isinstance(event, RecordedCall):
            moments += [(at, {"then": event.address, "chunks": count}) for at, count in event.shown]
    for seen in trace.observations:
        record = {"then": seen.address, "seen": seen.kind, "ordinal": seen.ordinal}
        moments.append((seen.position, record))
    for _, record in (*sorted(moments, key=itemgetter(0)), *sorted(silent, key=itemgetter(0))):
        yield record


# -- how it went


def _how_it_went(trace: Trace) -> Iterator[Record]:
    for incarnation in trace.incarnations:
        began = {
            name: getattr(incarnation, name) for name in incarnation.__slots__ if name != "number"
        }
        yield {"began": incarnation.number, **began}
    for scope in trace.scopes:
        about: Record = {"incarnation": scope.incarnation} if scope.incarnation else {}
        about |= {"metadata": plain(scope.metadata)} if scope.metadata is not None else {}
        yield {
            "scope": scope.address,
            "parent": scope.parent,
            "name": scope.name,
            "file": scope.file,
            "line": scope.line,
            "at": scope.at,
            **about,
        }
    every: list[RecordedCall | ToolUse] = [*trace.calls, *trace.tools.values()]
    for call in sorted(every, key=lambda event: event.position):
        went: Record = {"file": call.file, "line": call.line}
        went |= {"started_us": call.started, "ended_us": call.ended}
        went |= {"told_us": call.delivered_at} if call.delivered_at is not None else {}
        went |= {"incarnation": call.incarnation} if call.incarnation else {}
        if isinstance(call, RecordedCall):
            went["attempts"] = [_attempt(attempt) for attempt in call.attempts]
            told = (("source", call.source), ("of", call.of), ("first_us", call.first))
            went |= {name: value for name, value in told if value is not None}
        yield {"went": call.address, **went}
    for address, message in trace.warnings:
        yield {"warning": message, "address": address}


def _attempt(attempt: Any) -> list[object]:
    failed = None if attempt.error is None else _error(attempt.error)
    waited = [attempt.waited] if attempt.waited else []
    return [attempt.number, attempt.at, failed, attempt.wait, *waited]
