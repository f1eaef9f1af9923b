"""What a tape looks like, what can be edited in it, and what a bad one is told."""

from __future__ import annotations

import json
import os
import random
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from made import answer, asked, end, small_trace, start

from appl import AIRole, Image, gen, ppl
from appl.errors import DivergenceError, NotATrace, TraceCorrupt, TraceError, TraceTooNew
from appl.session import replayed
from appl.testing import Echo, Run, Scripted, Seeded, Streamed
from appl.tracing import Recorder, Replayer, Trace, profile_data, tape
from appl.tracing.tape import places


@ppl
def chat(*questions: str) -> list[str]:
    said = []
    for question in questions:
        f"{question}"
        with AIRole():
            (answer := gen())
        said.append(answer)
    return [str(each) for each in said]


@ppl(parallel=True)
def ask(question: str):  # type: ignore[no-untyped-def]
    f"{question}\nAnswer in one word."
    return gen()


def both() -> list[str]:
    return [str(each) for each in [ask(f"question {i}") for i in range(12)]]


def recorded(path: Path, program: Any, backend: Any, **options: Any) -> tuple[Trace, Any]:
    """The trace of *program*, run on *backend*, and its value."""
    head = {"program": "p", "profile": profile_data(backend.profile)}
    recorder = Recorder(path, head, durability="process", **options)
    with Run(backend, instruments=[recorder], gate=recorder.gate, barrier=recorder.barrier):
        value = program()
    recorder.close()
    return Trace.open(path), value


def on_tape(tmp_path: Path, program: Any, backend: Any, **options: Any) -> Path:
    trace, _ = recorded(tmp_path / "a.trace", program, backend, **options)
    tape.save(trace, tmp_path / "a.jsonl")
    return tmp_path / "a.jsonl"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


# -- what a reviewer sees


def test_a_tape_is_lines_of_json_with_the_records_of_the_table_and_says_each_message_once(
    tmp_path: Path,
) -> None:
    path = on_tape(tmp_path, lambda: chat("one?", "two?"), Scripted(["first", "second\nline"]))
    text = path.read_text("utf-8")
    content = [line for line in text.splitlines() if '"header"' not in line]
    assert content == [
        '{"tape": "appl", "format": 2}',
        '{"record": "message", "id": "/chat.0/gen.0#1", "role": "user", "content": "one?"}',
        '{"record": "prompt"}',
        '{"record": "parameters", "id": "3bb7c1c673", "model": "", "options": {}}',
        '{"record": "start", "scope": "/chat.0", "leaf": "gen.0", "kind": "gen", '
        '"prompt": "/chat.0/gen.0#1", "parameters": "3bb7c1c673"}',
        '{"record": "end", "call": "/chat.0/gen.0", '
        '"value": [[["first", "stop", null]], [1, 1, null], "", null, null, null]}',
        '{"record": "message", "id": "/chat.0/gen.1#2", "role": "assistant", "content": "first"}',
        '{"record": "prompt", "parent": "/chat.0/gen.0#1"}',
        '{"record": "message", "id": "/chat.0/gen.1#3", "role": "user", "content": "two?"}',
        '{"record": "prompt", "parent": "/chat.0/gen.1#2"}',
        '{"record": "start", "scope": "/chat.0", "leaf": "gen.1", "ordinal": 1, "kind": "gen", '
        '"prompt": "/chat.0/gen.1#3", "parameters": "3bb7c1c673", "edges": ["/chat.0/gen.0"]}',
        '{"record": "end", "call": "/chat.0/gen.1", '
        '"value": [[[{"$blob": 0}, "stop", null]], [3, 2, null], "", null, null, null]}',
        '{"text": "second\\n"}',
        '{"text": "line"}',
        '{"record": "delivery", "call": "/chat.0/gen.0"}',
        '{"record": "delivery", "call": "/chat.0/gen.1"}',
        '{"record": "close", "reason": "finished"}',
    ]


