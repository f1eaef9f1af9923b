"""Requests are of the types of the official SDKs, whatever is asked, and whichever server is asked."""

from __future__ import annotations

import ast
import contextlib
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from appl import UserRole, gen, ppl
from appl.errors import BackendError, BackendRefused, UnknownOption, Unsupported
from appl.prompt import Audio, Image, Message, ToolCall
from appl.testing import Fault
from appl_backends.litellm import LiteLLM
from appl_backends.openai import OpenAI
from appl_backends.openai.body import OPTIONS
from appl_backends.openai.servers import FEATURES
from tests.providers.asking import JSON, KEY, closing, request, using
from tests.wire import anthropic_subset
from tests.wire.sdk_types import anthropic_problems, openai_problems
from tests.wire.servers import FaultServer
from tests.wire.test_strict_schemas import drawn

KINDS = tuple(FEATURES)
ROOT = Path(__file__).parents[2]
PICTURE, SOUND = Image.from_bytes(b"\x89PNG\r\n\x1a\nrest"), Audio(b"RIFF0000WAVE", "wav")
CALL = ToolCall("c1", "add", '{"a":1}')
TOOL = '{"description":"add","name":"add","parameters":{"type":"object","properties":{}}}'
OPTION = {
    "frequency_penalty": 0.5, "logit_bias": {"5": 1}, "metadata": {"a": "b"}, "modalities": ["text"],
    "parallel_tool_calls": True, "prediction": {"type": "content", "content": "x"}, "user": "u",
    "presence_penalty": 1, "prompt_cache_key": "k", "reasoning_effort": "low", "verbosity": "low",
    "safety_identifier": "s", "service_tier": "auto", "store": True, "top_k": 3, "min_p": 0.1,
    "repetition_penalty": 1.1, "chat_template_kwargs": {"a": 1}, "extra_body": {"top_logprobs": 0},
}  # fmt: skip
TALKS: dict[str, list[Message]] = {
    "text": [Message("system", "s"), Message("user", "u"), Message("assistant", "a"), Message("user", "")],
    "a picture": [Message("user", "a b", media=((1, PICTURE),))],
    "tools": [Message("user", "u"), Message("assistant", "", tool_calls=(CALL,)),
              Message("tool", "r", tool_call_id="c1")],
    "tools with text": [Message("user", "u"), Message("assistant", "t", tool_calls=(CALL,)),
                        Message("tool", "", tool_call_id="c1"), Message("user", "x")],
    "speakers": [Message("user", "u", name="Ann"), Message("assistant", "a", name="Bob"),
                 Message("user", "u", name="Cid")],
}  # fmt: skip


async def ask(kind: str, asked: Any, stream: bool = False) -> int:
    """The number of requests that a server of *kind* got, and would have taken."""
    with FaultServer(kind=kind) as server:
        async with closing(OpenAI(base_url=server.openai_url, server=kind)) as backend:  # type: ignore[arg-type]
            with contextlib.suppress(BackendError):  # of an answer without what was asked for
                await backend.complete(asked, (lambda chunk: None) if stream else None)
    return server.looked_at


@pytest.mark.parametrize("kind", KINDS)
async def test_each_option_that_a_server_takes_is_of_the_type(kind: str) -> None:
    profile = OpenAI(base_url="http://127.0.0.1:1/v1", server=kind).profile  # type: ignore[arg-type]
    assert set(OPTION) == OPTIONS
    for name in sorted(profile.options):
        assert await ask(kind, request("hi", extra=((name, OPTION[name]),))) == 1


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("kind", KINDS)
async def test_each_parameter_and_talk_is_of_the_type(kind: str, stream: bool) -> None:
    features = FEATURES[kind]
    full: dict[str, Any] = {"max_tokens": 3, "temperature": 0.5, "top_p": 1.0, "stop": ("a", "b"),
                            "seed": 3, "tools": (TOOL,)}  # fmt: skip
    full |= {"logprobs": 2} if "logprobs" in features else {}
    full |= {"stop_tokens": (1,)} if "stop_tokens" in features else {}
    talks = [talk for name, talk in TALKS.items() if name != "a picture" or "images" in features]
    for constraint in ({}, *({name: "a"} for name in ("regex", "grammar") if name in features)):
        for choice in (None, "auto", "none", "required", "add"):
            for talk in talks:
                asked = request(*talk, n=2 if "n" in features else 1, tool_choice=choice, **full, **constraint)  # fmt: skip
                assert await ask(kind, asked, stream) == 1
    if "audio" in features:
        await ask(kind, request(Message("user", "a b", media=((1, SOUND),))))
    if "prefill" in features:
        await ask(kind, request("hi", "Well,"))


