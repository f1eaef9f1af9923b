from __future__ import annotations

import random
from pathlib import Path

import pytest

from appl import gen, ppl
from appl.cli.trace import tree
from appl.cli.trace.show import outcome
from appl.errors import TraceError
from appl.prompt import Message
from appl.testing import ToolEnded, ToolStarted
from appl.tracing import Recorder, Trace
from appl.tracing.explaining import RunOverview
from appl.tracing.format import block, block_file, codec
from tests.drawn import counts
from tests.tracing.made import now, small_trace

from .support import recorded

GOLDEN = sorted((Path(__file__).parents[1] / "traces").rglob("*.trace"))


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_a_summary_adds_up_to_the_whole(path: Path) -> None:
    whole = Trace.open(path, salvage=True)
    found = RunOverview.of(whole, 1000)
    assert found.totals.as_data() == whole.totals().as_data()
    assert {call.address for call in found.rows} == {*whole.by_address, *whole.tools}
    open_calls = {call.address for call in whole.calls if call.outcome is None}
    assert {call.address for call in found.waiting.values()} >= open_calls


def test_what_is_kept_does_not_grow_with_the_run(tmp_path: Path) -> None:
    @ppl
    def leaf(number: int) -> object:
        f"Number {number}"
        return gen()

    @ppl
    def many(count: int) -> list[object]:
        return [leaf(i) for i in range(count)]

    path = tmp_path / "a.trace"
    recorded(path, many, lambda _: "yes", 300)
    found = RunOverview.of(Trace.open(path), 10)
    assert (len(found.rows), found.more, found.totals.calls) == (10, 290, 300)
    assert not found.waiting and len(found.scopes) <= 40
    assert found.functions["/many/leaf/gen"].calls == 300
    assert found.sums["/many.0"].calls == 300


@pytest.mark.parametrize("most", [0, 4, 1000])
def test_what_a_resumed_run_has_begun_again_is_counted_once(tmp_path: Path, most: int) -> None:
    path = small_trace(tmp_path / "a.trace", calls=3, close=False)
    small_trace(path, calls=5, append=True, reason="resumed")
    whole = Trace.open(path)
    found = RunOverview.of(whole, most)
    assert len(whole.earlier) == 3
    assert found.totals == whole.totals()
    assert (found.count, len(found.rows)) == (5, min(most, 5))
    assert {call.incarnation for call in found.rows} <= {1}
    assert found.functions["/small/gen"].calls == 5
    assert found.functions["/small/gen"].answer == whole.totals().tokens["completion_tokens"]


@pytest.mark.parametrize("most", [0, 4, 1000])
def test_a_tool_that_was_running_at_a_crash_is_counted_once_too(tmp_path: Path, most: int) -> None:
    path = small_trace(tmp_path / "a.trace", calls=1)
    for numbers in ((0, 1, 2), (1, 2)):
        recorder = Recorder(path, {}, append=True, reason="resumed")
        for number in numbers:
            address = f"/small.0/look.{number}"
            recorder.on_event(ToolStarted(address, "look", "{}", "idempotent", None, None, now()))
            if number == 0 or len(numbers) == 2:  # else the process dies meanwhile
                recorder.on_event(ToolEnded(address, Message("tool", "seen"), None, now()))
        recorder.barrier()
        recorder.writer.abandon()
    found = RunOverview.of(Trace.open(path), most)
    assert found.count == 1 + len(Trace.open(path).tools) == 4
    assert (found.tools, found.functions["/small/look"].tools) == (3, 3)


WRONG = (None, -1, 0, 1 << 40, "", "x", b"", [], [[]], {}, {"$blob": [1, 2, True]}, True, 1.5)


def forged(path: Path, dice: random.Random, into: Path) -> Path:
    """The trace at *path* with one field of one record replaced."""
    blocks = [list(codec.unpack(raw)) for raw in raws(path)]
    chosen = dice.choice([each for each in blocks if each])
    at = dice.randrange(len(chosen))
    fields = list(chosen[at])
    fields[dice.randrange(len(fields))] = dice.choice(WRONG)
    chosen[at] = fields
    encoder = block_file.Encoder()
    data = b"".join(encoder.block(b"".join(map(codec.pack, each))) for each in blocks)
    into.write_bytes(block.MAGIC + data)
    return into


def raws(path: Path) -> list[bytes]:
    with path.open("rb") as file:
        return list(block.scan(file, block.Scan(), salvage=True))


@counts(150, 600)
def test_a_forged_record_is_read_or_named(tmp_path: Path, count: int) -> None:
    dice = random.Random(7)
    for number in range(count):
        path = forged(dice.choice(GOLDEN), dice, tmp_path / "forged.trace")
        try:
            found = RunOverview.of(Trace.open(path), 50)
            tree.lines(found, outcome)
        except TraceError:
            continue
        except Exception as error:
            pytest.fail(f"forgery {number}: {error!r}")


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_spans_cover_their_messages(path: Path) -> None:
    for call in Trace.open(path, salvage=True).calls:
        for message, spans in zip(call.messages or (), call.spans(), strict=True):
            starts = [0, *(span.end for span in spans)]
            assert [span.start for span in spans] == starts[: len(spans)]
            assert not spans or starts[-1] == len(message.content)