def test_two_recordings_under_other_schedules_differ_only_in_the_order_of_deliveries(
    tmp_path: Path,
) -> None:
    found = []
    for seed in (1, 2):
        trace, _ = recorded(tmp_path / f"{seed}.trace", both, Seeded(seed))
        found.append([line for line in tape.write(trace) if '"delivery"' not in line])
        told = [line for line in tape.write(trace) if '"delivery"' in line]
        assert len(told) == 12
    assert found[0] == found[1]


def test_no_clock_process_host_or_folder_stands_in_a_tape_that_was_not_asked_to_be_full(
    tmp_path: Path,
) -> None:
    trace, _ = recorded(tmp_path / "a.trace", both, Echo())
    short, full = "".join(tape.write(trace)), "".join(tape.write(trace, full=True))
    for text in (str(os.getpid()), os.uname().nodename, __file__):
        assert text not in short
        assert text in full
    assert short.count("\n") < full.count("\n")


def test_a_full_tape_gives_times_source_lines_and_attempts_back(tmp_path: Path) -> None:
    trace, _ = recorded(tmp_path / "a.trace", both, Echo())
    tape.save(trace, tmp_path / "a.jsonl", full=True)
    again = Trace.open(tmp_path / "a.jsonl")
    for address, call in trace.by_address.items():
        other = again.by_address[address]
        for name in ("where", "started", "ended", "delivered_at", "first", "incarnation", "source"):
            assert getattr(other, name) == getattr(call, name)
        assert other.attempts == call.attempts
    assert [each.address for each in again.calls] == [each.address for each in trace.calls]
    assert again.scopes == trace.scopes
    assert again.incarnations == trace.incarnations
    assert again.header == trace.header
    assert "".join(tape.write(again, full=True)) == "".join(tape.write(trace, full=True))


def test_addresses_are_in_program_order_with_numbers_as_numbers() -> None:
    mixed = ["/b.10/gen.0", "/b.2/gen.11", "/b.2/gen.2", "/b.2", "", "/~1f/gen.0"]
    assert places.in_order(mixed) == ["", "/b.2", "/b.2/gen.2", "/b.2/gen.11", "/b.10/gen.0", "/~1f/gen.0"]  # fmt: skip
    assert places.after_their_needs({"/a": ["/c"], "/b": [], "/c": ["/b", "/x"]}) == ["/b", "/c", "/a"]  # fmt: skip
    circle = {"/a": ["/b"], "/b": ["/a"]}
    assert set(places.after_their_needs(circle)) == {"/a", "/b"}


def test_what_a_terminal_or_an_editor_would_obey_is_written_as_an_escape(tmp_path: Path) -> None:
    evil = "a\x1b[2Jb\u202ec\u2028d\x9be\ud800f\U000e0041 \u00e9\u4f60 \U0001f469\u200d\U0001f680"
    path = on_tape(tmp_path, lambda: str(ask(evil)), Scripted([evil]))
    text = path.read_text("utf-8")
    assert all(c.isprintable() or c in "\n\u200d" for c in text)
    assert "\u00e9\u4f60 \U0001f469\u200d\U0001f680" in text
    with replayed(path):
        assert str(ask(evil)) == evil


# -- what is kept


VALUES = [
    None, True, 2**70, -0.0, float("inf"), "text", b"\x00\xff", (1, [2]), {"$x": 1, 3: "n"}, "\ud800",
]  # fmt: skip


def test_values_that_json_does_not_know_come_back_as_they_were(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "a.trace")
    from appl.testing import Observed

    for number, value in enumerate([*VALUES, float("nan")]):
        recorder.on_event(Observed("/f.0", number, "observe", value, 1))
    recorder.close()
    tape.save(Trace.open(tmp_path / "a.trace"), tmp_path / "a.jsonl")
    *found, nan = [each.value for each in tape.read(tmp_path / "a.jsonl").observations]
    assert found == VALUES
    assert [type(each) for each in found] == [type(each) for each in VALUES]
    assert nan != nan


@ppl
def look(picture: Image) -> str:
    "What is this?"
    picture
    return str(gen())


