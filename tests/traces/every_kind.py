"""Runs that hold every kind of record, whose fields are drawn from the annotations of the table.

Texts that are drawn stand nowhere else in the run, so that each can be looked for. A run can be
drawn again with one field changed. A kind that ``every_kind`` does not write, or a field of a sort
that is not known here, is an error that names it.
"""

from __future__ import annotations

import itertools
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import hypothesis.strategies as st

from appl.backend import Response, Sample, Sampling, TokenLogprob, Usage
from appl.prompt import Audio, Image, Media, Message, Messages, ToolCall, digest_of
from appl.prompt.provider_fields import ProviderFields
from appl.tracing.format import block, block_file, codec, table
from appl.tracing.format.record import ANSWERED, CANCELLED, FAILED, response_data
from appl.tracing.format.recorded_errors import error_data
from appl.tracing.format.table import Content, Kind

LETTERS = "".join(set(string.ascii_lowercase) - {"q"}) + "äß語🙂"
SIZES = st.integers(0, 1 << 40)
PLAIN = st.one_of(st.none(), st.booleans(), SIZES, st.text(LETTERS, max_size=9))
VALUES = st.one_of(PLAIN, st.lists(PLAIN, max_size=2), st.dictionaries(st.sampled_from("abc"), PLAIN))  # fmt: skip
LATER = {
    name: st.sampled_from(["", "flex"]) if each.type == "str" else st.none() | SIZES
    for name, each in Usage.__dataclass_fields__.items()
}
"""The counts of an answer, those that are added to the class later too."""


Draw = Callable[[Any], Any]


def another(value: Any) -> Any:
    """A value of the same form that is another one."""
    if isinstance(value, str | bytes):
        return value[:1] + value  # of a text that begins with ASCII
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, dict):
        return {key: another(each) for key, each in value.items()}
    return [another(each) for each in value]


def _shorter(lengths: list[Any]) -> list[Any]:
    """The same text in one more chunk."""
    return [lengths[0] - 1, 1, *lengths[1:]]


def _of_value(value: Any) -> Any:
    if len(value) == 4:  # an error
        return another(value)
    ((text, reason, *rest), *samples), *others = value
    return [[text, another(reason), *rest], *samples], *others


CHANGES: dict[tuple[Kind, str], Callable[[Any], Any]] = {
    (table.HeaderRecord, "facts"): lambda facts: {**facts, "program": another(facts["program"])},
    (table.MediumRecord, "kind"): lambda _: "audio",
    (table.MessageRecord, "role"): {"user": "system", "assistant": "user", "tool": "user"}.get,
    (table.MessageRecord, "content"): lambda said: (
        said if isinstance(said, dict) else another(said)
    ),
    (table.MessageRecord, "more"): lambda more: (
        more and {**more, "name": another(more.get("name", "x"))}
    ),
    (table.PromptRecord, "origins"): lambda origins: origins and [origins[0], None],
    (table.ParametersRecord, "options"): lambda _: Sampling(max_tokens=4).canonical(),
    (table.StartRecord, "content"): lambda digest: digest[::-1],
    (table.StartRecord, "edges"): lambda _: ["/nobody.0"],
    (table.EndRecord, "status"): {ANSWERED: ANSWERED, FAILED: CANCELLED}.get,
    (table.EndRecord, "value"): _of_value,
    (table.EndRecord, "lengths"): _shorter,
    (table.EndRecord, "texts"): lambda texts: texts and [[0, 0, texts[0][2][::-1]]],
    (table.EndRecord, "about"): lambda about: about and another(about),
    (table.BatchRecord, "calls"): lambda _: ["/nobody.0"],
    (table.FailureRecord, "kind"): lambda _: "answer",
    (table.ToolStartRecord, "arguments"): lambda _: "{}",
    (table.CloseRecord, "totals"): lambda totals: {**totals, "failed": 3},
    (table.CloseRecord, "sums"): lambda sums: {**sums, "elapsed_us": 7_000_000},
}
"""How a field is changed that ``another`` would make into one that is not valid."""


