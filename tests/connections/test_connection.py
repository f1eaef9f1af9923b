from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from appl_backends.http.connection import Answer, Connection, NotHttp

BODY = b'{"a": 1}\r\n\r\nHTTP/1.1 0'
LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nX-Y: z\r\n\r\n%b" % (len(BODY), BODY)
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5;x=y\r\n" + BODY[:5] + b"\r\n%x\r\n" % len(BODY[5:]) + BODY[5:] + b"\r\n0\r\nT: x\r\n\r\n"
)
CLOSED = b"HTTP/1.1 200 OK\r\n\r\n" + BODY
PROVISIONAL = b"HTTP/1.1 100 Continue\r\n\r\n" + LENGTH


def read(data: bytes, cuts: list[int]) -> tuple[Answer, bytes]:
    answer, body = Answer(), []
    at = 0
    for cut in [*sorted(cuts), len(data)]:
        body.append(answer.feed(data[at:cut]))
        at = max(at, cut)
    answer.eof()
    return answer, b"".join(body)


@pytest.mark.parametrize("data", [LENGTH, CHUNKED, CLOSED, PROVISIONAL])
@given(cuts=st.lists(st.integers(0, 120)))
def test_an_answer_is_the_same_however_its_bytes_are_cut(data: bytes, cuts: list[int]) -> None:
    answer, body = read(data, [min(cut, len(data)) for cut in cuts])
    assert (answer.status, body, answer.complete) == (200, BODY, True)
    assert answer.keeps is (data is not CLOSED)


@pytest.mark.parametrize("data", [LENGTH, CHUNKED, PROVISIONAL])
@given(end=st.integers(0, 400))
def test_half_an_answer_is_never_complete(data: bytes, end: int) -> None:
    answer = Answer()
    answer.feed(data[: min(end, len(data) - 1)])
    assert not answer.eof()


def test_names_of_headers_are_lower_case() -> None:
    assert read(LENGTH, [])[0].headers == {"content-length": str(len(BODY)), "x-y": "z"}


@pytest.mark.parametrize(
    ("head", "keeps"),
    [
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n", False),
        (b"HTTP/1.0 200 OK\r\n", False),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n", True),
        (b"HTTP/1.1 200 OK\r\n", True),
    ],
)
def test_a_connection_is_kept_when_the_server_keeps_it(head: bytes, keeps: bool) -> None:
    assert read(head + b"Content-Length: 0\r\n\r\n", [])[0].keeps is keeps


@pytest.mark.parametrize("data", [LENGTH, CHUNKED, b"HTTP/1.1 204 No\r\n\r\n"])
def test_a_connection_with_more_than_the_answer_is_not_kept(data: bytes) -> None:
    assert not read(data + b"x", [])[0].keeps
    assert not read(data + b"x", [len(data)])[0].keeps


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000,
    ],
)
def test_what_is_no_http_is_said_so(data: bytes) -> None:
    with pytest.raises(NotHttp):
        Answer().feed(data)


async def test_what_nobody_asked_for_closes_the_connection() -> None:
    connection = Connection()
    connection.data_received(b"hello")
    assert not connection.is_open
