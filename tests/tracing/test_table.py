"""The table of records: what is written and what is read agree with it, kind by kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import pytest

from appl.tracing import Recorder, records
from appl.tracing.format import RunKey, codec, table
from appl.tracing.recording import SHARED, Veil
from appl.tracing.recording.privacy import shielded
from tests.tracing.made import call

TRACES = sorted((Path(__file__).parents[1] / "traces").glob("[0-9]*/*.trace"))
LETTERS = "HITUXBGMLNPSDACEVFRJOWZ"
"""The kinds of format 1, which no later version may give another meaning."""
OTHERS: list[Any] = [
    ["U", 4, 2, 17],
    ["Y", 5, 9, None, None, 17],
    ["Q", "appl-1", "sent", 17, {"id": "batch_1"}, [1, "/ask.0/gen.0"]],
]
"""Records of the kinds that no golden trace holds."""


def golden() -> list[Any]:
    return [*OTHERS, *(table.unwrapped(each) for path in TRACES for each in records(path))]


def test_every_record_of_every_golden_trace_is_in_the_table_and_is_stored_as_it_was() -> None:
    found = golden()
    assert {fields[0] for fields in found} == {*LETTERS, "Q", "Y"} == set(table.KINDS)
    for fields in found:
        made = table.as_record(fields)
        assert type(made) is table.KINDS[fields[0]]
        assert list(table.stored(made)) == fields
        row: Any = table.row(type(made))
        assert list(row(*made[1:])) == fields


@pytest.mark.parametrize("kind", sorted(table.EVERY, key=table.tag_of), ids=table.tag_of)
class TestEveryKind:
    def test_every_field_declares_its_content(self, kind: Any) -> None:
        assert all(table.CONTENTS[kind].values())
        assert len(table.CONTENTS[kind]) == len(kind._fields) - 1

    def test_optional_fields_come_last_and_are_left_out_where_they_are_none(
        self, kind: Any
    ) -> None:
        values = [*range(1, len(kind._fields))]
        needed = len(values) - len(kind._field_defaults)
        row = table.row(kind)
        short = row(*values[:needed])
        assert row(*values) == (table.tag_of(kind), *values)
        assert short == (table.tag_of(kind), *values[:needed])
        assert table.stored(kind(table.tag_of(kind), *values)) == row(*values)
        assert table.as_record([*short])[: needed + 1] == short

    def test_a_record_with_unknown_fields_is_read_without_them(self, kind: Any) -> None:
        whole = [table.tag_of(kind), *range(1, len(kind._fields))]
        assert table.as_record([*whole, "new"]) == table.as_record(whole) == tuple(whole)

    def test_a_record_that_lacks_a_field_is_refused(self, kind: Any) -> None:
        needed = len(kind._fields) - len(kind._field_defaults)
        for count in range(1, needed):
            with pytest.raises(TypeError, match="missing"):
                table.as_record([table.tag_of(kind), *range(1, count)])


@pytest.mark.parametrize("lengths", [None, [3, 4]])
@pytest.mark.parametrize("texts", [None, [[0, 0, "said"]]])
@pytest.mark.parametrize("about", [None, {"first": 3}])
def test_the_end_of_a_call_is_told_by_what_its_fields_are(
    lengths: Any, texts: Any, about: Any
) -> None:
    """Each of the three may be missing: the lengths where a call was not streamed, and so on."""
    made = table.EndRecord("E", 1, 0, [], 5, lengths, texts and lengths and texts, about)
    assert table.as_record(list(table.stored(made))) == made


def test_a_private_trace_shows_of_every_field_what_its_content_allows() -> None:
    """All plain fields stay, digests are keyed, and what is to be left out is nowhere."""
    key = RunKey(bytes(32))
    veil, compared = Veil(SHARED, key), set[table.Kind]()
    for fields in golden():
        kind = table.KINDS[fields[0]]
        filtered = b"".join(veil.filter([codec.pack(fields)]))
        for shown in map(table.unwrapped, codec.unpack(filtered)):
            before, after = table.as_record(fields), table.as_record(shown)
            for name, content in table.CONTENTS[kind].items():
                expected = _allowed(content, getattr(before, name), key)
                if expected is not ...:
                    assert getattr(after, name) == expected, (kind, name)
            compared.add(kind)
    assert compared == table.EVERY - {table.PieceRecord}


def _allowed(content: Any, value: Any, key: RunKey) -> Any:
    if content in (table.Content.PLAIN, table.Content.OWNER, table.Content.PATH):
        return value
    if content is table.Content.DIGEST:
        return key.digest(value)
    return None if content in (table.Content.OMITTED, table.Content.ORIGINS) else ...


def test_a_field_that_declares_no_content_is_refused_by_privacy() -> None:
    fields = [("tag", Literal["?"]), ("id", table.Id), ("thought", str)]
    new: Any = NamedTuple("new", fields)
    assert table.contents_of(new) == {"id": table.Content.PLAIN, "thought": None}
    with pytest.raises(ValueError, match="may hold a text: thought has no content"):
        shielded(new)


def test_the_letter_of_a_kind_stands_in_its_class_alone() -> None:
    for kind in table.EVERY:
        assert get_args(kind.__annotations__["tag"]) == (table.tag_of(kind),)
    assert table.tags([table.StartRecord, table.EndRecord]) == {"S", "E"}


def test_records_of_one_kind_are_chosen_masked_or_not(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "a.trace", {"program": "p"})
    call(recorder, "/p.0/gen.0", "a question")
    recorder.close()
    arrays = [*records(tmp_path / "a.trace"), [table.MASKED, ["NAME"], ["V", 9, 1]]]
    assert [each.facts["program"] for each in table.chosen(arrays, table.HeaderRecord)] == ["p"]
    assert [each.call for each in table.chosen(arrays, table.DeliveryRecord)][-1] == 9