@pytest.mark.parametrize("kind", ["openai", "azure", "ollama"])
def test_an_option_that_a_server_refuses_or_passes_over_is_refused_before_the_call(
    kind: str,
) -> None:
    @ppl
    def answer() -> Any:
        "hello"
        return gen(top_k=3)

    with FaultServer(kind=kind) as server:
        backend = OpenAI(base_url=server.openai_url, model="m", server=kind)  # type: ignore[arg-type]
        with using(backend), pytest.raises(UnknownOption, match="'top_k'"):
            answer()
    assert not server.asks


@pytest.mark.parametrize("kind", ["openai", "azure"])
@pytest.mark.parametrize("role", ["system", "assistant", "tool"])
async def test_a_picture_that_openai_would_refuse_is_refused_before_the_call(
    kind: str, role: str
) -> None:
    talk = [Message("user", "u"), Message("assistant", "", tool_calls=(CALL,)),
            Message(role, "r", ((0, PICTURE),), tool_call_id="c1" if role == "tool" else None)]  # type: ignore[arg-type] # fmt: skip
    with FaultServer(kind=kind) as server:
        async with closing(OpenAI(base_url=server.openai_url, server=kind)) as backend:  # type: ignore[arg-type]
            with pytest.raises(Unsupported, match="in the user's messages only"):
                await backend.complete(request(*talk))
    assert not server.asks


def test_a_program_that_returns_a_list_of_models_gets_it_from_openai() -> None:
    from pydantic import BaseModel

    class Item(BaseModel):
        name: str

    @ppl
    def items() -> Any:
        "two items"
        with UserRole():
            "please"
        return gen(response_format=list[Item])

    said = json.dumps({"value": [{"name": "a"}, {"name": "b"}]})
    with FaultServer(answer=lambda question: said, kind="openai") as server:
        backend = OpenAI(base_url=server.openai_url, model="m", server="openai")
        with using(backend):
            assert items().result() == [Item(name="a"), Item(name="b")]
    assert server.asks[0].data["response_format"]["json_schema"]["strict"] is True
    assert server.looked_at == len(server.asks) == 1


# -- Anthropic, by litellm


CLAUDES = ("anthropic/claude-sonnet-4-5", "anthropic/claude-3-5-haiku-latest")


def says(text: str) -> Fault:
    answer = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": text}], "usage": {"input_tokens": 3, "output_tokens": 1},
    }  # fmt: skip
    return Fault("given", 200, JSON, json.dumps(answer).encode())


async def ask_claude(asked: Any) -> Any:
    """The body that Anthropic gets; its server fails if Anthropic would refuse it."""
    with FaultServer(lambda ask: says('{"value": 1}')) as server:
        async with closing(LiteLLM(base_url=server.url, api_key=KEY)) as backend:
            with contextlib.suppress(BackendRefused):  # of a text in place of a call
                await backend.complete(asked)
    assert server.looked_at == 1
    return server.asks[0].data


