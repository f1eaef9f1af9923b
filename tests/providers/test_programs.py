"""Programs on servers that can do little: choices, samples and types are made in other ways."""

from __future__ import annotations

from typing import Any

import pytest

from appl import gen, ppl, select
from appl.errors import BackendRefused
from appl_backends.openai import OpenAI
from tests.providers.asking import chat, says, using
from tests.wire.servers import FaultServer


@ppl
def choose(question: str) -> Any:
    f"{question}"
    return select(["yes", "no"])


@ppl
def three(question: str) -> Any:
    f"{question}"
    return gen(n=3, seed=7)


@ppl
def number(question: str) -> Any:
    f"{question}"
    return gen(response_format=int)


def client(at: FaultServer, **settings: Any) -> OpenAI:
    return OpenAI(base_url=at.openai_url, model="m", **settings)


def test_a_choice_is_made_under_a_schema_where_there_are_no_regular_expressions() -> None:
    with says(chat('{"value":"no"}')) as server, using(client(server, server="openai")):
        answer = choose("Is fire cold?")
        assert answer == "no"
    schema = server.asks[0].data["response_format"]["json_schema"]
    assert schema["strict"] is True
    assert schema["schema"]["properties"]["value"] == {"enum": ["yes", "no"], "type": "string"}


def test_a_choice_is_asked_for_where_there_are_no_schemas_and_asked_again() -> None:
    replies = says(chat("perhaps"), chat("2"))
    with replies as server, using(client(server, without=["schema"])):
        assert choose("Is fire cold?") == "no"
    assert "1. yes\n2. no" in server.asks[0].data["messages"][-1]["content"]
    assert len(server.asks) == 2 and len(server.asks[1].data["messages"]) == 3


def test_samples_are_several_requests_where_n_is_not_known_each_with_its_seed() -> None:
    with FaultServer() as server, using(client(server, server="other")):
        assert list(three("Why?").samples) == [server.answer("Why?")] * 3
    assert sorted(ask.data["seed"] for ask in server.asks) == [7, 8, 9]
    assert all("n" not in ask.data for ask in server.asks)


def test_a_typed_answer_that_does_not_fit_is_asked_for_again() -> None:
    replies = says(chat('{"value":"many"}'), chat('{"value":12}'))
    with replies as server, using(client(server, server="other")):
        assert number("How many?").response_obj == 12
    assert len(server.asks) == 2


def test_what_a_provider_refuses_is_told_with_the_line_of_the_call() -> None:
    replies = says(chat(finish="content_filter"))
    with replies as server, using(client(server)), pytest.raises(BackendRefused) as caught:
        str(number("How many?"))
    assert "test_programs.py" in "".join(caught.value.__notes__)
