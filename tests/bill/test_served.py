"""A real server gives the same answer to a prompt in parts as to the same prompt in one piece."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from appl.backend import Reuse
from appl.testing import Served, serving
from tests.bill.test_parts import border, request
from tests.bill.world import openai_body


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with serving() as found:
        yield found


def answer(server: Served, body: Mapping[str, Any]) -> str:
    """The server's answer to the messages of *body*, without their marks."""
    data = {"messages": _unmarked(body["messages"]), "max_tokens": 24, "temperature": 0}
    asked = urllib.request.Request(
        f"{server.url}/v1/chat/completions",
        json.dumps({**data, "model": "embedded"}).encode(),
        {"Content-Type": "application/json", **server.headers},
    )
    with urllib.request.urlopen(asked) as found:
        return str(json.load(found)["choices"][0]["message"]["content"])


def _unmarked(value: Any) -> Any:
    if isinstance(value, list):
        return [_unmarked(each) for each in value]
    if isinstance(value, dict):
        return {k: _unmarked(v) for k, v in value.items() if k != "prompt_cache_breakpoint"}
    return value


@pytest.mark.parametrize(
    "text",
    [
        "Mira Holt is a baker from Tarn. Olaf Brand is a pilot.\nWho is a pilot? One name.",
        "The capital of France is Paris.\nWhat is the capital of France?",
    ],
)
@pytest.mark.parametrize("share", [0.3, 0.7])
def test_parts_are_answered_as_the_whole_is(server: Served, text: str, share: float) -> None:
    reuse = Reuse((border(0, round(len(text) * share)),), False)
    cut, whole = openai_body(request(text, reuse=reuse)), openai_body(request(text))
    assert isinstance(cut["messages"][0]["content"], list)
    assert answer(server, cut) == answer(server, whole) != ""