def test_an_image_is_written_once_and_comes_back(tmp_path: Path) -> None:
    picture = Image.from_bytes(b"\x89PNG\r\n\x1a\n" + bytes(3000))

    def program() -> list[str]:
        return [look(picture), look(picture)]

    backend = Scripted(["a", "b"], features={"images"})
    path = on_tape(tmp_path, program, backend)
    assert sum('"record": "medium"' in line for line in path.read_text().splitlines()) == 1
    with replayed(path):
        assert program() == ["a", "b"]


def test_a_prompt_that_goes_on_is_written_by_what_was_added(tmp_path: Path) -> None:
    @ppl
    def grow() -> list[str]:
        "x" * 9000
        said = []
        for number in range(20):
            f"more {number}"
            said.append(str(gen()))
        return said

    trace, value = recorded(tmp_path / "a.trace", grow, Echo())
    tape.save(trace, tmp_path / "a.jsonl")
    assert (tmp_path / "a.jsonl").stat().st_size < 9000 + 20 * 550
    with replayed(tmp_path / "a.jsonl"):
        assert grow() == value
    last = tape.read(tmp_path / "a.jsonl").by_address["/grow.0/gen.19"]
    then = trace.by_address["/grow.0/gen.19"]
    assert last.messages is not None and then.messages is not None
    assert list(last.messages) == list(then.messages)


SECRET = "key-0123456789"


def test_a_call_whose_prompt_was_masked_says_so_and_is_replayed(tmp_path: Path) -> None:
    path = on_tape(tmp_path, lambda: str(ask(f"my {SECRET}")), Echo(), secrets={"K": SECRET})
    assert "0123456789" not in path.read_text()
    assert Trace.open(path).calls[0].masked == ("K",)
    with replayed(path):
        assert len(str(ask(f"my {SECRET}"))) == 6
    with pytest.raises(DivergenceError), replayed(path):
        str(ask("my [secret K]"))


def test_a_call_whose_answer_was_masked_says_so_and_is_not_replayed(tmp_path: Path) -> None:
    path = on_tape(tmp_path, lambda: str(ask("my?")), Scripted([SECRET]), secrets={"K": SECRET})
    assert "0123456789" not in path.read_text()
    with pytest.raises(TraceError, match="masked"), replayed(path):
        str(ask("my?"))


def test_a_run_that_was_cut_off_is_on_tape_as_far_as_it_came(tmp_path: Path) -> None:
    path = tmp_path / "a.trace"
    recorder = Recorder(path)
    start(recorder, asked("/f.0/gen.0", "q"))
    start(recorder, asked("/f.0/gen.1", "r"))
    end(recorder, "/f.0/gen.0", answer("a"), told=False)
    recorder.close()
    tape.save(Trace.open(path), tmp_path / "a.jsonl")
    first, second = tape.read(tmp_path / "a.jsonl").calls
    assert (first.outcome, first.delivered, second.outcome) == ("answered", None, None)


# -- what can be edited


def test_an_answer_that_was_edited_by_hand_is_given(tmp_path: Path) -> None:
    path = on_tape(tmp_path, lambda: str(ask("question")), Scripted(["Yes"]))
    path.write_text(path.read_text().replace('"Yes"', '"No,\\nnever"'))
    with replayed(path):
        assert str(ask("question")) == "No,\nnever"


def test_a_streamed_answer_keeps_its_chunks_as_far_as_they_go_when_it_is_edited(
    tmp_path: Path,
) -> None:
    @ppl
    def streamed() -> list[str]:
        "question"
        return list(gen(stream=True).text_stream)

    path = on_tape(tmp_path, streamed, Scripted([Streamed(("ab", "cd", "ef"))]))
    before = path.read_text()
    for said, chunks in (("abXYef", ["ab", "XY", "ef"]), ("abc", ["ab", "c"]), ("abcdefgh", ["ab", "cd", "efgh"])):  # fmt: skip
        path.write_text(before.replace('"abcdef"', json.dumps(said)))
        with replayed(path):
            assert streamed() == chunks


