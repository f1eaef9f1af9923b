"""Nothing decodes more than two engine steps after nobody wants it any more."""

from __future__ import annotations

import json
import socket
import threading
from typing import Any

import httpx

from appl.testing import Served, serving

from .conftest import ENDLESS, HELLO, Client, connect

FIVE = {"max_new_tokens": 5, "ignore_eos": True, "temperature": 0}


def began(client: Client, body: dict[str, Any], pieces: int = 3) -> httpx.Response:
    """An endless stream of which some events have come."""
    request = client.http.build_request(
        "POST", "/generate", json={**body, "stream": True}, headers=client.server.headers
    )
    response = client.http.send(request, stream=True)
    lines = response.iter_lines()
    for _ in range(2 * pieces):
        next(lines)
    response.extensions["lines"] = lines
    return response


def nothing_else_decodes(client: Client, aborts: int) -> None:
    """Five tokens are decoded while five are; and every abort so far took two steps or fewer."""
    before = client.settled()
    client.generate("Once upon a time", sampling_params=FIVE)
    after = client.state
    assert after["decoded_tokens"] - before["decoded_tokens"] == 5
    assert after["steps"] - before["steps"] <= 6
    assert after["aborts"] == aborts and after["abort_steps"] <= 2


def test_an_aborted_request_answers_with_what_there_was(client: Client) -> None:
    before = client.settled()
    stream = began(client, {"text": HELLO, "sampling_params": ENDLESS, "rid": "mine"})
    assert client.post("/abort_request", {"rid": "mine"}).status_code == 200
    *_, last, done = [line for line in stream.extensions["lines"] if line]
    answer = json.loads(last.removeprefix("data: "))
    meta = answer["meta_info"]
    assert done == "data: [DONE]" and meta["id"] == "mine"
    assert meta["finish_reason"] == {
        "type": "abort", "message": "Aborted", "status_code": None, "err_type": None,
    }  # fmt: skip
    assert 3 <= meta["completion_tokens"] == len(answer["output_ids"]) < 3500
    after = client.settled()
    assert after["decoded_tokens"] - before["decoded_tokens"] == meta["completion_tokens"]
    nothing_else_decodes(client, before["aborts"] + 1)


def test_a_client_that_leaves_a_stream_aborts_it(client: Client) -> None:
    before = client.settled()
    stream = began(client, {"text": [HELLO, "Once"], "sampling_params": {**ENDLESS, "n": 2}})
    stream.close()
    nothing_else_decodes(client, before["aborts"] + 2)


def test_a_client_that_leaves_without_an_answer_aborts_it(client: Client, shared: Served) -> None:
    before = client.settled()
    body = json.dumps({"text": HELLO, "sampling_params": ENDLESS}).encode()
    host, port = shared.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as line:
        line.sendall(
            f"POST /generate HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {shared.api_key}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        client.until(lambda state: state["running"] == 1)
    nothing_else_decodes(client, before["aborts"] + 1)


def test_a_batch_is_aborted_by_the_name_of_its_request(client: Client) -> None:
    before = client.settled()
    body = {"text": [HELLO, "Once"], "sampling_params": ENDLESS, "rid": "all_of"}
    stream = began(client, body)
    client.post("/abort_request", {"rid": "all"})
    client.post("/abort_request", {"rid": "all_of"})
    ends = [json.loads(line[6:]) for line in stream.extensions["lines"] if "finish" in line]
    types = [end["meta_info"]["finish_reason"] for end in ends]
    assert [each["type"] for each in types if each] == ["abort", "abort"]
    nothing_else_decodes(client, before["aborts"] + 2)


def test_all_are_aborted_with_the_key_of_administration(client: Client) -> None:
    before = client.settled()
    found: list[httpx.Response] = []
    body = {"text": HELLO, "sampling_params": ENDLESS}
    threads = [
        threading.Thread(target=lambda: found.append(client.post("/generate", body)))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    client.until(lambda state: state["running"] == 3)
    assert client.post("/abort_request", {"abort_all": True}).status_code == 401
    assert client.post("/flush_cache", admin=True).status_code == 400
    assert client.post("/abort_request", {"abort_all": True}, admin=True).status_code == 200
    for thread in threads:
        thread.join()
    assert {each.json()["meta_info"]["finish_reason"]["type"] for each in found} == {"abort"}
    nothing_else_decodes(client, before["aborts"] + 3)
    assert client.post("/flush_cache", admin=True).status_code == 200
    assert client.state["tokens"] == 0


def test_an_unknown_name_aborts_nothing(client: Client) -> None:
    before = client.settled()
    assert client.post("/abort_request", {"rid": "nobody"}).status_code == 200
    assert client.post("/abort_request", {}).status_code == 200
    assert client.state["aborts"] == before["aborts"]


def test_a_full_queue_is_busy_and_says_when_to_come_again() -> None:
    with serving("--max-batch", "1", "--max-queued", "1") as server:
        client = connect(server)
        body = {"text": HELLO, "sampling_params": ENDLESS}
        streams = [began(client, body)]
        waiting = threading.Thread(target=client.post, args=("/generate", {**body, "rid": "two"}))
        waiting.start()
        client.until(lambda state: state["open_requests"] == 2)
        for path in ("/generate", "/v1/chat/completions"):
            busy = client.post(path, {**body, "messages": [{"role": "user", "content": "Hi"}]})
            assert busy.status_code == 503 and busy.headers["retry-after"] == "1"
            assert "The request queue is full." in busy.text
        assert client.post("/abort_request", {"rid": "two"}).status_code == 200
        waiting.join()
        streams[0].close()
        assert client.settled()["aborts"] == 2
        refused = client.post("/generate", {**body, "sampling_params": {"n": 3}})
        assert refused.status_code == 400 and "3 samples" in refused.text
        assert client.generate(HELLO, sampling_params=FIVE)["text"]
