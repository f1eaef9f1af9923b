"""What litellm's providers get is in the form that they take, and what they say is whole."""

from __future__ import annotations

import json
import re

import pytest

from appl.backend import Request
from appl.errors import Unsupported
from appl.prompt import Image, Message, ToolCall
from appl_backends.litellm import LiteLLM
from tests.providers.asking import closing, request
from tests.wire.servers import FaultServer
from tests.wire.twins.asking import CALL, TOOL, accepted, asked, talk
from tests.wire.twins.deepseek import DeepSeekBeta
from tests.wire.twins.kinds import KINDS

CLAUDE, THINKING = "anthropic, by litellm", "anthropic, thinking, by litellm"


async def test_claude_gets_ids_that_it_takes() -> None:
    call = ToolCall("functions.add:0", "add", "{}")
    said = await accepted(CLAUDE, *talk(call), tools=(TOOL,))
    assert re.fullmatch("[a-zA-Z0-9_-]+", said[1]["content"][0]["id"])


async def test_claude_gets_no_text_that_is_only_whitespace() -> None:
    said = [Message("user", "hi"), Message("assistant", " \n"), Message("user", "so?")]
    assert len(await accepted(CLAUDE, *said)) == 1  # the user's, which become one


async def test_claude_gets_begun_text_without_the_space_at_its_end() -> None:
    said = await accepted(CLAUDE, Message("user", "hi"), Message("assistant", "Name: "))
    assert said[-1]["content"][0]["text"] == "Name:"


async def test_claude_gets_a_message_of_the_user_first() -> None:
    said = await accepted(CLAUDE, Message("assistant", "Welcome!"), Message("user", "hi"))
    assert [message["role"] for message in said] == ["user", "assistant", "user"]


async def test_claude_calls_no_tool_that_nobody_gave_it() -> None:
    body = await asked(CLAUDE, request(*talk()))
    assert body["tool_choice"] == {"type": "none"}


async def test_claude_goes_on_without_thinking_in_a_turn_that_another_model_began() -> None:
    for more in ([], [Message("user", "so?")], [Message("user", "so?"), Message("user", "well?")]):
        assert "thinking" not in await asked(THINKING, request(*talk(CALL, *more), tools=(TOOL,)))
    later = talk(CALL, Message("assistant", "3"), Message("user", "so?"))
    assert "thinking" in await asked(THINKING, request(*later, tools=(TOOL,)))


async def test_deepseek_is_asked_for_an_object_and_for_its_schema_in_words() -> None:
    schema = '{"type":"object","properties":{"a":{"type":"integer"}}}'
    body = await asked("deepseek, by litellm", request("hi", schema=schema))
    assert body["response_format"] == {"type": "json_object"}
    assert '"a"' in body["messages"][-1]["content"]


async def test_deepseek_is_asked_in_words_before_the_begun_text() -> None:
    schema = '{"type":"object","properties":{"a":{"type":"integer"}}}'
    question = request("hi", '{"a":', schema=schema, model="deepseek/deepseek-chat")
    with FaultServer(DeepSeekBeta(failing=0), kind="deepseek") as server:
        backend = LiteLLM(base_url=server.url, api_key="k")
        async with closing(backend):
            await backend.complete(question)
        words, begun = server.asks[0].data["messages"][-2:]
    assert '"a"' in words["content"] and begun == {
        "role": "assistant", "content": '{"a":', "prefix": True,
    }  # fmt: skip


async def test_deepseek_is_given_no_picture_that_litellm_would_leave_out() -> None:
    picture = Message("user", "a b", media=((1, Image("https://example.org/a.png")),))
    question = request(picture, model="deepseek/deepseek-chat")
    with pytest.raises(Unsupported, match="text only"):
        await LiteLLM(api_key="k").complete(question)


@pytest.mark.parametrize("name", [name for name in KINDS if "litellm" in name])
async def test_half_a_character_reaches_no_provider(name: str) -> None:
    body = await asked(name, request("half \udc97 a character"))
    assert "half � a character" in json.dumps(body, ensure_ascii=False)


@pytest.mark.parametrize("name", [name for name in KINDS if "litellm" in name])
async def test_a_stream_whose_text_holds_the_mark_of_the_end_is_whole(name: str) -> None:
    twin = KINDS[name].twin(failing=0)
    twin.model.text = lambda draw, most: "before [DONE] after"  # type: ignore[method-assign]
    with FaultServer(twin) as server:
        backend = KINDS[name].backend(server)
        async with closing(backend):
            model = backend.profile.default_model or ""
            question = request("hi", model=model)
            answer = await backend.complete(question, lambda chunk: None)
    assert answer.text == "before [DONE] after"


async def test_another_server_of_openais_interface_gets_arguments_in_an_object() -> None:
    said = request(*talk(ToolCall("c", "add", '{"a": 1')))
    with FaultServer() as server:
        async with closing(LiteLLM(base_url=f"{server.url}/v1", api_key="k")) as backend:
            asked = Request("/", 0, "openai/m", said.messages, said.sampling)
            await backend.complete(asked)
        (call,) = server.asks[-1].data["messages"][1]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"not_a_json_object": '{"a": 1'}


async def test_a_seed_that_a_provider_may_ignore_is_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with FaultServer() as server:
        async with closing(LiteLLM(base_url=f"{server.url}/v1", api_key="k", name="x")) as backend:
            said = request("hi", seed=5)
            await backend.complete(Request("/", 0, "openai/m", said.messages, said.sampling))
    assert "may ignore gen(seed=...)" in capsys.readouterr().err