def test_a_prompt_can_be_edited_too_and_an_answer_that_others_hold_needs_it(tmp_path: Path) -> None:
    path = on_tape(tmp_path, lambda: chat("one?", "two?"), Scripted(["first", "second"]))
    edited = path.read_text().replace('"first"', '"FIRST"', 1)
    path.write_text(edited)
    with pytest.raises(DivergenceError, match="FIRST"), replayed(path):
        chat("one?", "two?")
    path.write_text(edited.replace('"first"', '"FIRST"'))
    with replayed(path):
        assert chat("one?", "two?") == ["FIRST", "second"]


def test_blank_lines_and_another_order_of_keys_do_not_matter(tmp_path: Path) -> None:
    path = on_tape(tmp_path, lambda: str(ask("question")), Scripted(["Yes"]))
    records = lines(path)
    path.write_text("\n\n".join(json.dumps(dict(reversed(r.items()))) for r in records))
    with replayed(path):
        assert str(ask("question")) == "Yes"


# -- how it is written


def test_a_tape_replaces_another_as_a_whole_and_is_readable_as_other_files_are(
    tmp_path: Path,
) -> None:
    path = tmp_path / "deep" / "folder" / "a.jsonl"
    trace = Trace.open(small_trace(tmp_path / "a.trace"))
    tape.save(trace, path)
    before = path.read_text()
    plain = tmp_path / "plain"
    plain.touch()
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)
    trace.calls[0].sampling = "\x00"
    trace.header["seed"] = object()
    with pytest.raises(TypeError):
        tape.save(trace, path)
    assert path.read_text() == before
    assert [each.name for each in path.parent.iterdir()] == ["a.jsonl"]


# -- what a stranger may hand over


def bad(tmp_path: Path, text: str | bytes) -> TraceError:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    with pytest.raises(TraceError) as found:
        Trace.open(path)
    return found.value


HEAD = '{"tape": "appl", "format": 2}\n'
OPTIONS = '{"record": "parameters", "id": "o", "model": "m", "options": {}}\n'
CALL = (
    '{"record": "start", "scope": "", "leaf": "a.0", "kind": "gen", "prompt": "p", '
    '"parameters": "o"}\n'
)
ASKED = (
    '{"record": "message", "id": "p", "role": "user", "content": "q"}\n'
    '{"record": "prompt", "id": "p"}\n'
) + OPTIONS
PROCESS = (
    '{"record": "process", "number": 1, "pid": 1, "host": "h", "reason": "new", "wall_ns": 1}\n'
)
END = '{"record": "end", "call": "/a.0", "value": [[["a", "stop", null]], [1, 1, 1], "", null, null, null]}\n'


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "{" + CALL,
        HEAD + "[1]\n",
        HEAD + ASKED + CALL + CALL,
        HEAD + '{"text": "nothing goes on"}\n',
        HEAD + ASKED + '{"text": "nothing goes on"}\n' + CALL,
        HEAD + ASKED.replace('"q"', '{"$blob": 0}'),
        HEAD + ASKED.replace('"q"', '{"$blob": 0}') + '{"of": 1, "text": "q"}\n',
        HEAD + ASKED.replace('"q"', '{"$blob": 0}\n{"text": 1}\n'),
        HEAD + ASKED.replace('"q"', "1"),
        HEAD + ASKED.replace("user", "boss"),
        HEAD + ASKED.replace('"id": "p"', '"id": ["p"]'),
        HEAD + ASKED.replace("}", ', "parent": "p"}'),
        HEAD + ASKED.replace("}", ', "tag": "M"}', 1),
        HEAD + ASKED.replace("}", ', "masked": [1]}', 1),
        HEAD + ASKED.replace("}", ', "more": {"media": [[0, "b2:00"]]}}', 1),
        HEAD + '{"record": "longer", "id": "p", "message": "x", "text": ""}\n',
        HEAD + CALL,
        HEAD + OPTIONS + CALL,
        HEAD + ASKED + CALL.replace('"kind": "gen", ', ""),
        HEAD + ASKED + CALL.replace('"gen"', "1"),
        HEAD + ASKED + CALL.replace('"kind"', '"content": "b2:00", "kind"'),
        HEAD + ASKED + CALL + END + END.replace('"value"', '"status": 3, "value"'),
        HEAD + ASKED + CALL + END.replace("}", ', "lengths": [0]}'),
        HEAD + ASKED + CALL + END.replace('[["a", "stop", null]]', "[]").replace('""', "1"),
        HEAD + '{"record": "delivery", "call": "/nobody"}\n',
        HEAD + '{"record": "tool end", "call": "/nobody", "value": "x"}\n',
        HEAD + '{"record": "nothing"}\n',
        HEAD + '{"record": ["end"]}\n',
        HEAD + '{"record": "header", "facts": {"x": NaN}}\n',
        HEAD + '{"record": "header", "facts": {"x": {"$nothing": 1}}}\n',
        HEAD + '{"record": "header", "facts": {"x": ' + "[" * 100_000 + "]" * 100_000 + "}}\n",
        HEAD + '{"record": "header", "facts": {"x": ' + "9" * 10_000 + "}}\n",
        HEAD + ASKED + CALL.replace("}", f', "at": {2**64}}}'),
        HEAD + PROCESS.replace("1}", f"{2**64}}}"),
        HEAD + OPTIONS.replace("{}", '{"a": ' * 3000 + "1" + "}" * 3000),
        HEAD
        + '{"record": "end", "call": "/a", "status": 1, "value": ["a.B", "ValueError", "m", 3]}\n',
        HEAD + "\x00\x01",
        HEAD.encode() + b'{"record": "header", "facts": {"x": "\xff"}}\n',
    ],
)
def test_a_bad_tape_is_a_named_error_with_its_line(tmp_path: Path, text: str | bytes) -> None:
    error = bad(tmp_path, text)
    assert "bad.jsonl" in str(error)
    assert isinstance(error, TraceCorrupt | NotATrace)