class DrawnRun:
    """The records of a run, and by ``last`` those of each kind that were drawn last.

    ``words`` are the texts in each field, by kind and name. With *change*, a kind and the name of a
    field, this field is another one in its records.
    """

    def __init__(self, draw: Draw, change: tuple[Kind, str] | None = None) -> None:
        self._draw, self._change = draw, change
        self.draws: list[Any] = []
        self.records: list[Any] = []
        self.last: dict[Kind, Any] = {}
        self.answers: list[Response] = []
        self._ids, self._words, self._now = itertools.count(1), itertools.count(1), 0

    def changed(self, kind: Kind, field: str) -> DrawnRun:
        """The same run but for this field."""
        again = iter(self.draws)
        return every_kind(DrawnRun(lambda _: next(again), (kind, field)))

    def draw(self, strategy: Any) -> Any:
        found = self._draw(strategy)
        self.draws.append(found)
        return found

    def word(self) -> str:
        """A text that stands nowhere else in the run."""
        return f"q{next(self._words)}q" + self.draw(st.text(LETTERS, max_size=6))

    def address(self) -> str:
        return f"/{self.word()}.0"

    def add(self, kind: Kind, /, **given: Any) -> Any:
        """A record of *kind*: the fields that are *given*, and others by their annotations."""
        drawn = {name: self._field(kind, name) for name in kind._fields[1:] if name not in given}
        fields = {**drawn, **given}
        if self._change is not None and self._change[0] is kind:
            name = self._change[1]
            fields[name] = CHANGES.get((kind, name), another)(fields[name])
        made = self.last[kind] = kind(tag=table.tag_of(kind), **fields)
        self.records.append(made)
        return made

    def _field(self, kind: Kind, name: str) -> Any:
        annotated, content, *words = get_args(kind.__annotations__[name])
        if name == "id":
            return next(self._ids)
        if words and words[0] == "address":
            return self.address()
        if name == "at":  # time goes on
            self._now += 1 + self.draw(st.integers(0, 1000))
            return self._now
        if annotated is Any or annotated is object or content in (Content.OBSERVED,):
            return {self.word(): self.draw(VALUES)}
        of = get_args(annotated) or (annotated,)
        simple = {str: self.word, bytes: lambda: self.word().encode(), float: lambda: self.draw(st.floats(0, 9)), int: lambda: self.draw(SIZES)}  # fmt: skip
        known = [simple[each] for each in of if each in simple]
        assert known, f"{kind.__name__}.{name} is of a sort that is not drawn: {annotated}"
        return known[0]()

    def error(self) -> Any:
        return error_data(ValueError(self.word()))

    def answer(self) -> Response:
        """An answer all of whose fields are drawn."""
        words = itertools.count(1)
        text = st.builds(lambda: f"q{next(words)}qq")
        tokens = st.builds(TokenLogprob, text, st.floats(-9, 0), st.tuples(st.tuples(text, st.floats(-9, 0))))  # fmt: skip
        sample = st.builds(
            Sample, text, text, st.none() | st.tuples(tokens),
            st.just(()) | st.tuples(st.builds(ToolCall, text, text, st.just("{}"))), st.none() | text,
            st.none() | st.builds(lambda word: ProviderFields.of({"mood": word}, "m"), text),
        )  # fmt: skip
        made: Response = self.draw(
            st.builds(
                Response, st.tuples(sample), st.builds(Usage, **LATER), st.just("m"),
                st.none() | st.tuples(st.floats(-9, 0)), st.none() | text, st.none() | SIZES,
                st.integers(0, 1), st.just(()) | st.tuples(text), st.none() | st.tuples(tokens),
            )
        )  # fmt: skip
        self.answers.append(made)
        return made


