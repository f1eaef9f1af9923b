"""A trace read back: everything that was recorded, once, and cheap where prompts share a beginning."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from made import answer, asked, call, end, now, read_back, small_trace, start

from appl.backend import Request, Response, Sample, Sampling, TokenLogprob, Usage
from appl.errors import BackendBusy, CallCancelled, NotATrace
from appl.prompt import Message, Messages
from appl.testing import (
    AttemptFailed,
    CallDispatched,
    CallEnded,
    Observed,
    RunEnded,
    ScopeEntered,
    Warned,
)
from appl.tracing import Recorder, Trace, new_path, resolve
from appl.tracing.keeping import row_of
from appl.tracing.reading import paths


def test_a_call_comes_back_whole(path: Path) -> None:
    recorder = Recorder(path, {"program": "p", "seed": 2**70})
    request = asked(
        "/p.0/gen.0",
        "hi",
        "hello",
        "and?",
        temperature=1.0,
        stop=("\n",),
        n=2,
        extra=(("top_k", 3),),
    )
    start(recorder, request, line=12)
    tokens = (TokenLogprob("a", -0.5, (("a", -0.5), ("b", -1.5))),)
    response = Response(
        (Sample("one", "stop", tokens), Sample("two", "length")),
        Usage(3, None, 0),
        "m-2",
        (-1.0, -2),
        "logprob",
        17,
    )
    end(recorder, "/p.0/gen.0", response)
    trace = read_back(path, recorder)
    (found,) = trace.calls
    assert found.response == response
    assert list(found.messages or ()) == list(request.messages or ())
    assert found.content == request.digest and found.sampling == request.sampling.canonical()
    assert (found.n, found.ordinal, found.where, found.outcome) == (
        2,
        0,
        "program.py:12",
        "answered",
    )
    assert trace.header["seed"] == 2**70
    json.dumps(trace.as_data())


def test_errors_come_back_with_type_and_message(path: Path) -> None:
    class Own(BackendBusy):
        pass

    recorder = Recorder(path, {})
    errors = [
        BackendBusy("busy"),
        ValueError("bad", 3),
        Own("mine"),
        OSError(5, "I/O"),
        KeyError("k"),
        CallCancelled("x"),
    ]
    for i, error in enumerate(errors):
        start(recorder, asked(f"/p.0/gen.{i}", "q"))
        end(recorder, f"/p.0/gen.{i}", error)
    found = [c.error for c in read_back(path, recorder).calls]
    assert [str(error) for error in found] == [str(error) for error in errors]
    assert [type(e) for e in found] == [
        BackendBusy,
        ValueError,
        BackendBusy,
        OSError,
        KeyError,
        CallCancelled,
    ]
    assert "Own" in found[2].__notes__[0]  # type: ignore[union-attr]


def test_attempts_scopes_observations_and_warnings_come_back(path: Path) -> None:
    recorder = Recorder(path, {})
    recorder.on_event(ScopeEntered("/p.0", "", "p", "program.py", 1, now()))
    recorder.on_event(ScopeEntered("/p.0/helper.0", "/p.0", "helper", "program.py", 5, now()))
    start(recorder, asked("/p.0/helper.0/gen.0", "q"))
    recorder.on_event(AttemptFailed("/p.0/helper.0/gen.0", 1, BackendBusy("429"), now()))
    recorder.on_event(CallDispatched("/p.0/helper.0/gen.0", 2, now()))
    end(recorder, "/p.0/helper.0/gen.0", answer("a"))
    recorder.on_event(Observed("/p.0", 0, "now", (1, {"t": 2.5}), now()))
    recorder.on_event(Warned("/p.0", "careful", now()))
    recorder.on_event(RunEnded("failed", ValueError("why"), now()))
    trace = read_back(path, recorder)
    assert [(s.address, s.parent, s.name, s.line) for s in trace.scopes] == [
        ("/p.0", "", "p", 1), ("/p.0/helper.0", "/p.0", "helper", 5)]  # fmt: skip
    assert [(a.number, str(a.error)) for a in trace.calls[0].attempts] == [(1, "429"), (2, "None")]
    assert trace.observations[0].value == (1, {"t": 2.5})
    assert trace.warnings == [("/p.0", "careful")]
    assert (trace.reason, str(trace.error)) == ("failed", "why")
    assert trace.totals().attempts_failed == 1


def test_a_call_that_ended_without_having_started_is_there(path: Path) -> None:
    recorder = Recorder(path, {})
    recorder.on_event(CallEnded("/p.0/gen.0", None, CallCancelled("c"), now()))
    (found,) = read_back(path, recorder).calls
    assert (found.address, found.outcome, found.started) == ("/p.0/gen.0", "cancelled", None)


def test_edges_name_the_calls_whose_answers_a_prompt_holds(path: Path) -> None:
    recorder = Recorder(path, {})
    call(recorder, "/p.0/gen.0", "a")
    start(recorder, asked("/p.0/gen.1", "b"), edges=("/p.0/gen.0", "/q.0/gen.5"))
    assert read_back(path, recorder).calls[1].edges == ("/p.0/gen.0", "/q.0/gen.5")


@pytest.mark.parametrize(
    "text", ["\ud800\udfff", "a\x00b", "x" * 10_000_000, "é" * 2_000_000, "", "\x1b]52;c;aGk=\x07"]
)
def test_any_text_survives_in_prompt_and_answer(path: Path, text: str) -> None:
    recorder = Recorder(path, {})
    call(recorder, "/p.0/gen.0", text, text)
    recorder.on_event(
        Observed(
            "/p.0",
            0,
            "read",
            {"text": text, "bytes": text[:2000000].encode("utf-8", "surrogatepass")},
            now(),
        )
    )
    trace = read_back(path, recorder)
    assert trace.calls[0].messages and trace.calls[0].messages.message.content == text
    assert trace.calls[0].response == answer(text)
    assert trace.observations[0].value["text"] == text
    recorder = Recorder(path, {}, append=True)
    recorder.close()


def test_a_growing_chat_costs_only_what_is_new(path: Path) -> None:
    import random

    recorder, chain, sampling = Recorder(path, {}), None, Sampling()
    letters = random.Random(1)
    sizes = []
    for turn in range(200):
        said = "".join(letters.choices("abcdefghijklmnopqrstuvwxyz ", k=500))
        chain = Messages(chain, Message("user", said))
        start(recorder, Request(f"/p.0/gen.{turn}", turn, "m", chain, sampling))
        chain = Messages(chain, Message("assistant", said[::-1]))
        end(recorder, f"/p.0/gen.{turn}", answer(said[::-1]))
        recorder.barrier()
        sizes.append(path.stat().st_size)
    early, late = sizes[50] - sizes[0], sizes[199] - sizes[149]
    assert late < early * 1.1
    found = read_back(path, recorder).calls[-1]
    assert len(found.messages or ()) == 399


def test_a_chain_of_100_000_messages_is_read_without_recursion(path: Path) -> None:
    chain = Messages.of(Message("user", f"{i % 7}") for i in range(100_000))
    recorder = Recorder(path, {})
    start(recorder, Request("/p.0/gen.0", 0, "m", chain, Sampling()))
    assert len(read_back(path, recorder).calls[0].messages or ()) == 100_000


def test_a_prompt_of_short_messages_that_is_larger_than_a_block_is_recorded(path: Path) -> None:
    said = [f"{i} " + "x" * 4000 for i in range(4500)]  # 18 MB; a block holds 16
    recorder = Recorder(path, {})
    chain = Messages.of(Message("user", each) for each in said)
    start(recorder, Request("/p.0/gen.0", 0, "m", chain, Sampling()))
    found = read_back(path, recorder).calls[0].messages or ()
    assert [message.content for message in found] == said


def test_forgetting_what_was_written_costs_bytes_and_nothing_else(path: Path) -> None:
    recorder = Recorder(path, {})
    recorder.encoder.written.most_records, recorder.encoder.written.most_text = 2, 3
    chains = [
        Messages.of([Message("user", f"q{i}"), Message("assistant", "a"), Message("user", "b")])
        for i in range(10)
    ]
    for i in range(40):
        start(recorder, Request(f"/p.{i % 5}/gen.{i}", i, f"m{i % 4}", chains[i % 10], Sampling()))
        if i % 3:
            recorder.barrier()  # it forgets after a group
    for i in range(40):
        end(recorder, f"/p.{i % 5}/gen.{i}", answer(f"answer {i}"))
    trace = read_back(path, recorder)
    assert [c.response.text for c in trace.calls if c.response] == [
        f"answer {i}" for i in range(40)
    ]
    assert all(
        list(c.messages or ()) == list(chains[i % 10] or ()) for i, c in enumerate(trace.calls)
    )
    assert [c.model for c in trace.calls] == [f"m{i % 4}" for i in range(40)]


def test_totals_keep_unknown_apart_from_zero(path: Path) -> None:
    recorder = Recorder(path, {})
    for i, (used, cost) in enumerate([(Usage(10, 5, 0), 7), (Usage(1, None, None), None)]):
        start(recorder, asked(f"/p.0/gen.{i}", "q"))
        end(recorder, f"/p.0/gen.{i}", answer("a", usage=used, cost=cost))
    start(recorder, asked("/p.0/gen.2", "q"))
    sums = read_back(path, recorder).totals()
    assert (sums.calls, sums.answered, sums.in_flight) == (3, 2, 1)
    assert sums.tokens == {"prompt_tokens": 11, "completion_tokens": 5, "cached_tokens": 0}
    assert sums.unknown == {"prompt_tokens": 0, "completion_tokens": 1, "cached_tokens": 1}
    assert (sums.cost, sums.cost_unknown) == (7, 1)


# -- the runs of a folder


def test_runs_are_listed_by_their_time_with_state_and_totals(tmp_path: Path) -> None:
    made = [small_trace(new_path(f"p{i}", tmp_path / "runs"), calls=i) for i in range(3)]
    crashed = small_trace(new_path("p3", tmp_path / "runs"), close=False)
    (tmp_path / "runs" / "00000000T000000.000Z-bad-0000.trace").write_text("no trace at all")
    bad, *found = map(row_of, paths(tmp_path))
    assert [run.path for run in found] == [*made, crashed]
    assert [run.state for run in found] == ["finished", "finished", "finished", "crashed"]
    assert [run.totals.get("calls") for run in found] == [0, 1, 2, 3]
    assert bad.state == "unreadable" and "not a trace" in bad.error
    json.dumps([run.as_data() for run in (bad, *found)])


def test_the_summary_of_a_finished_run_says_what_reading_it_whole_says(path: Path) -> None:
    small_trace(path, calls=5)
    quick, whole = row_of(path), Trace.open(path)
    sums = whole.totals().as_data()
    assert {name: quick.totals[name] for name in sums if name != "in_flight"} == {
        n: v for n, v in sums.items() if n != "in_flight"
    }
    assert quick.began == whole.began().isoformat()  # type: ignore[union-attr]


def test_a_run_is_named_by_path_prefix_program_or_last(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    one, two = (small_trace(new_path(name, runs)) for name in ("interview", "debate"))
    assert resolve("last", tmp_path) == resolve(at=tmp_path) == two
    assert (
        resolve(str(one), tmp_path)
        == resolve(one.name, tmp_path)
        == resolve(one.stem, tmp_path)
        == one
    )
    assert resolve("interview", tmp_path) == one
    with pytest.raises(NotATrace, match="beginning of 2 runs"):
        resolve("20", tmp_path)
    with pytest.raises(NotATrace, match="did you mean"):
        resolve(one.stem[:-1] + "x", tmp_path)
    with pytest.raises(NotATrace, match="no run is recorded"):
        resolve("last", tmp_path / "empty")


@pytest.mark.parametrize("program", ["../../etc/passwd", "a b/c\x00", "", "é" * 300, "-rf"])
def test_a_program_name_never_leaves_the_folder(tmp_path: Path, program: str) -> None:
    made = new_path(program, tmp_path)
    assert made.parent == tmp_path and len(made.name) < 100 and "\x00" not in made.name


@pytest.mark.parametrize(
    "make",
    [
        lambda p: p.mkdir(),
        lambda p: None,
        lambda p: __import__("os").mkfifo(p),
        lambda p: p.symlink_to(p),
    ],
)
def test_what_is_no_file_is_no_trace(tmp_path: Path, make: Any) -> None:
    odd = tmp_path / "odd.trace"
    make(odd)
    with pytest.raises(NotATrace):
        Trace.open(odd)
