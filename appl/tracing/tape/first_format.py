"""Tapes of format 1, whose lines had a notation of their own, as lines of today's format.

Invariant: what comes out is read, and checked, as the lines of any other tape are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from appl.tracing.format import table
from appl.tracing.format.record import CANCELLED, FAILED, checked
from appl.tracing.tape.lines import Line, line_of
from appl.tracing.tape.places import after_their_needs

Numbered = tuple[int, Line]
_STATUS = {"failed": FAILED, "cancelled": CANCELLED}
_PARTS = "message calls answer reasoning tokens usage begun error".split()
_BEFORE = "header began scope medium".split()
_AFTER = "warning closed".split()
_HEADS = [*"call tool saw then ended went".split(), *_BEFORE, *_AFTER]
_FIELDS: dict[str, tuple[table.Kind, str]] = {
    "header": (table.HeaderRecord, "facts"),
    "began": (
        table.ProcessRecord,
        "number=began pid host reason wall_ns=wall monotonic_ns=monotonic",
    ),
    "scope": (table.ScopeRecord, "parent leaf name file line at metadata"),
    "medium": (table.MediumRecord, "id=medium kind=sort url data mime detail"),
    "call": (table.StartRecord, "kind ordinal n sample content edges=uses timeout"),
    "tool": (table.ToolStartRecord, "name arguments effect"),
    "message": (table.MessageRecord, "role=message"),
    "more": (table.MessageRecord, "of=reply_to name error=failed media calls=called"),
    "saw": (table.ObservationRecord, "address=saw ordinal kind value"),
    "warning": (table.WarningRecord, "address message=warning"),
    "closed": (table.CloseRecord, "reason=closed error=because"),
    "about": (table.EndRecord, "first=first_us source of"),
}
"""The records that lines became, and their fields with the old names where these were others."""


def _fields(kind: str, line: Line) -> Line:
    """The fields of *line* that the record of *kind* has, by their new names."""
    names = (name.partition("=") for name in _FIELDS[kind][1].split())
    fields = {new: line.get(old or new) for new, _, old in names}
    return {name: value for name, value in fields.items() if value is not None}


def _made(kind: str, line: Line, /, **more: object) -> Line:
    """The line of today's format for *line*, with *more* fields."""
    beside = {name: line[name] for name in ("masked", "incarnation") if name in line}
    return line_of(_FIELDS[kind][0], {**_fields(kind, line), **more}) | beside


class _Event:
    """A call, or that of a tool, with the lines that stand below it."""

    def __init__(self, number: int, line: Line) -> None:
        self.number, self.line = number, line
        self.message, self.answer, self.begun = list[Line](), list[Line](), list[Line]()
        self.usage: Line = {}
        self.error: Line | None = None
        self._holder: Line = {}

    def add(self, kind: str, line: Line) -> None:
        """Take in a *line* that stands below."""
        if kind in ("message", "answer", "begun"):
            self._holder = line
            getattr(self, kind).append(line)
        elif kind == "calls":
            if not self._holder:
                raise ValueError("a tool is called by a message or an answer, which stands before")
            call = [line["id"], line["calls"], line["arguments"]]
            self._holder.setdefault("called", []).append(call)
        elif kind in ("reasoning", "tokens"):
            self.answer[-1][kind] = line["lines"] if kind == "reasoning" else line[kind]
        else:
            setattr(self, kind, line)

    def mark(self) -> None:
        """Keep the names of secrets with the outcome, or with the rest, as they were taken out."""
        ended = self.error or self.answer or ("tool" in self.line and self.message)
        masked = self.line.get("masked")
        if masked and ended and not self.line.get("outcome_whole"):
            self.usage["masked"] = self.line.pop("masked")
        elif masked and self.line.get("unstarted"):
            self.usage["masked"] = masked