def every_kind(run: DrawnRun) -> DrawnRun:
    """The *run* with records of every kind, in an order in which a program writes them."""
    add, word = run.add, run.word
    add(table.HeaderRecord, facts={"format": 1, "program": word(), "backend": word(), "seed": 7})
    add(table.ProcessRecord, number=0)
    file = add(table.FileRecord).id
    add(table.LineRecord, file=file)
    outer = add(table.ScopeRecord, parent="", leaf=run.address(), file=file)
    scope = add(table.ScopeRecord, parent=outer.id, leaf=f"{word()}.0", file=file).id
    top = _prompt(run, file)
    options = add(table.ParametersRecord, model="m", options=Sampling(max_tokens=3).canonical())
    content = digest_of(top.digest, options.model, options.options)
    prompt = run.last[table.PromptRecord].id
    before = {"scope": scope, "kind": "gen", "prompt": prompt, "parameters": options.id, "n": 1}
    about = {"sample": 0, "content": content, "file": file}
    first = add(table.StartRecord, leaf=f"{word()}.0", edges=[], **before, **about)
    call = add(table.StartRecord, leaf=f"{word()}.0", edges=[first.id], **before, **about).id
    add(table.DispatchRecord, call=call, attempt=1, waited={word(): 5})
    add(table.RetryRecord, call=call, attempt=1, error=run.error())
    answer = run.answer()
    add(table.ChunksRecord, call=call, chunks=1)
    size = len(answer.samples[0].text), len(answer.samples[0].reasoning or "")
    lengths = [size[0], *([(0, 1, size[1])] if size[1] else [])]
    told = {"first": 5, "source": "reused", "of": run.address()}
    add(table.EndRecord, call=call, status=ANSWERED, value=response_data(answer), lengths=lengths, texts=None, about=told)  # fmt: skip
    add(table.DeliveryRecord, call=call)
    begun = word()
    add(table.EndRecord, call=first.id, status=FAILED, value=run.error(), lengths=[len(begun)], texts=[[0, 0, begun]], about=None)  # fmt: skip
    tool = add(table.ToolStartRecord, scope=scope, leaf=f"{word()}.0", arguments=f'{{"{word()}": 1}}', effect="effect", file=file).id  # fmt: skip
    result = add(table.MessageRecord, role="tool", content=word(), more={"of": word()}).id
    add(table.ToolEndRecord, call=tool, status=ANSWERED, value=result)
    add(table.DeliveryRecord, call=tool)
    add(table.FailureRecord, kind="item", error=run.error(), items=3)
    add(table.ReturnRecord, scope=scope, call=call, error=run.error())
    add(table.ObservationRecord)
    add(table.BatchRecord, state="sent", facts={"id": word()}, calls=[call])
    add(table.WarningRecord)
    sums = {"elapsed_us": 5_000_000, "models": {"m": [2] * 17}}
    add(table.CloseRecord, reason="finished", error=run.error(), totals={"calls": 2}, sums=sums)
    missing = sorted(kind.__name__ for kind in table.EVERY - run.last.keys())
    assert not missing, f"no run here has a {', '.join(missing)}: write one in every_kind"
    return run


def _prompt(run: DrawnRun, file: int) -> Messages:
    """Records of a prompt of a picture, a long message and one that goes on."""
    add, word = run.add, run.word
    given = (
        {"url": word(), "data": b""}
        if run.draw(st.booleans())
        else {"url": None, "data": word().encode()}
    )
    medium = add(table.MediumRecord, kind="image", mime="image/png", detail="low", **given)
    sort = {"image": Image, "audio": Audio}[medium.kind]
    shown: Media = sort.restored(medium.url, medium.data, medium.mime, medium.detail)
    fields = {"mood": word()}
    more = {"media": [[0, medium.id]], "name": word(), "provided": {"$provided": ["m", fields]}}
    seen = add(table.MessageRecord, role="user", content=word(), more=more)
    fields = ProviderFields.of(fields, "m")
    link = Messages(None, Message(seen.role, seen.content, ((0, shown),), name=seen.more["name"], provider_fields=fields))  # fmt: skip
    node = add(table.PromptRecord, parent=None, message=seen.id, digest=link.digest, origins=None)
    piece = add(table.PieceRecord, place=0)
    text = piece.data.decode()
    blob = {"$blob": [piece.id, len(text.encode()), True]}
    long = add(table.MessageRecord, role="user", content=blob, more=None)
    on = add(table.LongerRecord, message=long.id, text=word(), more=None)
    link = Messages(link, Message(long.role, text + on.text))
    node = add(table.PromptRecord, parent=node.id, message=on.id, digest=link.digest, origins=None)
    told = add(table.MessageRecord, role="assistant", content=word(), more=None)
    line = run.last[table.LineRecord].id
    link = Messages(link, Message(told.role, told.content))
    add(table.PromptRecord, parent=node.id, message=told.id, digest=link.digest, origins=[len(told.content), line])  # fmt: skip
    return link


def written(run: DrawnRun, path: Path) -> Path:
    """The trace of *run* at *path*, in blocks of some records."""
    encoder, blocks = block_file.Encoder(), [block.MAGIC]
    packed = [codec.pack(table.stored(record)) for record in run.records]
    for some in (packed[at : at + 5] for at in range(0, len(packed), 5)):
        blocks.append(encoder.block(b"".join(some)))
    path.write_bytes(b"".join(blocks))
    return path
