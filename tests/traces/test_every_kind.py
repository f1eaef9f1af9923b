"""Every kind of record is written, read, shared, put on a tape and exported with all that it says.

A run with every kind is drawn again with one field changed: whoever tells the two apart has read the
field. Where a field may be passed over, a row here gives it. So a kind that is added to the table,
or a field of one, and that a consumer does not know fails with its name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any, get_args

import hypothesis.strategies as st
import pytest
from hypothesis import Phase, given, settings

from appl.prompt import Messages
from appl.tracing import Trace, records, tape
from appl.tracing.exporting import chrome, markdown, otlp, spans_of
from appl.tracing.format import Content, Kind, codec, table
from appl.tracing.keeping import share
from appl.tracing.reading import further_records, reader, runs
from appl.tracing.viewer import View
from tests.drawn import counts

from .every_kind import DrawnRun, encoded, every_kind, written

WORD = re.compile(r"q\d+q+")
REFERS = ("id", "id or nil", "id or address", "id or error")
HELD = {
    (table.PieceRecord, "place"),
    (table.PromptRecord, "digest"),
    (table.StartRecord, "sample"),
    (table.ToolEndRecord, "status"),
}
"""Fields that hold records together, as ids do: a run with another value is not valid."""


def changeable() -> Iterator[tuple[Kind, str]]:
    """The fields of all kinds, but for those that hold records together."""
    for kind in sorted(table.EVERY, key=table.tag_of):
        for name in kind._fields[1:]:
            hints = get_args(kind.__annotations__[name])[2:]
            if not {*hints} & {*REFERS} and (kind, name) not in HELD:
                yield kind, name


Changed = tuple[bytes, dict[str, bytes]]


def changed(run: DrawnRun) -> Changed:
    """The trace of *run*, and by the name of each field the trace in which it has another value."""
    others = {f"{kind.__name__}.{name}": run.changed(kind, name) for kind, name in changeable()}
    return encoded(run), {
        name: encoded(other) for name, other in others.items() if other.records != run.records
    }


@cache
def changed_runs(count: int) -> list[Changed]:
    """So many drawn runs, each with its changes: the same for all consumers."""
    found = list[Changed]()
    of_runs(count, lambda run: found.append(changed(run)))
    return found


def unseen(run: Changed, path: Path, consumer: Callable[[Path], object]) -> set[str]:
    """The fields whose change makes no difference to *consumer*."""

    def made_of(trace: bytes) -> object:
        path.write_bytes(trace)
        return consumer(path)

    before = made_of(run[0])
    return {name for name, other in run[1].items() if made_of(other) == before}


def told(trace: Trace) -> list[Any]:
    """All that *trace* says."""
    steps = [*trace.calls, *trace.tools.values(), *trace.observations, *trace.scopes]
    return [
        trace.header,
        trace.incarnations,
        [
            [(each.name, _plain(getattr(step, each.name))) for each in fields(step)]
            for step in steps
        ],
        [_plain(list(vars_of(failure))) for failure in trace.failures.values()],
        [_plain(list(vars_of(end))) for end in trace.returns.values()],
        [_plain(list(vars_of(batch))) for batch in trace.batches.values()],
        list(trace.warnings),
        [trace.state, trace.reason, str(trace.error), trace.moments],
        [_plain(getattr(trace, each.name)) for each in fields(trace) if each.name not in TOLD],
    ]


TOLD = frozenset(
    """
    header incarnations calls by_address tools observations scopes failures returns batches warnings
    state reason error moments
    path torn read_to records masked others earlier key
