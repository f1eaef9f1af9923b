"""The data that the viewer shows, against what the trace says."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from large import large_trace
from made import USAGE, answer, asked, call, end, now, small_trace, start
from markup import hostile_trace

from appl import gen, ppl
from appl.backend import Usage
from appl.errors import BackendBusy, TraceError
from appl.prompt import Message
from appl.testing import AttemptFailed, Run, Scripted, ToolEnded, ToolStarted
from appl.tracing import Recorder, Trace
from appl.tracing.viewer import View, Views
from appl.tracing.viewer.page_data import as_json
from appl.tracing.viewer.prefixes import PrefixTree
from appl.tracing.viewer.rows import NUMBERS, OUTCOMES, Rows


def whole(path: Path) -> View:
    view = View(path)
    view.read()
    return view


def table(changes: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """What a page that applies all *changes* knows, by address."""
    found: dict[str, dict[str, Any]] = {}
    for each in changes:
        for i, address in enumerate(each["address"]):
            row = {name: each[name][i] for name in (*NUMBERS, "said", "uses")}
            found[address] = {**row, "row": each["rows"][i]}
    return found


def test_a_row_says_what_the_call_took(path: Path) -> None:
    recorder = Recorder(path)
    start(recorder, asked("/f.0/gen.0", "hello", model="m/one"), line=9)
    recorder.on_event(AttemptFailed("/f.0/gen.0", 1, BackendBusy("busy"), now(), 0.1))
    end(recorder, "/f.0/gen.0", answer("a  long\nanswer", usage=Usage(10, 5, 8), cost=70))
    start(recorder, asked("/f.0/gen.1", "next"), edges=("/f.0/gen.0",))
    recorder.close()
    with closing(whole(path)) as view:
        changes = view.document("rows", {})
        rows = table([changes])
        first, second = rows["/f.0/gen.0"], rows["/f.0/gen.1"]
        strings = changes["strings"]
        assert strings[first["model"]] == "m/one"
        assert strings[first["file"]] == "program.py"
        assert {name: first[name] for name in ("line", "prompt", "completion", "cached", "cost")} == {
            "line": 9, "prompt": 10, "completion": 5, "cached": 8, "cost": 70,
        }  # fmt: skip
        assert (first["attempts"], first["failed"], first["said"]) == (1, 1, "a long answer")
        assert 0 <= first["started"] <= first["asked"] <= first["ended"]
        assert (OUTCOMES[second["outcome"]], second["ended"], second["uses"]) == (
            "in flight",
            -1,
            [0],
        )


def test_changes_page_by_page_make_the_same_table_as_all_at_once(path: Path) -> None:
    trace = Trace.open(large_trace(path, 300))
    rows = Rows(trace)
    addresses = list(trace.by_address)
    rows.touch(addresses)
    rows.touch(addresses[:50])
    pages, since = [], 0
    while True:
        page = rows.changes(since, most=40)
        pages.append(page)
        since = page["next"]
        if not page["more"]:
            break
    assert len(pages) == 9
    assert table(pages) == table([rows.changes()])
    assert sorted(row["row"] for row in table(pages).values()) == list(range(300))


def test_of_a_long_run_what_was_read_is_told_before_more_is_read(path: Path) -> None:
    recorder = Recorder(path)
    for i in range(5):
        call(recorder, f"/gen.{i}", "say")
        recorder.barrier()
    recorder.close()
    with closing(View(path, patience=-1)) as view:  # reads a block at a time
        while not view.rows.news(0):
            view.read(-1)
        pages = [view.document("rows", {})]
        view.document("call", {"row": "0"})
        assert (pages[0]["size"], pages[0]["more"], len(view.rows)) == (1, True, 1)
        assert view.document("run", {})["state"] == "reading"
        while pages[-1]["more"]:
            pages.append(view.document("rows", {"since": str(pages[-1]["next"])}))
        assert len(pages) >= 5
        with closing(whole(path)) as other:
            assert table(pages) == table([other.document("rows", {})])


def test_calls_that_are_asked_for_while_a_run_is_read_cost_no_row(path: Path) -> None:
    large_trace(path, 2_000)
    told: list[str] = []
    with closing(View(path, patience=0.005)) as view:
        changes = view.document("rows", {"since": "0"})
        rows, over = set(changes["rows"]), Event()

        def ask() -> None:
            while not over.is_set():
                told.append(view.document("call", {"row": "0"})["address"])

        asking = Thread(target=ask)
        asking.start()
        while changes["more"]:
            changes = view.document("rows", {"since": str(changes["next"])})
            rows.update(changes["rows"])
        over.set()
        asking.join()
    assert rows == set(range(len(Trace.open(path).calls)))
    assert set(told) == {Trace.open(path).calls[0].address}


def test_a_run_that_grows_changes_only_what_was_touched(path: Path) -> None:
    recorder = Recorder(path)
    start(recorder, asked("/gen.0", "one"))
    call(recorder, "/gen.1", "two")
    recorder.barrier()
    with closing(whole(path)) as view:
        first = view.document("rows", {})
        end(recorder, "/gen.0", answer("late"))
        call(recorder, "/gen.2", "three")
        recorder.close()
        view.read()
        second = view.document("rows", {"since": str(first["next"])})
        assert second["address"] == ["/gen.0", "/gen.2"]
        assert second["rows"] == [0, 2]
        assert view.document("run", {})["state"] == "finished"


def test_a_call_is_told_whole_and_shared_messages_once(path: Path) -> None:
    recorder = Recorder(path)
    call(recorder, "/gen.0", "shared", "an answer")
    start(recorder, asked("/gen.1", "shared", "an answer", "and then?"), edges=("/gen.0",))
    end(recorder, "/gen.1", answer("one", "two"))
    recorder.close()
    with closing(whole(path)) as view:
        first, second = (view.document("call", {"row": row}) for row in "01")
        assert first["messages"] == second["messages"][:1]
        numbers = ",".join(map(str, second["messages"]))
        messages = view.document("messages", {"ids": numbers})
        assert [(each["role"], each["text"]) for each in messages] == [
            ("user", "shared"), ("assistant", "an answer"), ("user", "and then?"),
        ]  # fmt: skip
        assert [sample["text"] for sample in second["samples"]] == ["one", "two"]


def test_the_origin_of_a_piece_of_prompt_is_the_call_that_said_it(path: Path) -> None:
    recorder = Recorder(path)
    call(recorder, "/gen.0", "who?", "Mira 🙂 Holt")
    call(recorder, "/gen.1", "when?", "in 1921")
    prompt = "🙂 It was Mira 🙂 Holt, in 1921."
    start(recorder, asked("/gen.2", prompt), edges=("/gen.1", "/gen.0"))
    recorder.close()
    with closing(whole(path)) as view:
        spans = view.document("call", {"row": "2"})["spans"]
        units = prompt.encode("utf-16-le")
        texts = [units[2 * start : 2 * stop].decode("utf-16-le") for _, start, stop, *_ in spans]
        assert [(text, row) for text, (*_, row, _) in zip(texts, spans, strict=True) if row >= 0] == [
            ("Mira 🙂 Holt", 0), ("in 1921", 1),
        ]  # fmt: skip


@ppl
def writes() -> str:
    "Who wrote it?"
    author = gen()
    f"Then {author} it was."
    return str(gen())


def test_the_origin_of_a_piece_is_its_source_line_or_its_call(path: Path) -> None:
    recorder = Recorder(path)
    with Run(Scripted(["Mira Holt", "done"]), instruments=[recorder], gate=recorder.gate):
        assert str(writes()) == "done"
    recorder.close()
    with closing(whole(path)) as view:
        told = view.document("call", {"row": "1"})
        (message,) = view.document("messages", {"ids": ",".join(map(str, told["messages"]))})
        pieces = [
            (message["text"][start:stop].strip(), row, where.rpartition(":")[0])
            for _, start, stop, row, where in told["spans"]
        ]
        assert ("Mira Holt", 0, __file__) in pieces
        assert [text for text, row, _ in pieces if row < 0] == ["Who wrote it?", "Then", "it was."]


def test_times_of_a_later_process_go_on_from_those_of_the_first(path: Path) -> None:
    recorder = Recorder(path)
    call(recorder, "/gen.0", "one")
    recorder.close()
    recorder = Recorder(path, append=True)
    call(recorder, "/gen.1", "two")
    recorder.close()
    with closing(whole(path)) as view:
        first, second = (table([view.document("rows", {})])[f"/gen.{i}"] for i in (0, 1))
        assert first["ended"] <= second["started"] <= second["ended"]


def test_tools_are_rows_too(path: Path) -> None:
    recorder = Recorder(path)
    recorder.on_event(ToolStarted("/t.0", "look", '{"a": 1}', "pure", "tools.py", 3, now()))
    result = Message("tool", "no such thing", tool_call_id="1", has_error=True)
    recorder.on_event(ToolEnded("/t.0", result, None, now()))
    recorder.close()
    with closing(whole(path)) as view:
        changes = view.document("rows", {})
        row = table([changes])["/t.0"]
        assert changes["strings"][row["kind"]] == "tool"
        assert OUTCOMES[row["outcome"]] == "failed"
        told = view.document("call", {"row": "0"})
        assert (told["name"], told["arguments"], told["result"]["text"]) == (
            "look", '{"a": 1}', "no such thing",
        )  # fmt: skip


def naive(prompts: list[str]) -> set[tuple[str, int]]:
    """Every longest beginning that at least two prompts share, with how many share it."""
    found = set()
    for prompt in prompts:
        for length in range(1, len(prompt) + 1):
            sharing = [other for other in prompts if other.startswith(prompt[:length])]
            goes_on = {other[: length + 1] for other in sharing}
            if len(sharing) > 1 and (len(goes_on) > 1 or prompt[:length] in prompts):
                found.add((prompt[:length], len(sharing)))
    return found


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text("ab", max_size=6), min_size=1, max_size=9))
def test_shared_prefixes_are_those_that_a_search_of_all_finds(
    tmp_path_factory: pytest.TempPathFactory, said: list[str]
) -> None:
    path = tmp_path_factory.mktemp("prefixes") / "x.trace"
    recorder = Recorder(path)
    for i, text in enumerate(said):
        call(recorder, f"/gen.{i}", text)
    recorder.close()
    with closing(whole(path)) as view:
        tree = PrefixTree(view.rows, short=1).data()
        texts: list[str] = []
        for parent, text in zip(tree["parent"], tree["text"], strict=True):
            texts.append(texts[parent] + text if parent >= 0 else text)
        drawn = set(zip(texts[1:], tree["calls"][1:], strict=True))
        assert drawn == naive([f"m\n[user]\n{text}\n" for text in said])
        assert tree["calls"][0] == len(said)


def test_pieces_of_a_few_characters_go_into_what_follows(path: Path) -> None:
    recorder = Recorder(path)
    beginning = "a long shared beginning, "
    for i, text in enumerate(("a first one", "a first two", "b first one", "b first two")):
        call(recorder, f"/gen.{i}", beginning + text)
    recorder.close()
    with closing(whole(path)) as view:
        tree = PrefixTree(view.rows, short=4).data()
        assert tree["text"][1:] == [f"m\n[user]\n{beginning}", "a first ", "b first "]
        assert tree["parent"][1:] == [0, 1, 1]
        assert tree["node"] == [2, 2, 3, 3]


def test_the_hit_rate_of_a_prefix_sums_over_the_calls_below_it(path: Path) -> None:
    recorder = Recorder(path)
    for i, (text, cached) in enumerate((("a", 0), ("b", 90), ("c", None))):
        start(recorder, asked(f"/gen.{i}", "a long shared beginning, " + text))
        end(recorder, f"/gen.{i}", answer("x", usage=Usage(100, 5, cached)))
    recorder.close()
    with closing(whole(path)) as view:
        tree = view.document("prefixes", {})
        assert (tree["calls"], tree["prompt"], tree["cached"]) == ([3, 3], [200, 200], [90, 90])
        assert tree["first"] == [0, 0]


def test_the_critical_path_goes_back_over_answers_and_order(path: Path) -> None:
    recorder = Recorder(path)
    call(recorder, "/gen.0", "one", "first answer")
    call(recorder, "/gen.1", "aside")
    start(recorder, asked("/gen.2", "on first answer"), edges=("/gen.0",))
    end(recorder, "/gen.2", answer("done"))
    recorder.close()
    with closing(whole(path)) as view:
        path_ = view.document("critical", {})
        segments = path_["segments"]
        assert segments[-1][-1] == 2
        ends = [start + took for _, start, took, _ in segments]
        assert [start for _, start, _, _ in segments[1:]] == ends[:-1]
        assert sum(path_["kinds"].values()) == path_["duration"] == ends[-1] - segments[0][1]


def test_search_finds_in_addresses_prompts_and_answers(path: Path) -> None:
    recorder = Recorder(path)
    call(recorder, "/needle.0/gen.0", "hay", "hay")
    call(recorder, "/f.0/gen.1", "a Needle here", "hay")
    call(recorder, "/f.0/gen.2", "hay", "the NEEDLE")
    start(recorder, asked("/f.0/gen.3", "hay"))
    end(recorder, "/f.0/gen.3", BackendBusy("needles are out"))
    call(recorder, "/f.0/gen.4", "hay", "hay")
    recorder.close()
    with closing(whole(path)) as view:
        found = view.document("search", {"text": "needle", "from": "0"})
        assert (found["rows"], found["where"]) == ([0, 1, 2, 3], [1, 2, 4, 4])
        assert found["next"] == -1


def test_a_search_goes_on_where_it_stopped(path: Path) -> None:
    with closing(whole(large_trace(path, 2_500))) as view:
        pages = [view.document("search", {"text": "gen.3", "from": "0"})]
        while pages[-1]["next"] >= 0:
            pages.append(view.document("search", {"text": "gen.3", "from": str(pages[-1]["next"])}))
        assert len(pages) == 2
        assert [row for page in pages for row in page["rows"]] == list(range(3, 2_500, 10))


def test_two_runs_are_compared_by_address(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.trace"
    for file, said, got in ((path, "one", "same"), (other, "changed", "differs")):
        recorder = Recorder(file)
        call(recorder, "/gen.0", said, got)
        start(recorder, asked("/gen.1", f"after {got}"), edges=("/gen.0",))
        end(recorder, "/gen.1", answer("x"))
        call(recorder, "/gen.2", "equal", "equal")
        call(recorder, f"/{got}.0/gen.3", got, got)
        recorder.close()
    with closing(View(path)) as a, closing(View(other)) as b:
        found = Views(a, b).document("diff", {})
        told = {
            max(one, other): (found["names"][status], cause)
            for one, other, status, cause in zip(
                found["a"], found["b"], found["status"], found["cause"], strict=True
            )
        }
        assert told[0] == ("prompt", -1)
        assert told[1][0] == "prompt"
        assert told[1][1] == found["b"].index(0)
        assert told[2] == ("same", -1)
        names = sorted(found["names"][status] for status in found["status"])
        assert names == ["only in A", "only in B", "prompt", "prompt", "same"]


def test_everything_is_json_that_a_browser_reads(path: Path) -> None:
    with closing(View(hostile_trace(path))) as view:
        for name in ("run", "rows", "scopes", "prefixes", "critical", "costs"):
            json.loads(as_json(view.document(name, {})), parse_constant=pytest.fail)
        for row in range(len(view.rows)):
            call = view.document("call", {"row": str(row)})
            numbers = ",".join(map(str, call.get("messages", ())))
            json.loads(as_json([call, view.document("messages", {"ids": numbers})]))


@pytest.mark.parametrize("value", [float("nan"), float("-inf"), 2**70, [{"a": 2**53}], {1: "x"}])
def test_what_a_browser_cannot_hold_becomes_text(value: Any) -> None:
    read = json.loads(as_json(value), parse_constant=pytest.fail)
    assert "." not in str(read)


@pytest.mark.parametrize(
    ("name", "asked_for"),
    [("nothing", {}), ("call", {"row": "x"}), ("call", {"row": "99"}), ("messages", {"ids": "7"}),
     ("rows", {"since": "1.5"}), ("search", {})],
)  # fmt: skip
def test_what_is_not_there_is_a_key_error(path: Path, name: str, asked_for: dict[str, str]) -> None:
    with closing(View(small_trace(path))) as view, pytest.raises(KeyError):
        view.document(name, asked_for)


def test_a_run_that_is_damaged_later_keeps_what_was_read(path: Path) -> None:
    small_trace(path, calls=2, close=False)
    with closing(whole(path)) as view:
        size = path.stat().st_size
        recorder = Recorder(path, append=True)
        for i in range(2, 5):
            call(recorder, f"/small.0/gen.{i}", "later")
            recorder.barrier()
        recorder.close()
        data = bytearray(path.read_bytes())
        data[size + 30] ^= 0xFF
        path.write_bytes(data)
        with pytest.raises(TraceError):
            Trace.open(path)
        view.read()
        run = view.document("run", {})
        assert "damaged" in run["damage"]
        assert view.document("rows", {})["size"] == 2


def test_usage_is_known(path: Path) -> None:
    with closing(whole(small_trace(path))) as view:
        spent = view.document("costs", {})["spent"]
        assert (spent["calls"], spent["prompt_tokens"]) == (3, 3 * (USAGE.prompt_tokens or 0))
