"""Spans arrive exactly once, whatever the collector does, over as many exports as that takes."""

from __future__ import annotations

import contextlib
import copy
import random
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from appl.errors import ConfigError
from appl.tracing import Trace
from appl.tracing.exporting import (
    Checkpoint,
    Collector,
    Courier,
    Delivery,
    Patience,
    Spans,
    otlp,
    spans_of,
)
from appl.tracing.exporting.collector import CollectorAnswer, headers, http_post
from appl.tracing.exporting.delivery import Batching
from tests.housekeeping.conftest import made

from .schedules import FakeCollector, MovedClock

URL = "http://collector.test"
SCHEDULES = 200


@pytest.fixture(scope="module")
def few_spans(tmp_path_factory: pytest.TempPathFactory) -> Spans:
    return spans_of(Trace.open(made(tmp_path_factory.mktemp("run"), 1, calls=8)))


@pytest.fixture(scope="module")
def spans(tmp_path_factory: pytest.TempPathFactory) -> Spans:
    return spans_of(Trace.open(made(tmp_path_factory.mktemp("run"), 1, calls=18)))


def export(fake: FakeCollector, spans: Spans, home: Path, **options: Any) -> Delivery:
    """One export, as the command makes it."""
    checkpoint = Checkpoint(home, spans.trace_id, URL)
    courier = Courier(
        Collector(URL, fake.post), checkpoint=checkpoint, clock=fake.clock,
        dice=random.Random(1), **{"encode": otlp.RequestEncoder(), **options},
    )  # fmt: skip
    delivery = courier.deliver(spans)
    if delivery.stopped is None:
        checkpoint.clear()
    return delivery


def exports(fake: FakeCollector, spans: Spans, home: Path, **options: Any) -> list[Delivery]:
    """The same export again and again until it has come to its end."""
    done = [export(fake, spans, home, **options)]
    while done[-1].stopped is not None:
        assert len(done) < 300
        fake.clock.sleep(5.0)  # the user reads, and types
        done.append(export(fake, spans, home, **options))
    return done


@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.long) for part in (1, 2, 3))]
)
def test_every_span_arrives_exactly_once_under_random_schedules(
    few_spans: Spans, tmp_path: Path, part: int
) -> None:
    stopped = 0
    for seed in range(part, SCHEDULES, 4):
        dice = random.Random(seed)
        fake = FakeCollector(
            dice, MovedClock(), health=dice.choice([0.1, 0.4, 0.8, 1.0]), choosy=0.1,
            largest=dice.choice([1 << 30, 3000]), per_second=dice.choice([1e9, 20.0]),
        )  # fmt: skip
        patience = Patience(total_s=dice.choice([5.0, 60.0, 600.0]), tries=dice.randint(1, 5))
        batching = Batching(dice.choice([1, 3, 50]), dice.choice([1, 5000, 1 << 20]))
        encode = dice.choice([otlp.RequestEncoder(), otlp.ProtobufEncoder()])
        done = exports(
            fake,
            few_spans,
            tmp_path / str(seed),
            patience=patience,
            batching=batching,
            encode=encode,
        )
        stopped += len(done) - 1
        assert fake.wrong == [], seed
        assert fake.taken.keys() == {span.identity for span in few_spans.spans}, seed
        assert sum(each.rejected for each in done) == fake.rejected, seed
        assert not any((tmp_path / str(seed)).rglob("*.sent")), seed
    assert stopped > 10  # the schedules are hard enough


def test_a_span_that_arrived_is_counted_as_such_by_the_next_export(
    spans: Spans, tmp_path: Path
) -> None:
    fake = FakeCollector(random.Random(0), MovedClock(), health=1.0, per_second=4.0)
    options = {"patience": Patience(total_s=3.0), "batching": Batching(4)}
    first, *_, last = exports(fake, spans, tmp_path, **options)
    assert 0 < first.arrived < first.spans == len(spans.spans) and not first.complete
    assert last.complete and last.earlier > 0
    assert first.first_calls() == (first.arrived - 2, 18)  # the run and its function come first
    assert f"sent {first.arrived} of 20 spans (calls 1–{first.arrived - 2} of 18)" in first.line()


def test_it_finds_the_pace_that_the_collector_allows(spans: Spans, tmp_path: Path) -> None:
    fake = FakeCollector(random.Random(0), MovedClock(), health=1.0, per_second=5.0)
    began = fake.clock.now
    delivery = export(fake, spans, tmp_path, batching=Batching(1))
    assert delivery.complete and delivery.stopped is None
    assert fake.clock.now - began < 3 * len(spans.spans) / 5.0  # the collector needs a third
    assert fake.refused_at_load < len(spans.spans)


def test_it_ends_by_its_deadline(spans: Spans, tmp_path: Path) -> None:
    fake = FakeCollector(random.Random(0), MovedClock(), health=0.0)
    began = fake.clock.now
    delivery = export(fake, spans, tmp_path, patience=Patience(total_s=30.0, tries=999))
    assert delivery.stopped is not None and "30 s" in delivery.stopped
    assert fake.clock.now - began <= 30.5  # an answer may take its time


def test_a_collector_that_asks_for_more_time_than_there_is_ends_it_at_once(spans: Spans) -> None:
    clock = MovedClock()
    asks: list[float] = []

    def post(*request: Any) -> CollectorAnswer:
        asks.append(clock.now)
        return CollectorAnswer(503, {"Retry-After": "3600"}, b'{"error": "come tomorrow"}')

    courier = Courier(Collector(URL, post), clock=clock, patience=Patience(total_s=60.0))
    delivery = courier.deliver(spans)
    assert len(asks) == 1 and clock.now == asks[0]
    assert "busy (503: come tomorrow), and its 60 s end before" in (delivery.stopped or "")


