"""Spans as a collector gets them: valid, complete, without texts unless asked, always the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from openinference.semconv.trace import (
    MessageAttributes,
    OpenInferenceSpanKindValues,
    SpanAttributes,
    ToolCallAttributes,
)
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv.attributes import (
    code_attributes,
    error_attributes,
    exception_attributes,
    service_attributes,
)

from appl.errors import ConfigError, ExportError
from appl.tracing import Recorder, Trace
from appl.tracing.exporting import Patience, conventions, otlp, send, spans_of
from appl.tracing.exporting.collector import endpoint, headers
from tests.housekeeping.test_sharing import CANARY, PLACES, with_canaries
from tests.traces.programs import PROGRAMS

from .conftest import Collector, Project, collecting
from .schedules import MovedClock

NAMES = {
    value
    for known in (
        gen_ai_attributes, code_attributes, error_attributes, exception_attributes,
        service_attributes, SpanAttributes, MessageAttributes, ToolCallAttributes,
    )
    for value in vars(known).values() if isinstance(value, str)
}  # fmt: skip
WORDS = {
    *(each.value for each in gen_ai_attributes.GenAiOperationNameValues),
    *(each.value for each in OpenInferenceSpanKindValues), "exception",
}  # fmt: skip


def sent(trace: Trace, collector: Collector, **options: Any) -> list[Any]:
    delivery = send(spans_of(trace, **options), collector.url)
    assert delivery.complete and delivery.arrived == len(collector.spans)
    return collector.spans


def sent_anew(trace: Trace, collector: Collector, **options: Any) -> list[Any]:
    collector.requests.clear()
    return sent(trace, collector, **options)


def test_every_name_is_one_of_the_conventions() -> None:
    ours = {k: v for k, v in vars(conventions).items() if k.isupper() and k != "SCHEMA"}
    for name, value in ours.items():
        for each in value.values() if isinstance(value, dict) else [value]:
            assert each in NAMES | WORDS or each.startswith("appl."), name


@pytest.mark.parametrize("name", list(PROGRAMS))
@pytest.mark.parametrize("options", [{}, {"content": True, "inference": True}])
def test_every_program_arrives_whole_and_well_formed(
    golden: Any, collector: Collector, name: str, options: dict[str, bool]
) -> None:
    trace = golden(name)
    spans = sent(trace, collector, **options)
    assert len(spans) == 1 + len(trace.scopes) + len(trace.calls) + len(trace.tools)
    ids = [span.span_id for span in spans]
    assert len(set(ids)) == len(ids)
    assert {len(span.span_id) for span in spans} == {8}
    assert {len(span.trace_id) for span in spans} == {16}
    roots = [span for span in spans if not span.parent_span_id]
    assert [root.name.partition(" ")[0] for root in roots] == ["run"]
    by_id = {span.span_id: span for span in spans}
    for span in spans:
        assert span.start_time_unix_nano <= span.end_time_unix_nano
        if span.parent_span_id:
            above = by_id[span.parent_span_id]
            assert above.start_time_unix_nano <= span.start_time_unix_nano
            if above.kind == 1:
                assert above.end_time_unix_nano >= span.end_time_unix_nano
        for link in span.links:
            assert link.span_id in by_id
    again = [span.SerializeToString() for span in collector.spans]
    collector.requests.clear()
    assert [span.SerializeToString() for span in sent(trace, collector, **options)] == again


def test_a_call_says_what_it_took(golden: Any, collector: Collector) -> None:
    spans = sent(golden("tree"), collector)
    chat = [span for span in spans if span.kind == 3]
    about = collector.attributes(chat[0])
    assert about["gen_ai.operation.name"] == "chat"
    assert about["gen_ai.usage.input_tokens"] == 11
    assert about["gen_ai.usage.output_tokens"] == 7
    assert about["gen_ai.usage.cache_read.input_tokens"] == 3
    assert about["appl.usage.cost"] == pytest.approx(0.00012)
    assert about["code.line.number"] > 0
    assert any(span.links for span in chat)  # an answer in a prompt
    assert not any("messages" in key for span in spans for key in collector.attributes(span))


def test_attempts_and_failures_are_told(golden: Any, collector: Collector) -> None:
    spans = sent(golden("failing"), collector)
    tried = [span for span in spans if sum(e.name == "appl.attempt" for e in span.events) == 2]
    assert tried
    failed = [span for span in spans if span.status.code == 2]
    assert failed
    assert {collector.attributes(span)["error.type"] for span in failed} == {"BackendUnavailable"}
    assert not any("server" in span.status.message for span in failed)


def test_content_holds_messages_tools_and_errors(golden: Any, collector: Collector) -> None:
    spans = sent(golden("tools"), collector, content=True)
    chat = [collector.attributes(span) for span in spans if span.kind == 3]
    said = json.loads(chat[0]["gen_ai.input.messages"])
    assert said[0]["parts"][0] == {
        "type": "text",
        "content": "What is the weather in Oslo and in Rome?",
    }
    answered = json.loads(chat[0]["gen_ai.output.messages"])
    assert [part["type"] for part in answered[0]["parts"]] == ["text", "tool_call", "tool_call"]
    tools = [collector.attributes(span) for span in spans if span.name.startswith("execute_tool")]
    assert tools[0]["gen_ai.tool.call.result"] == "In Oslo it is 12 degrees."


def test_openinference_has_kinds_and_indexed_messages(golden: Any, collector: Collector) -> None:
    spans = sent(golden("tools"), collector, content=True, inference=True)
    kinds = {collector.attributes(span)["openinference.span.kind"] for span in spans}
    assert kinds == {"LLM", "CHAIN", "TOOL"}
    about = next(collector.attributes(span) for span in spans if span.kind == 3)
    assert about["llm.input_messages.0.message.role"] == "user"
    assert about["llm.output_messages.0.message.tool_calls.0.tool_call.function.name"] == "weather"
    assert not any("llm.token_count.total" in collector.attributes(span) for span in spans)
    spans = sent_anew(golden("tree"), collector, inference=True)
    assert 18 in [collector.attributes(span).get("llm.token_count.total") for span in spans]


def test_what_was_in_flight_at_a_crash_is_a_span_of_its_own(
    tmp_path: Path, collector: Collector
) -> None:
    from tests.tracing.made import answer, asked, call, end, start

    path = tmp_path / "one.trace"
    recorder = Recorder(path, {"program": "p"}, durability="process")
    call(recorder, "/p.0/gen.0", "one")
    start(recorder, asked("/p.0/gen.1", "two"))
    recorder.barrier()
    recorder.writer.abandon()  # as a process does that dies
    recorder = Recorder(path, append=True, reason="resume", durability="process")
    start(recorder, asked("/p.0/gen.1", "two"))
    end(recorder, "/p.0/gen.1", answer("now"))
    recorder.close()
    spans = sent(Trace.open(path), collector)
    twice = [collector.attributes(s) for s in spans if s.kind == 3][1:]
    assert [about["appl.address"] for about in twice] == ["/p.0/gen.1"] * 2
    assert sorted("gen_ai.usage.input_tokens" in about for about in twice) == [False, True]
    assert [about.get("appl.call.superseded") for about in twice] == [None, True]


def test_an_answer_of_another_run_emits_no_usage(golden: Any, collector: Collector) -> None:
    trace = golden("tree")
    for call in trace.calls:
        call.source, call.of = "moved", "/other.0/gen.0"
    for span in sent(trace, collector, inference=True):
        keys = collector.attributes(span)
        assert not any("usage" in key or "token_count" in key or "cost" in key for key in keys)


@pytest.mark.parametrize("inference", [False, True])
def test_without_content_no_canary_leaves(tmp_path: Path, inference: bool) -> None:
    trace = Trace.open(with_canaries(tmp_path / "one.trace", {*PLACES} - {"path"}))
    spans = spans_of(trace, inference=inference)
    assert CANARY not in json.dumps(list(otlp.requests(spans)))


def test_a_secret_of_this_environment_never_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = with_canaries(tmp_path / "one.trace", {*PLACES})
    monkeypatch.setenv("SOME_API_KEY", CANARY)
    spans = spans_of(Trace.open(path), content=True, inference=True)
    assert CANARY not in json.dumps(list(otlp.requests(spans)))


def test_a_large_run_is_sent_in_pieces(tmp_path: Path, collector: Collector) -> None:
    from tests.housekeeping.conftest import made

    trace = Trace.open(made(tmp_path, 1, calls=1200))
    assert len(sent(trace, collector)) == 1202
    assert len(collector.requests) == 3


def test_json_is_what_a_collector_reads_too(golden: Any, collector: Collector) -> None:
    made = spans_of(golden("tools"), content=True)
    assert send(made, collector.url, encode=otlp.RequestEncoder()).complete
    spans = collector.spans
    assert collector.headers[0]["content-type"] == "application/json"
    assert spans[0].name == "run tools"


def test_a_busy_collector_is_asked_again(golden: Any) -> None:
    spans = spans_of(golden("tasks"))
    clock = MovedClock()
    with collecting(503, 429) as busy:
        assert send(spans, busy.url, clock=clock).arrived == len(busy.spans) > 0
    with collecting(*[503] * 99) as down:
        with pytest.raises(ExportError, match="503"):
            send(spans, down.url, clock=clock, patience=Patience(total_s=60))
        assert 3 < len(down.paths) < 20  # it waits longer each time


def test_what_a_collector_rejects_is_counted(golden: Any, collector: Collector) -> None:
    collector.rejected = 2
    spans = spans_of(golden("tasks"))
    delivery = send(spans, collector.url)
    assert (delivery.arrived, delivery.rejected) == (len(spans.spans) - 2, 2)
    assert not delivery.complete


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (401, "OTEL_EXPORTER_OTLP_HEADERS"), (404, "404"), (301, "redirects are not followed"),
        (307, "redirects are not followed"),
    ],
)  # fmt: skip
def test_a_refusal_is_explained_and_a_redirect_is_not_followed(
    golden: Any, status: int, told: str
) -> None:
    with collecting(status) as refusing:
        with pytest.raises(ExportError, match=told):
            send(spans_of(golden("tasks")), refusing.url)
        assert refusing.paths == ["/v1/traces"]


def test_a_server_that_repeats_the_key_does_not_have_it_shown(
    golden: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20canary-key")
    with collecting(400) as telling, pytest.raises(ExportError) as refused:
        send(spans_of(golden("tasks")), telling.url)
    assert "canary-key" not in str(refused.value)
    assert "[secret]" in str(refused.value)


def test_a_dead_collector_is_an_error_that_names_it(golden: Any) -> None:
    with pytest.raises(ExportError, match="cannot be reached"):
        send(spans_of(golden("tasks")), "http://127.0.0.1:9", clock=MovedClock())


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("http://localhost:4318", "http://localhost:4318/v1/traces"),
        (
            "https://cloud.langfuse.com/api/public/otel",
            "https://cloud.langfuse.com/api/public/otel/v1/traces",
        ),
        ("http://x/v1/traces", "http://x/v1/traces"),
    ],
)
def test_endpoints(given: str, url: str) -> None:
    assert endpoint(given) == url


@pytest.mark.parametrize(
    "given", ["localhost:4318", "ftp://x", "http://u:p@x", "http://x?key=1", ""]
)
def test_what_is_no_endpoint_or_holds_a_key_is_refused(given: str) -> None:
    with pytest.raises(ConfigError) as refused:
        endpoint(given)
    assert "u:p" not in str(refused.value)
    assert "key=1" not in str(refused.value)


def test_headers_are_read_as_opentelemetry_writes_them() -> None:
    environ = {"OTEL_EXPORTER_OTLP_HEADERS": "authorization=Basic%20abc=,x-a = 1,bad"}
    assert headers(environ) == {"authorization": "Basic abc=", "x-a": "1"}


def test_the_command_sends_with_the_key_of_the_environment(
    project: Project, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.run("pair", "--first", "precious")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20canary-key")
    done = project.appl("trace", "export", "--otel", collector.url)
    assert done.code == 0, done.err
    assert "sent 4 of 4 spans" in done.err
    assert collector.headers[0]["authorization"] == "Bearer canary-key"
    assert "canary-key" not in done.out + done.err
    refused = project.appl("trace", "export", "--otel", "http://me:canary-key@x")
    assert refused.code == 2
    assert "canary-key" not in refused.err


def test_the_setting_sends_spans_when_a_run_ends(project: Project, collector: Collector) -> None:
    project.write("appl.toml", f'otel = "{collector.url}"\n')
    assert project.run("many").code == 0
    assert sum(span.kind == 3 for span in collector.spans) == 3
    project.write("appl.toml", 'otel = "http://127.0.0.1:9"\n')
    done = project.run("ask")
    assert done.code == 0
    assert "cannot be reached" in done.err
    project.write("appl.toml", 'otel = "nonsense"\n')
    assert project.run("ask").code == 2
