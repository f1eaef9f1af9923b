"""The server that fails as it is told, seen from clients that know nothing of it."""

from __future__ import annotations

import http.client
import json
import socket
from typing import Any

import openai
import pytest

from appl.testing import FAULTS, Fault, drawn
from appl.testing.faults import Ask
from tests.wire.servers import FaultServer


def post(server: FaultServer, path: str, body: Any) -> tuple[http.client.HTTPResponse, bytes]:
    """One request on a connection of its own, and the whole answer."""
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=60)
    connection.request("POST", path, json.dumps(body))
    response = connection.getresponse()
    data = response.read()
    connection.close()
    return response, data


def chat(question: str, **more: Any) -> dict[str, Any]:
    return {"model": "fault", "messages": [{"role": "user", "content": question}], **more}


@pytest.fixture
def client() -> Any:
    return lambda server: openai.OpenAI(base_url=server.openai_url, api_key="k", max_retries=0)


def test_the_official_sdk_reads_its_answers(client: Any) -> None:
    with FaultServer() as server, client(server) as sdk:
        whole = sdk.chat.completions.create(**chat("q", n=2))
        assert [each.message.content for each in whole.choices] == [server.answer("q")] * 2
        assert whole.usage.prompt_tokens_details.cached_tokens == 0
        pieces = [
            event.choices[0].delta.content or ""
            for event in sdk.chat.completions.create(**chat("q", stream=True))
            if event.choices
        ]
        assert "".join(pieces) == server.answer("q") and len(pieces) > 3
        assert [model.id for model in sdk.models.list()] == ["fault"]
        assert server.answered == {"q": 2}


def test_it_answers_as_sglang_does() -> None:
    with FaultServer() as server:
        _, data = post(server, "/generate", {"input_ids": [1, 2], "rid": "r"})
        answer = json.loads(data)
        assert answer["text"] == server.answer("[1, 2]")
        assert answer["meta_info"]["finish_reason"]["type"] == "stop"
        _, streamed = post(server, "/generate", {"input_ids": [1, 2], "stream": True})
        *events, last = [line[6:] for line in streamed.decode().split("\n\n") if line]
        assert last == "[DONE]" and json.loads(events[-1])["text"] == answer["text"]
        assert json.loads(events[0])["text"] == answer["text"].split(" ")[0]


def test_faults_come_in_the_order_of_the_script_and_are_counted() -> None:
    busy, page = (fault for fault in FAULTS if fault.name in ("429 seconds", "page"))
    with FaultServer([busy, None, page]) as server:
        statuses = [post(server, "/v1/chat/completions", chat("q"))[0].status for _ in range(4)]
        assert statuses == [429, 200, 200, 200]
        assert server.injected == {"429 seconds": 1, "page": 1} and server.answered == {"q": 2}
        assert [ask.number for ask in server.asks] == [0, 1, 2, 3]


def test_a_drawn_script_is_the_same_every_time() -> None:
    def kinds(seed: int) -> list[str | None]:
        script = drawn(seed, 0.5)
        asks = (Ask(number, "/", {}, {}, "") for number in range(400))
        return [fault.name if fault is not None else None for fault in map(script, asks)]

    assert kinds(1) == kinds(1) != kinds(2)
    assert 150 < sum(kind is not None for kind in kinds(1)) < 250
    assert {fault.name for fault in FAULTS} <= {*kinds(1), *kinds(2), *kinds(3)}


def test_it_can_die_and_come_back_at_the_same_address() -> None:
    with FaultServer() as server:
        url = server.url
        server.kill()
        with pytest.raises(ConnectionRefusedError):
            post(server, "/v1/chat/completions", chat("q"))
        server.revive()
        assert server.url == url
        assert post(server, "/v1/chat/completions", chat("q"))[0].status == 200


def test_a_reset_is_a_reset_and_not_an_end() -> None:
    with FaultServer([Fault("reset", share=0.0, ends="reset")]) as server:
        host, port = server.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=60) as link:
            body = json.dumps(chat("q")).encode()
            head = f"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n"
            link.sendall(head.encode() + body)
            with pytest.raises(ConnectionResetError):
                link.recv(10)


def test_each_fault_has_a_name_of_its_own() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 25