def test_options_may_hold_a_number_of_any_size(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(HEAD + PROCESS + ASKED.replace("{}", f'{{"seed": {2**70}}}') + CALL)
    first = Trace.open(path)
    assert json.loads(first.calls[0].sampling) == {"seed": 2**70}
    path.write_text("".join(tape.write(first, full=True)))
    assert Trace.open(path).calls[0].sampling == first.calls[0].sampling


def test_the_line_that_is_named_is_the_one_that_is_wrong(tmp_path: Path) -> None:
    assert "line 6: " in str(bad(tmp_path, HEAD + ASKED + CALL + "<<<<<<< HEAD\n"))
    wrong = END.replace('"a"', "1")
    assert "line 6: " in str(bad(tmp_path, HEAD + ASKED + CALL + wrong + '{"text": "x"}\n'))
    assert "line 2: " in str(bad(tmp_path, HEAD + ASKED.replace('"q"', "1") + CALL + END))
    late = bad(tmp_path, HEAD + PROCESS.replace("1}", f"{2**64}}}") + ASKED)
    assert "line 2: TypeError: expected int, found IntOfMoreThan64Bits" in str(late)
    nobody = '{"record": "delivery", "call": "/nobody"}\n'
    error = bad(tmp_path, HEAD + ASKED + CALL + nobody + END)
    assert "line 6: there is no '/nobody'" in str(error)


def test_a_tape_of_another_format_is_named(tmp_path: Path) -> None:
    before = bad(tmp_path, HEAD.replace("2", "1"))
    assert "a tape of format 1, which no release has written; record it again" in str(before)
    assert "reads format 2" in str(bad(tmp_path, HEAD.replace("2", "3")))


def test_a_misspelt_field_and_one_that_is_missing_are_named(tmp_path: Path) -> None:
    error = str(bad(tmp_path, HEAD + ASKED + CALL.replace("kind", "kinds")))
    assert "a start has no kind; its fields are id, scope, leaf" in error
    error = str(bad(tmp_path, HEAD + ASKED + CALL.replace("}", ', "tiemout": 1}')))
    assert "a start has an unknown 'tiemout'" in error


def test_a_tape_of_a_later_format_and_one_that_is_too_large_are_refused(tmp_path: Path) -> None:
    assert isinstance(bad(tmp_path, HEAD.replace("2", "3")), TraceTooNew)
    path = tmp_path / "large.jsonl"
    path.write_text(HEAD + ASKED + CALL)
    with pytest.raises(TraceCorrupt, match="far more memory"):
        Trace.open(path, limit=200)
    assert Trace.open(path, limit=20_000).calls


def test_addresses_nested_without_end_and_long_texts_that_go_on_take_no_memory(
    tmp_path: Path,
) -> None:
    deep = ASKED + CALL.replace('"scope": ""', '"scope": "' + "/a" * 200_000 + '"')
    assert isinstance(bad(tmp_path, HEAD + deep), TraceCorrupt)
    many = '{"record": "header", "facts": {"x": [' + "[]," * 1_500_000 + "1]}}\n"
    assert "far more memory" in str(bad(tmp_path, HEAD + many))
    grows = HEAD + OPTIONS + '{"record": "message", "id": "p0", "role": "user", "content": "'
    grows += "x" * 100_000 + '"}\n{"record": "prompt", "id": "p0"}\n'
    digest = f'"digest": "b2:{"0" * 32}"'
    for number in range(1, 2000):
        grows += CALL.replace("a.0", f"a.{number}").replace('"p"', f'"p{number - 1}"')
        grows += (
            f'{{"record": "longer", "id": "p{number}", "message": "p{number - 1}", "text": "y"}}\n'
        )
        grows += f'{{"record": "prompt", "id": "p{number}", {digest}}}\n'
    path = tmp_path / "grows.jsonl"
    path.write_text(grows)
    code = (
        "import resource, sys; from appl.tracing import Trace;"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss;"
        "assert len(Trace.open(sys.argv[1]).calls) == 1999;"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=60)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 50  # MiB
    short = grows.replace(f", {digest}", "")
    assert "digest" in str(bad(tmp_path, short))


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32))
def test_a_tape_with_changed_bytes_or_lines_is_a_trace_or_a_named_error(seed: int) -> None:
    dice, data = random.Random(seed), bytearray(_sample())
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(len(data))
        kind = dice.randrange(4)
        if kind == 0:
            data[at] = dice.randrange(256)
        elif kind == 1:
            del data[at : at + dice.randrange(60)]
        elif kind == 2:
            data[at:at] = data[dice.randrange(len(data)) :][: dice.randrange(200)]
        else:
            rows = data.split(b"\n")
            dice.shuffle(rows[1:]) if dice.random() < 0.5 else rows.pop(dice.randrange(len(rows)))
            data = bytearray(b"\n".join(rows))
    _read(bytes(data))