def test_a_span_that_is_too_large_is_rejected_and_the_others_arrive(
    spans: Spans, tmp_path: Path
) -> None:
    large = copy.deepcopy(spans)
    large.spans[7].attributes["text"] = "x" * 5000
    fake = FakeCollector(random.Random(0), MovedClock(), health=1.0, largest=3000)
    delivery = export(fake, large, tmp_path)
    assert (delivery.arrived, delivery.rejected) == (19, 1)
    assert fake.taken.keys() == {span.identity for span in spans.spans} - {large.spans[7].identity}
    assert "413" in delivery.line()


def test_what_a_collector_says_about_rejected_spans_is_passed_on(spans: Spans) -> None:
    said = b'{"partialSuccess": {"rejectedSpans": "3", "errorMessage": "no \\u001b[31mroom"}}'
    courier = Courier(
        Collector(URL, lambda *request: CollectorAnswer(200, {}, said)), clock=MovedClock()
    )
    delivery = courier.deliver(spans)
    assert delivery.line() == (
        "sent 17 of 20 spans, 3 were rejected; the collector says: no \\x1b[31mroom"
    )


@pytest.mark.parametrize("rejected", ["-5", "99999", "x", '{"a": 1}', "[" * 5000])
def test_a_count_of_rejected_spans_that_cannot_be_is_bounded(spans: Spans, rejected: str) -> None:
    body = f'{{"partialSuccess": {{"rejectedSpans": {rejected}}}}}'.encode()
    courier = Courier(
        Collector(URL, lambda *request: CollectorAnswer(200, {}, body)), clock=MovedClock()
    )
    delivery = courier.deliver(spans)
    assert delivery.arrived + delivery.rejected == len(spans.spans)
    assert delivery.arrived >= 0 and delivery.rejected >= 0


def test_a_page_is_not_taken_for_a_collector(spans: Spans) -> None:
    page = CollectorAnswer(200, {"Content-Type": "text/html; charset=utf-8"}, b"<html>Hello</html>")
    courier = Courier(Collector(URL, lambda *request: page), clock=MovedClock())
    assert "it is no collector" in (courier.deliver(spans).stopped or "")


def test_a_torn_checkpoint_and_one_that_cannot_be_kept_lose_no_span(
    spans: Spans, tmp_path: Path
) -> None:
    fake = FakeCollector(random.Random(0), MovedClock(), health=1.0, per_second=4.0)
    options = {"patience": Patience(total_s=3.0), "batching": Batching(4)}
    first = export(fake, spans, tmp_path, **options)
    (file,) = tmp_path.rglob("*.sent")
    file.write_bytes(file.read_bytes()[:-5])
    fake.doubtful |= {span.identity for span in spans.spans}  # one of them comes again
    again = exports(fake, spans, tmp_path, **options)
    assert again[0].earlier == first.arrived - 1
    assert fake.taken.keys() == {span.identity for span in spans.spans} and not fake.wrong
    (tmp_path / "file").write_text("no folder")
    checkpoint = Checkpoint(tmp_path / "file", spans.trace_id, URL)
    fake = FakeCollector(random.Random(0), MovedClock(), health=1.0)
    courier = Courier(Collector(URL, fake.post), checkpoint=checkpoint, clock=fake.clock)
    assert courier.deliver(spans).complete and not checkpoint.kept


def test_what_has_changed_since_is_sent_again(spans: Spans, tmp_path: Path) -> None:
    fake = FakeCollector(random.Random(0), MovedClock(), health=1.0, per_second=4.0)
    first = export(fake, spans, tmp_path, patience=Patience(total_s=3.0), batching=Batching(4))
    assert 3 < first.arrived < 20
    changed = copy.deepcopy(spans)
    changed.spans[2].attributes["new"] = True
    checkpoint = Checkpoint(tmp_path, spans.trace_id, URL)
    missing = [span.place for span in otlp.encoded(changed) if span.mark not in checkpoint]
    assert missing == [2, *range(first.arrived, 20)]


def test_an_answer_that_drips_is_given_up(spans: Spans) -> None:
    """Each byte comes within the socket's own limit, which does not end the wait."""
    done = threading.Event()

    class Drip(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
            with contextlib.suppress(OSError):
                for _ in range(100):  # two seconds
                    done.wait(0.02)
                    self.wfile.write(b"x")
                self.wfile.write(b"\r\nContent-Length: 0\r\n\r\n")

        def log_message(self, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Drip)
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    serving.start()
    try:
        with pytest.raises(TimeoutError, match=r"no answer within 0\.3 s"):
            http_post(f"http://127.0.0.1:{server.server_port}/", {}, b"", 0.3)
    finally:
        done.set()
        server.shutdown()
        serving.join()
        server.server_close()


@pytest.mark.parametrize("value", ["x=canary%0Akey", "x=canary%0D%0Ay: 1", "a%20b=canary"])
def test_a_header_that_cannot_be_sent_is_an_error_without_its_value(value: str) -> None:
    with pytest.raises(ConfigError, match="cannot be sent") as refused:
        headers({"OTEL_EXPORTER_OTLP_HEADERS": value})
    assert "canary" not in str(refused.value)