@pytest.mark.parametrize("model", CLAUDES)
async def test_each_talk_reaches_anthropic_in_its_type(model: str) -> None:
    talks = (*TALKS.values(), [Message("user", "a", media=((0, PICTURE),)), Message("assistant", "b"), Message("user", "c")])  # fmt: skip
    for talk, choice in zip(
        talks, itertools.cycle((None, "auto", "required", "add")), strict=False
    ):
        asked = request(*talk, model=model, tools=(TOOL,), tool_choice=choice, max_tokens=9,
                        temperature=0.5, stop=("x",))  # fmt: skip
        await ask_claude(asked)


@pytest.mark.parametrize("model", CLAUDES)
async def test_schemas_reach_anthropic_in_the_subset_that_it_publishes(model: str) -> None:
    """Or in words: litellm would close an open object, and cut what is recursive."""
    told = 0
    for _, shape, schema, _ in drawn(500)[:40]:
        body = await ask_claude(request("hi", model=model, schema=schema))
        in_words = "fits this JSON schema" in json.dumps(body["messages"])
        form = body.get("output_format", body.get("tool_choice"))
        assert in_words != (form is not None), shape.name
        told += not in_words
        for tool in body.get("tools", ()):
            refused = [
                each
                for each in anthropic_subset.problems(tool["input_schema"])
                if "leads nowhere" in each
            ]
            assert not refused, (shape.name, refused)  # fmt: skip
    assert told >= 20


async def test_claude_is_asked_in_words_for_free_keys_and_recursion() -> None:
    free = '{"type":"object","additionalProperties":{"type":"integer"}}'
    body = await ask_claude(request("hi", model=CLAUDES[0], schema=free))
    assert "output_format" not in body and free in body["messages"][-1]["content"][-1]["text"]


# -- what looks at the requests


@pytest.mark.parametrize(
    "wrong",
    [
        {"top_k": 3}, {"n": "2"}, {"max_tokens": 1.5}, {"stream": 1}, {"tool_choice": "sometimes"},
        {"messages": [{"role": "user", "content": "x", "more": 1}]},
        {"messages": [{"role": "user"}]}, {"messages": [{"role": "nobody", "content": "x"}]},
        {"messages": [{"role": "system", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
        {"messages": [{"role": "tool", "content": "x"}]},
        {"response_format": {"type": "json_schema", "strict": True, "json_schema": {"name": "a"}}},
        {"tools": [{"type": "function", "name": "f"}]},
    ],
)  # fmt: skip
def test_what_the_types_of_the_sdk_do_not_have_is_found(wrong: Any) -> None:
    right = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
    assert openai_problems(right) == [] and openai_problems({**right, **wrong})


@pytest.mark.parametrize(
    "wrong",
    [
        {"seed": 3}, {"max_tokens": None}, {"messages": [{"role": "user", "content": "x", "name": "a"}]},
        {"messages": [{"role": "tool", "content": "x"}]}, {"response_format": {}},
    ],
)  # fmt: skip
def test_what_the_types_of_anthropics_sdk_do_not_have_is_found(wrong: Any) -> None:
    right = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]}
    assert anthropic_problems(right, {}) == [] and anthropic_problems({**right, **wrong}, {})


def test_a_test_whose_request_a_real_server_refuses_fails() -> None:
    import httpx

    body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "best_of": 2}
    with pytest.raises(AssertionError, match="best_of"), FaultServer() as server:
        assert httpx.post(f"{server.openai_url}/chat/completions", json=body).status_code == 200


LOOKED_AT = (
    "tests/wire/servers.py",
    "tests/servers/test_providers_of_litellm.py",  # it has a server of any provider's interface
)


def test_every_server_of_the_tests_looks_at_its_requests() -> None:
    for path in (ROOT / "tests").rglob("*.py"):
        if str(path.relative_to(ROOT)) in LOOKED_AT:
            continue
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if "FaultServer" in text else ():
            names = [each.name for each in node.names] if isinstance(node, ast.ImportFrom) else []
            given = str(getattr(node, "module", "")).startswith("appl.testing")
            assert not (given and "FaultServer" in names), f"{path}: use tests.wire.servers"