NUMBERS = [b"1e999", b"-1", *(str(2**bits).encode() for bits in (63, 64, 1100, 14_000))]


def test_a_tape_with_a_number_of_any_size_in_any_place_is_a_trace_or_a_named_error() -> None:
    data = _sample()
    places = [m.span() for m in re.finditer(rb"(?<=[:,] )\d+(?=[,\]}])|(?<=\[)\d+(?=[,\]])", data)]
    assert len(places) > 100
    for first, after in places:
        for number in NUMBERS:
            _read(data[:first] + number + data[after:])


def _read(data: bytes) -> None:
    """Read *data* as a tape, and all that it holds, unless it is refused."""
    path = _FOLDER / "some.jsonl"
    path.write_bytes(data)
    try:
        trace = Trace.open(path)
    except TraceError:
        return
    Replayer(trace)
    "".join(tape.write(trace, full=True))
    trace.as_data()


_FOLDER = Path(__import__("tempfile").mkdtemp())


def _sample() -> bytes:
    path = _FOLDER / "sample.jsonl"
    if not path.exists():
        from rehearsal import record

        record(5, _FOLDER / "sample.trace")
        trace = Trace.open(_FOLDER / "sample.trace")
        trace.calls = trace.calls[:30]
        tape.save(trace, path, full=True)
    return path.read_bytes()