def converted(lines: Iterator[Numbered]) -> Iterator[Numbered]:
    """The lines of today's format that say what *lines* of format 1 say, without the first."""
    events, heads = dict[str, _Event](), {kind: list[Numbered]() for kind in _HEADS}
    event: _Event | None = None
    text: list[str] | None = None
    for number, line in lines:
        if text is not None and line.keys() == {"text"}:
            text.append(checked(str, line["text"]))
            continue
        kinds = [kind for kind in (*_HEADS, *_PARTS) if kind in line]
        if len(kinds) != 1 or (kinds[0] in _PARTS and event is None):
            raise ValueError(
                f"a line with {', '.join(line) or 'nothing':.200} does not belong here"
            )
        kind = kinds[0]
        text = line["lines"] = [checked(str, line["text"])] if "text" in line else None
        if kind in _PARTS and event is not None:
            event.add(kind, line)
        elif kind not in ("call", "tool"):
            event = None
            heads["then" if kind == "ended" else kind].append((number, line))
        elif (address := checked(str, line[kind])) in events:
            raise ValueError(f"{address:.200} stands here twice")
        else:
            event = events[address] = _Event(number, line)
    return _Converter(events, heads).every()


class _Converter:
    """Makes the lines of what a tape holds: calls and tools by address, and the other lines."""

    def __init__(self, events: dict[str, _Event], heads: dict[str, list[Numbered]]) -> None:
        self._events, self._heads = events, heads
        self._went: dict[str, Line] = {line["went"]: line for _, line in heads["went"]}
        self._lengths: dict[str, int] = {}
        self._prompts: dict[str, str | None] = {}
        self._options: dict[str, Any] = {}
        self._saw = {(line["saw"], line["ordinal"], line["kind"]): line for _, line in heads["saw"]}
        self._silent = {line["ended"] for _, line in heads["then"] if "ended" in line}

    def every(self) -> Iterator[Numbered]:
        """All lines."""
        yield from self._simple(_BEFORE)
        for address, event in self._events.items():
            event.mark()
            if "call" in event.line and not event.line.get("unstarted"):
                yield from ((event.number, line) for line in self._said(address, event))
        for address in self._started():
            event = self._events[address]
            yield from ((event.number, line) for line in self._event(address, event))
        for number, line in self._heads["then"]:
            yield from ((number, told) for told in self._told(line))
        for key in self._saw:
            raise ValueError(f"it is not said when {key[2]} at {key[0]:.200} was seen")
        yield from self._simple(_AFTER)

    def _simple(self, kinds: list[str]) -> Iterator[Numbered]:
        for kind in kinds:
            for number, line in self._heads[kind]:
                if kind == "header":
                    line["facts"] = {line["header"]: line["value"]}
                elif kind == "scope":
                    above = f"{line['parent']}/" if line["parent"] else ""
                    line["leaf"] = line["scope"].removeprefix(above)
                elif kind == "medium":
                    line["data"] = {"$blob": line.get("base64", "")}
                yield number, _made(kind, line)

    def _started(self) -> list[str]:
        """The calls as they started, or in an order in which they could; then those of tools."""
        calls = {a: event.line for a, event in self._events.items() if "call" in event.line}
        order = [address for address in self._went if address in calls]
        if len(order) < len(calls):
            order = after_their_needs({a: line.get("uses", ()) for a, line in calls.items()})
        return [*order, *(address for address in self._events if address not in calls)]

    def _said(self, address: str, event: _Event) -> Iterator[Line]:
        """The messages and the options of a call, in the order in which others refer to them."""
        line, after = event.line, event.line.get("after")
        length = 0 if after is None else line.get("first") or self._lengths.get(after, 0)
        prompt = None if after is None else f"{after}#{length}"
        for said in event.message:
            length += 1
            name = f"{address}#{length}"
            yield _message(name, said, length)
            yield line_of(table.PromptRecord, {"parent": prompt, "digest": said.get("digest")})
            prompt, self._lengths[address] = name, length
        self._prompts[address], known = prompt, line.get("options_of")
        options = self._options[address] = (
            line["options"] if known is None else self._options[known]
        )
        fields = {"id": address, "model": line.get("model"), "options": options}
        yield line_of(table.ParametersRecord, fields)

    def _event(self, address: str, event: _Event) -> Iterator[Line]:
        line, went = event.line, self._went.get(address, {})
        if not line.get("unstarted"):
            scope, _, leaf = address.rpartition("/")
            more = {"scope": scope, "leaf": leaf, "at": went.get("started_us")}
            more |= {"file": went.get("file"), "line": went.get("line")}
            more |= {"prompt": self._prompts.get(address), "parameters": address}
            incarnation = {"incarnation": went["incarnation"]} if "incarnation" in went else {}
            yield _made("call" if "call" in line else "tool", line | incarnation, **more)
        for attempt in went.get("attempts", ()):
            yield from _attempt(address, *attempt)
        if address not in self._silent:
            yield from self._ended(address, event)

    def _ended(self, address: str, event: _Event) -> Iterator[Line]:
        went, error, is_tool = self._went.get(address, {}), event.error, "tool" in event.line
        end: Line = {"call": address, "at": went.get("ended_us")}
        if is_tool and event.message:
            end["value"] = f"{address}#result"
            yield _message(end["value"], event.message[0], 0)
        elif event.answer:
            end |= {"value": _response(event), "lengths": event.usage.get("chunks")}
        elif error is not None:
            texts = [[*part["begun"], "".join(part["lines"])] for part in event.begun]
            end |= {"status": _STATUS[error["outcome"]], "value": error["error"]}
            end |= {"lengths": error.get("chunks"), "texts": texts or None}
        else:
            return
        masked = {name: event.usage[name] for name in ("masked",) if name in event.usage}
        about = _fields("about", went) or None
        yield (
            line_of(table.ToolEndRecord if is_tool else table.EndRecord, end | {"about": about})
            | masked
        )

    def _told(self, line: Line) -> Iterator[Line]:
        address = line.get("then")
        if "seen" in line:
            yield _made("saw", self._saw.pop((address, line["ordinal"], line["seen"])))
        elif "ended" in line:
            yield from self._ended(line["ended"], self._events[line["ended"]])
        elif "chunks" in line:
            yield line_of(table.ChunksRecord, {"call": address, "chunks": line["chunks"]})
        else:
            at = self._went.get(checked(str, address), {}).get("told_us")
            yield line_of(table.DeliveryRecord, {"call": address, "at": at})