""".split()
)
"""The fields of a ``Trace`` that are told above, and those that are of its file."""


def vars_of(value: Any) -> Iterator[object]:
    return (getattr(value, each.name) for each in fields(value))


def _plain(value: Any) -> object:
    if isinstance(value, Messages):
        return [_message(link) for link in value.links()]
    if isinstance(value, BaseException):
        return repr(value)
    if hasattr(value, "content") and hasattr(value, "media"):
        return value.as_dict(), value.name, value.provider_fields
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return sorted((repr(key), _plain(each)) for key, each in value.items())
    return [_plain(each) for each in vars_of(value)] if hasattr(value, "waited") else repr(value)


def _message(link: Messages) -> object:
    said = link.message
    media = [(at, m.kind, m.url, m.data if m.url is None else b"", m.mime) for at, m in said.media]
    details = [getattr(medium, "detail", None) for _, medium in said.media]
    fields_of = said.role, said.content, said.name, said.tool_call_id, said.provider_fields
    return [fields_of, media, details, link.digest, link.spans]


def read(path: Path) -> object:
    return told(Trace.open(path)), runs.finished(path)


def taped(path: Path) -> object:
    target = path.with_suffix(".jsonl")
    tape.save(Trace.open(path), target, full=True)
    return told(tape.read(target))


def viewed(path: Path) -> object:
    view = View(path)
    view.read()
    made = [view.document(name, {}) for name in ("run", "scopes", "rows", "costs", "prefixes")]
    calls = [view.texts.call(row) for row in range(len(view.rows))]
    texts = view.texts.messages(range(len(view.texts)))
    view.close()
    return json.dumps([made, calls, texts], default=repr)


def spanned(path: Path) -> object:
    return [*otlp.requests(spans_of(Trace.open(path), content=True, inference=True))]


def _allowed(*rows: str) -> frozenset[str]:
    """Fields, each row as the name of a kind and those of its fields."""
    names = [row.split() for row in rows]
    return frozenset(f"{kind}Record.{field}" for kind, *every in names for field in every)


IN_ORDER = _allowed("Chunks at", "Retry at", "Warning at", "Close at")
"""Times of what is told in the order of the file alone."""
NO_TEXT = _allowed(
    "Line line", "Prompt origins", "Close totals sums", "Process number", "Failure at"
)
"""Where a text comes from, sums of what is there one by one, and numbers that nobody asks for."""
BATCHES = _allowed("Batch key state at facts calls")
"""How answers came to be had for less, which is shown with the run as a whole."""
NOT_TIMED = BATCHES | _allowed("Chunks chunks", "Delivery at", "Observation ordinal at")
OF_SPANS = _allowed(
    "Dispatch waited", "End lengths texts", "Failure address kind error of items",
    "Medium mime detail", "Observation address kind value", "Process reason", "Retry wait",
    "Start content kind ordinal timeout", "ToolStart effect", "Warning address message",
)  # fmt: skip
"""What a timeline of calls has no place for."""

TO_DO = "have it there, or let CONSUMERS say that it is passed over"

CONSUMERS: dict[str, tuple[Callable[[Path], object], frozenset[str]]] = {
    "read": (read, IN_ORDER),
    "taped": (taped, IN_ORDER | _allowed("Line line", "Prompt origins", "Close totals sums")),
    "viewed": (
        viewed,
        IN_ORDER | NOT_TIMED
        | _allowed(
            "Close totals sums", "Failure address error of at", "Observation address kind value",
            "Process monotonic_ns number", "Return at", "Scope at name metadata",
        ),
    ),
    "in spans": (spanned, IN_ORDER | NO_TEXT | NOT_TIMED | OF_SPANS),
    "in a timeline": (
        lambda path: [*chrome.lines(Trace.open(path), content=True)],
        IN_ORDER | NO_TEXT | NOT_TIMED | OF_SPANS | _allowed("Process host monotonic_ns pid wall_ns"),
    ),
    "in Markdown": (
        lambda path: [*markdown.lines(Trace.open(path))],
        IN_ORDER | NO_TEXT | NOT_TIMED | OF_SPANS
        | _allowed(
            "Dispatch at attempt", "End at", "Parameters options", "Process host monotonic_ns pid wall_ns",
            "Retry attempt error", "Return value error at", "Scope arguments at line name metadata", "Start at edges n", "ToolEnd at",
            "ToolStart at line",
        ),
    ),
    "in JSON": (
        lambda path: json.dumps(Trace.open(path).as_data()),
        IN_ORDER | NO_TEXT
        | _allowed(
            "Batch at", "Chunks chunks", "Delivery at", "Dispatch at waited", "End texts", "Observation at",
            "Process host monotonic_ns pid reason wall_ns", "Start n timeout",
        ),
    ),
}  # fmt: skip
"""What each consumer makes of a run, and the fields that it passes over."""


def of_runs(count: int, check: Callable[[DrawnRun], None]) -> None:
    """Call *check* with so many runs. One that fails is not made smaller: that tells no more."""

    @settings(max_examples=count, phases=[Phase.generate])
    @given(st.data())
    def checked(data: st.DataObject) -> None:
        check(every_kind(DrawnRun(data.draw)))

    checked()


@pytest.mark.parametrize("how", CONSUMERS)
@counts(2, 60)
def test_no_field_of_any_kind_is_lost(how: str, count: int, tmp_path: Path) -> None:
    consumer, passed_over = CONSUMERS[how]
    for run in changed_runs(count):
        lost = unseen(run, tmp_path / "a.trace", consumer) - passed_over
        assert not lost, f"{sorted(lost)} is lost where it is {how}: {TO_DO}"


@counts(10, 300)
def test_what_is_written_is_read_and_put_on_a_tape_as_it_was(count: int, tmp_path: Path) -> None:
    path, lines = tmp_path / "a.trace", tmp_path / "a.jsonl"

    def check(run: DrawnRun) -> None:
        packed = [codec.pack(table.stored(record)) for record in run.records]
        assert [codec.pack(fields) for fields in records(written(run, path))] == packed
        trace = Trace.open(path)
        tape.save(trace, lines, full=True)
        again = tape.read(lines)
        (answer,) = run.answers
        assert [found.calls[-1].response for found in (trace, again)] == [answer, answer]
        assert _without_origins(told(again)) == _without_origins(told(trace))
        assert told(Trace.open(path, check=True)) == told(trace)

    of_runs(count, check)


def _without_origins(found: list[Any]) -> list[Any]:
    """What a tape keeps of *found*: neither where texts come from, nor when the last calls ended."""
    steps = [[(name, each) for name, each in step if name != "end_position"] for step in found[2]]
    for step in steps:
        for name, each in step:
            for link in each if name == "messages" and each != "None" else ():
                link[-1] = ()
    return [*found[:2], steps, *found[3:]]


STAYS = dict.fromkeys(Content, False) | {
    Content.PLAIN: True, Content.PATH: True, Content.ABOUT: True,
    Content.ANSWER: None, Content.DETAILS: None, Content.FACTS: None, Content.WORD: None,
}  # fmt: skip
"""Whether the words of a field stand in a shared trace; ``None`` where some of them do."""


def words(value: object) -> set[str]:
    return {*WORD.findall(repr(value))}


def said(run: DrawnRun) -> set[str]:
    """The words of what was said, whose fields also hold words that may be shared."""
    (sample,) = run.answers[-1].samples
    failed = [
        each.value for each in run.records if isinstance(each, table.EndRecord) and each.status
    ]
    spoken = run.last[table.MessageRecord].content, sample.text, sample.reasoning, sample.logprobs
    return words([spoken, sample.provider_fields, failed])


@counts(6, 200)
def test_a_shared_trace_has_the_words_that_may_be_shared_and_no_others(
    count: int, tmp_path: Path
) -> None:
    target = tmp_path / "b.trace"

    def check(run: DrawnRun) -> None:
        target.unlink(missing_ok=True)
        assert share(written(run, tmp_path / "a.trace"), target) == 2
        shown = words([*records(target)])
        assert not said(run) & shown
        for record in run.records:
            for name, content in table.CONTENTS[type(record)].items():
                stays, own = STAYS[content], words(getattr(record, name))
                if stays is not None:
                    assert own & shown == (own if stays else set()), (type(record).__name__, name)

    of_runs(count, check)


def test_every_kind_is_in_the_table_with_a_letter_of_its_own() -> None:
    written = [
        each for name, each in vars(table).items() if name.endswith("Record") and name != "Record"
    ]
    listed = {*get_args(table.Record)}
    assert {kind.__name__ for kind in {*written} - listed} == set(), "add it to Record"
    by_letter: dict[str, list[str]] = {}
    for kind in written:
        by_letter.setdefault(table.tag_of(kind), []).append(kind.__name__)
    assert {letter: names for letter, names in by_letter.items() if len(names) > 1} == {}


def test_every_kind_has_a_reader() -> None:
    handlers = reader.HANDLERS.keys() | further_records.HANDLERS.keys()
    assert {kind.__name__ for kind in table.EVERY - handlers} == set()
