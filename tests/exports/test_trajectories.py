"""Answers as token ids: what an export rebuilds is what the server had, and what the model computes."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import appl
from appl import AIRole, Generation, SystemMessage, gen, ppl
from appl.backend.tokens import pack_ids, pack_logprobs, unpack_ids, unpack_logprobs
from appl.errors import NotATrace, TraceCorrupt
from appl.testing.embedded_server import serving
from appl.tracing import Trace, records
from appl.tracing.exporting.trajectories import (
    Trajectory,
    WithoutIds,
    read,
    row_lines,
    trajectories,
    tree_lines,
)
from appl.tracing.format import table
from appl.tracing.reading.reader import StoredCall
from appl_backends.embedded import WEIGHTS
from appl_backends.embedded.blas_threads import BlasThreads
from tests.cli.conftest import Project
from tests.embedded.reference import logits

Row = tuple[tuple[int, ...], tuple[int, ...], tuple[float, ...]]
LONG = "You are one of the people who answer short questions. " * 8


@ppl(ctx="resume")
def chat(text: str) -> Generation:
    f"{text}"
    with AIRole():
        (answer := gen(max_tokens=6, temperature=1.0))
    return answer


@ppl
def ask(number: int, **options: Any) -> Generation:
    SystemMessage(LONG)
    f"What is {number} plus {number}?"
    return gen(max_tokens=8, **options)


def lookup(name: str) -> str:
    """Look up a name."""
    return f"{name} is a town."


def program() -> None:
    """Calls of every way in which an answer comes: alone, several, streamed, with form or tools."""
    for text in ("Hello!", "Who are you?", "And what is 3 plus 4?"):
        str(chat(text))
    for answer in appl.map(ask, range(6)):
        str(answer)
    str(ask(1, n=2, temperature=1.0))
    str(ask(2, stop=["e", "1"]))
    str(ask(3, regex="The answer is [0-9]{1,2}"))
    str(ask(4, logprobs=2))
    str(ask(5, tools=[lookup]))
    for _ in ask(6, stream=True):
        pass


def recorded(path: Path, backend: str, settings: dict[str, Any], run: Callable[[], Any]) -> Trace:
    with appl.record(path, backend=backend, backends={backend: settings}):
        run()
    return Trace.open(path)


def kept_in(path: Path) -> list[object]:
    """What the records of answers say of tokens."""
    ends = table.chosen(records(path), table.EndRecord)
    return [(end.about or {}).get("tokens") for end in ends]


def rows(found: Iterator[Trajectory]) -> Counter[Row]:
    return Counter(
        (tuple(row.prompt_ids), tuple(row.completion_ids), tuple(row.logprobs or ()))
        for row in found
    )


def rebuilt(trace: Trace, path: Path) -> list[Trajectory]:
    path.write_text("".join(f"{line}\n" for line in tree_lines(trace)))
    return list(read(path))


@contextmanager
def tapped(url: str) -> Iterator[tuple[str, list[tuple[Any, bytes]]]]:
    """A way to the server at *url* that keeps the bodies of requests and answers."""
    seen: list[tuple[Any, bytes]] = []

    class Tap(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            asked = urllib.request.Request(url + self.path, body or None, dict(self.headers))
            with urllib.request.urlopen(asked) as answer:
                told = answer.read()
                self.send_response(answer.status)
                self.send_header("Content-Type", answer.headers["Content-Type"])
            if self.path == "/generate":
                seen.append((json.loads(body), told))
            self.send_header("Content-Length", str(len(told)))
            self.end_headers()
            self.wfile.write(told)

        do_GET = do_POST

        def log_message(self, *words: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Tap) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", seen
        server.shutdown()


def on_the_wire(seen: list[tuple[Any, bytes]]) -> Counter[Row]:
    """The answers that went over the wire, with the prompts that were asked."""
    found: Counter[Row] = Counter()
    for body, told in seen:
        text = told.decode()
        if body.get("stream"):
            last = [line for line in text.splitlines() if line.startswith("data: {")][-1]
            text = last.removeprefix("data: ")
        answers = json.loads(text)
        prompt = body["input_ids"]
        for answer in answers if isinstance(answers, list) else [answers]:
            scores = answer["meta_info"].get("output_token_logprobs") or ()
            values = tuple(float(value) for value, *_ in scores)
            found[tuple(prompt), tuple(answer["output_ids"]), values] += 1
    return found


def test_what_is_rebuilt_went_over_the_wire(tmp_path: Path) -> None:
    with serving() as server, tapped(server.url) as (url, seen):
        settings = {"url": url, "api_key": server.api_key, "tokens": "logprobs"}
        settings["tokenizer"] = str(WEIGHTS)
        trace = recorded(tmp_path / "one.trace", "sglang", settings, program)
    found = rebuilt(trace, tmp_path / "tree.jsonl")
    wire = on_the_wire([(body, told) for body, told in seen if _is_asked(body)])
    assert rows(iter(found)) == wire and len(found) == 16
    assert not [each for each in trajectories(trace) if isinstance(each, WithoutIds)]


def _is_asked(body: Any) -> bool:
    """True for a question of the program; a prompt may be computed ahead."""
    return bool(body["sampling_params"].get("max_new_tokens", 1))


def test_the_engine_in_this_process_gives_what_the_model_computes(tmp_path: Path) -> None:
    """A forward pass in plain NumPy gives the log-probabilities of just these ids."""
    trace = recorded(tmp_path / "one.trace", "embedded", {"tokens": "logprobs"}, program)
    found = rebuilt(trace, tmp_path / "tree.jsonl")
    assert len(found) == 16
    for row in (*found[:3], found[9], found[-1]):
        with BlasThreads(1):
            raw = logits(WEIGHTS, row.input_ids)
        whole = raw - raw.max(-1, keepdims=True)
        scores = whole - np.log(np.exp(whole).sum(-1, keepdims=True))
        places = range(len(row.prompt_ids), len(row.input_ids))
        expected = [scores[at - 1, row.input_ids[at]] for at in places]
        assert row.logprobs == pytest.approx(expected, abs=2e-3)


def test_rows_say_which_ids_were_generated(tmp_path: Path) -> None:
    trace = recorded(tmp_path / "one.trace", "embedded", {"tokens": "logprobs"}, lambda: ask(1))
    (row,) = map(json.loads, row_lines(trace))
    assert row["input_ids"] == row["prompt_ids"] + row["completion_ids"]
    assert row["loss_mask"] == [0] * len(row["prompt_ids"]) + [1] * len(row["completion_ids"])
    assert len(row["logprobs"]) == len(row["completion_ids"]) and row["call"] == "/ask.0/gen.0"


def test_a_tree_has_what_prompts_share_once(tmp_path: Path) -> None:
    path, settings = tmp_path / "one.trace", {"tokens": "ids"}
    trace = recorded(path, "embedded", settings, lambda: list(map(str, appl.map(ask, range(20)))))
    lines = [json.loads(line) for line in tree_lines(trace)]
    size = sum(len(line["ids"]) for line in lines if "ids" in line)
    whole = [found for found in trajectories(trace) if isinstance(found, Trajectory)]
    assert size < len(whole[0].prompt_ids) + 20 * 25
    firsts = [(line["parent"], line["ids"][:1]) for line in lines[2:] if "ids" in line]
    assert len(firsts) == len({(parent, *ids) for parent, ids in firsts})
    assert all(found.logprobs is None for found in whole)


def test_an_export_may_read_a_run_any_number_of_times(tmp_path: Path) -> None:
    """What was read is let go of: else the limit on memory would end a long export."""
    trace = recorded(tmp_path / "one.trace", "embedded", {"tokens": "ids"}, lambda: ask(1, n=3))
    list(trajectories(trace))
    call = trace.calls[0]
    assert isinstance(call, StoredCall)
    before = call.process.stored.allowance.used
    for _ in range(3):
        assert len(list(trajectories(trace))) == 3
    assert call.process.stored.allowance.used == before


def test_ids_alone_go_with_log_probabilities_that_the_program_wanted(tmp_path: Path) -> None:
    with serving() as server:
        settings = {"url": server.url, "api_key": server.api_key, "tokenizer": str(WEIGHTS)}
        settings["tokens"] = "ids"
        trace = recorded(tmp_path / "1.trace", "sglang", settings, lambda: ask(7, logprobs=0))
    (row,) = (found for found in trajectories(trace) if isinstance(found, Trajectory))
    assert row.logprobs is not None and len(row.logprobs) == len(row.completion_ids)


def test_calls_without_ids_are_named_with_the_reason(project: Project) -> None:
    @ppl
    def several() -> None:
        "Which?"
        str(appl.select(["a", "b"]))
        str(gen())

    path = project.folder / "one.trace"
    with appl.record(path, backend="embedded", backends={"embedded": {"tokens": "ids"}}):
        several()
        ask(1)
    done = project.appl("trace", "export", str(path), "--train", "t.jsonl")
    assert done.code == 0, done.err
    assert "without token ids, and not among the rows: 1\n" in done.err
    assert "a choice is scored, and not generated" in done.err
    assert len(list(read(project.folder / "t.jsonl"))) == 2


def test_a_run_whose_backend_keeps_none_says_which_setting_keeps_them(project: Project) -> None:
    project.run("many")
    done = project.appl("trace", "export", "--train-rows", "-")
    assert done.out == "" and "not among the rows: 3" in done.err
    assert 'tokens = "logprobs"' in done.err and "[backends.sglang]" in done.err


def test_no_ids_are_kept_unless_the_setting_says_so(tmp_path: Path) -> None:
    recorded(tmp_path / "one.trace", "embedded", {}, lambda: ask(1))
    assert kept_in(tmp_path / "one.trace") == [None]


def test_a_text_with_a_secret_has_no_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "wq8Zr5tYb2Lk9PdX")

    def run() -> None:
        str(gen(messages="My key is wq8Zr5tYb2Lk9PdX.", max_tokens=4))
        str(gen(messages="My key is none.", max_tokens=4))

    trace = recorded(tmp_path / "one.trace", "embedded", {"tokens": "ids"}, run)
    first, second = trajectories(trace)
    assert isinstance(first, WithoutIds) and "a secret stands in its texts" in first.why
    assert isinstance(second, Trajectory)


def test_a_private_run_keeps_no_ids(tmp_path: Path, project: Project) -> None:
    path = tmp_path / "one.trace"
    settings = {"embedded": {"tokens": "ids"}}
    with appl.record(path, backend="embedded", backends=settings, privacy="redacted"):
        str(ask(1))
    assert kept_in(path) == [None]
    done = project.appl("trace", "export", str(path), "--train", "t.jsonl")
    assert done.code == 2 and "private" in done.err


def test_a_file_that_is_no_tree_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"a": 1}\n')
    with pytest.raises(NotATrace):
        list(read(path))
    path.write_text(
        '{"format":"appl trajectories 1"}\n{"node":0,"parent":null,"ids":[]}\n{"end":7}\n'
    )
    with pytest.raises(TraceCorrupt, match="line 3"):
        list(read(path))


@given(st.lists(st.integers(0, 2**40)))
def test_ids_are_packed_without_a_loss(ids: list[int]) -> None:
    assert unpack_ids(pack_ids(ids)) == ids


@given(st.lists(st.floats(allow_nan=False) | st.floats(width=32, allow_nan=False)))
def test_log_probabilities_are_packed_without_a_loss(values: list[float]) -> None:
    assert unpack_logprobs(pack_logprobs(values)) == values


@given(st.binary())
def test_bytes_that_are_no_ids_are_refused_or_read(data: bytes) -> None:
    for unpack in (unpack_ids, unpack_logprobs):
        try:
            unpack(data)  # type: ignore[operator]
        except ValueError:
            continue
