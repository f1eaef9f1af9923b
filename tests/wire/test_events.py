"""Streams of events are read by the published rule, however their bytes are cut."""

from __future__ import annotations

import random

import pytest

from appl_backends.http.events import EventParser, begins_events
from tests.drawn import counts
from tests.wire.naive_events import events

LINES = (
    "data: {}", "data:{}", "data:", "data", "data:  two", "data: é漢🙂", "data: :", ": note", ":",
    "event: error", "event:", "event", "id: 7", "retry: 5", "other: x", "Data: x", "data : x", " data: x",
    "datax: y", "", "", "", "data: [DONE]", "\ufeff", "data: \ufeffx", "data: a\0b", "event: é",
)  # fmt: skip
ENDS = ("\n", "\n", "\n", "\r\n", "\r\n", "\r")


def drawn(draw: random.Random) -> bytes:
    """A stream of random lines and ends of lines, now and then with a byte that is no UTF-8."""
    one_end = draw.choice(ENDS) if draw.random() < 0.7 else None
    text = "".join(
        draw.choice(LINES) + (one_end or draw.choice(ENDS)) for _ in range(draw.randint(0, 24))
    )
    body = text.encode()
    if draw.random() < 0.2:
        body = b"\xef\xbb\xbf" + body
    if draw.random() < 0.1:
        at = draw.randrange(len(body) + 1)
        body = body[:at] + draw.choice((b"\xff", b"\xc3", b"\xe2\x82", b"\xed\xa0\x80")) + body[at:]
    return body if draw.random() < 0.8 else body[: draw.randrange(len(body) + 1)]


def read(body: bytes, cuts: list[int]) -> list[tuple[str, str]]:
    """The events of *body*, which comes in pieces."""
    parser, found = EventParser(), []
    for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True):
        found += parser.feed(body[start:end])
    return found


@counts(2_000, 20_000)
def test_random_streams_are_read_as_the_rule_says_wherever_they_are_cut(count: int) -> None:
    draw, seen = random.Random(5), 0
    for _ in range(count):
        body = drawn(draw)
        wanted = events(body)
        cuts = sorted(draw.randrange(len(body) + 1) for _ in range(draw.randint(0, 9)))
        assert read(body, cuts) == wanted, (body, cuts)
        assert read(body, list(range(len(body)))) == wanted, body
        seen += len(wanted)
    assert seen > count // 2


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b"data: x\n", True), (b": keep-alive\n", True), (b"event: error\n", True), (b"id\n", True),
        (b"\xef\xbb\xbfdata:x", True), (b"\r\n\r\ndata: x", True), (b"retry: 5\r", True),
        (b'{"id": 5}', False), (b"[", False), (b" <html>", False), (b"da", None), (b"", None),
        (b"\xef\xbb", None), (b"Internal Server Error", False),
    ],
)  # fmt: skip
def test_the_first_bytes_say_whether_a_body_is_a_stream(body: bytes, found: bool | None) -> None:
    assert begins_events(body) is found


def test_an_event_that_the_end_cuts_off_is_none_but_can_be_had() -> None:
    parser = EventParser()
    assert list(parser.feed(b"data: a\n\ndata: b\ndata: c")) == [("", "a")]
    assert list(parser.rest()) == [("", "b\nc")]
