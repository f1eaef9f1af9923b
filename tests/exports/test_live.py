"""Spans of a run that goes on: each once, when it has ended, and all when the run is over."""

from __future__ import annotations

import threading
from pathlib import Path

from appl.tracing import Recorder, Trace
from appl.tracing.exporting import follow, spans_of
from tests.tracing.made import answer, asked, call, end, start

from .conftest import Collector, Project


def test_each_span_is_given_once_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "one.trace"
    recorder = Recorder(path, {"program": "p"}, durability="process")
    call(recorder, "/p.0/gen.0", "one")
    start(recorder, asked("/p.0/gen.1", "two"))
    recorder.barrier()
    given = follow(path, pause_s=0.001)
    first = next(given)
    assert [span.attributes["appl.address"] for span in first.spans] == ["/p.0/gen.0"]
    end(recorder, "/p.0/gen.1", answer("late"))
    recorder.barrier()
    second = next(given)
    assert [span.attributes["appl.address"] for span in second.spans] == ["/p.0/gen.1"]
    recorder.close()
    last = [span for spans in given for span in spans.spans]
    assert [span.parent for span in last] == [None]
    whole = spans_of(Trace.open(path))
    ids = {span.identity for spans in (first, second) for span in spans.spans}
    assert ids | {span.identity for span in last} == {span.identity for span in whole.spans}
    assert {first.trace_id, second.trace_id} == {whole.trace_id}


def test_the_command_follows_a_run_to_its_end(project: Project, collector: Collector) -> None:
    path = project.folder / ".appl" / "runs" / "20260101T000000.000Z-p-0001.trace"
    recorder = Recorder(path, {"program": "p"}, durability="process")
    call(recorder, "/p.0/gen.0", "one")
    recorder.barrier()
    writing = threading.Thread(
        target=lambda: (call(recorder, "/p.0/gen.1", "two"), recorder.close())
    )
    writing.start()
    done = project.appl("trace", "export", "--otel", collector.url, "--follow")
    writing.join()
    assert done.code == 0, done.err
    assert "sent 3 of 3 spans" in done.err
    assert len({span.span_id for span in collector.spans}) == len(collector.spans) == 3
    assert project.appl("trace", "export", "--follow", "--markdown", "-").code == 2