def _message(name: str, said: Line, length: int) -> Line:
    more = {key: value for key, value in _fields("more", said).items() if value} or None
    text, base = "".join(said["lines"]), said.get("goes_on")
    if base is None:
        return _made("message", said, id=name, content=text, more=more)
    fields = {"id": name, "message": f"{base}#{length}", "text": text, "more": more}
    return line_of(table.LongerRecord, fields)


def _response(event: _Event) -> list[object]:
    """The answer as a record has it."""
    usage, samples = event.usage, list[object]()
    for answer in event.answer:
        thought = "".join(answer["reasoning"]) if "reasoning" in answer else None
        more = answer.get("tokens"), answer.get("called", []), thought
        samples.append(["".join(answer["lines"]), answer["answer"], *more])
    about = (usage.get(name) for name in ("scores", "choice_method", "cost"))
    return [samples, usage.get("usage", ()), usage.get("by", ""), *about, usage.get("reused", 0)]


def _attempt(
    address: str, number: object, at: object, error: object, wait: object, waited: object = None
) -> Iterator[Line]:
    about: Line = {"call": address, "attempt": number}
    yield line_of(table.DispatchRecord, {**about, "at": at, "waited": waited})
    if error is not None:
        yield line_of(table.RetryRecord, {**about, "error": error, "wait": wait})
