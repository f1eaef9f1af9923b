"""Answers that a person gives in the page: taken from the page alone, and added to the run."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from made import small_trace

from appl.tracing.viewer import View, ViewerServer, Views

GOOD = json.dumps({"address": "/ask.0", "answer": "yes"})


@pytest.fixture
def taken() -> list[tuple[str, str]]:
    return []


@pytest.fixture
def server(path: Path, taken: list[tuple[str, str]]) -> Iterator[ViewerServer]:
    """A server that takes answers, but no ``no``."""

    def answer(address: str, text: str) -> str:
        if text == "no":
            raise ValueError("write yes")
        taken.append((address, text))
        return "answered"

    with (
        closing(View(small_trace(path))) as view,
        ViewerServer(Views(view), answer=answer) as made,
    ):
        yield made


def post(server: ViewerServer, body: str, **given: str) -> tuple[int, str]:
    """The status and body of an answer by POST; ``None`` as a header leaves it out."""
    headers = {
        "Host": f"127.0.0.1:{server.port}",
        "Origin": f"http://127.0.0.1:{server.port}",
        "Content-Type": "application/json",
        **{name.replace("_", "-"): value for name, value in given.items()},
    }
    target = headers.pop("Target", f"/{server.token}/answer")
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)) as connection:
        connection.putrequest("POST", target, skip_host=True)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            if value:
                connection.putheader(name, value)
        connection.endheaders(body.encode())
        found = connection.getresponse()
        return found.status, found.read().decode()


def test_the_page_gives_an_answer(server: ViewerServer, taken: list[tuple[str, str]]) -> None:
    assert post(server, GOOD) == (200, '{"said": "answered"}')
    assert taken == [("/ask.0", "yes")]


def test_an_answer_that_does_not_fit_is_told(server: ViewerServer) -> None:
    assert post(server, GOOD.replace("yes", "no")) == (409, "write yes\n")


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({"Origin": ""}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "https://evil.invalid"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Host": "evil.invalid"}, 421),
        ({"Target": "/x/answer"}, 403),
        ({"Target": "/answer"}, 403),
        ({"Content_Type": "text/plain"}, 415),
        ({"Content_Type": "application/x-www-form-urlencoded"}, 415),
    ],
)
def test_other_sites_and_forms_give_none(
    server: ViewerServer, taken: list[tuple[str, str]], given: dict[str, str], status: int
) -> None:
    assert post(server, GOOD, **given)[0] == status
    assert taken == []


@pytest.mark.parametrize("body", ["", "[]", "{", "{}", '{"address": 1, "answer": "x"}', "[" * 5000])
def test_what_is_no_answer_is_refused(
    server: ViewerServer, taken: list[tuple[str, str]], body: str
) -> None:
    assert post(server, body)[0] == 400
    assert post(server, " " * 100_001)[0] == 413
    assert taken == []


def test_a_page_of_a_server_that_takes_none_cannot_answer(path: Path) -> None:
    with closing(View(small_trace(path))) as view, ViewerServer(Views(view)) as server:
        assert post(server, GOOD)[0] == 405
