"""Messages reach each server in the form that it takes, and say the same in it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from appl import Conversation, gen, ppl
from appl.errors import Unsupported
from appl.prompt import Image, Message, ProviderFields, ToolCall
from appl.testing import Fault
from appl_backends.openai import OpenAI
from appl_backends.openai.dialects import dialect_of
from tests.providers.asking import JSON, STREAM, chat, closing, request, using
from tests.wire.servers import FaultServer
from tests.wire.twins.asking import CALL, TOOL, accepted, asked, talk

LONG = "chatcmpl-tool-" + "0123456789abcdef" * 2


@pytest.mark.parametrize(
    ("name", "form"),
    [("openai", ".{1,40}"), ("azure", ".{1,40}"), ("mistral", "[a-zA-Z0-9]{9}"), ("vllm", LONG)],
)
async def test_an_id_of_another_server_is_written_as_this_one_takes_it(
    name: str, form: str
) -> None:
    _, says, result = await accepted(name, *talk(ToolCall(LONG, "add", "{}")), tools=(TOOL,))
    assert re.fullmatch(form, says["tool_calls"][0]["id"])
    assert result["tool_call_id"] == says["tool_calls"][0]["id"]


@pytest.mark.parametrize("arguments", ['{"a": 1', "[1]", "5", '{"a": NaN}', "add 1"])
@pytest.mark.parametrize("name", ["vllm", "sglang", "ollama", "llama.cpp", "deepseek"])
async def test_arguments_that_are_no_object_are_sent_as_a_text_in_one(
    name: str, arguments: str
) -> None:
    said = await accepted(name, *talk(ToolCall("c1", "add", arguments)), tools=(TOOL,))
    sent = said[1]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(sent) == {"not_a_json_object": arguments}


async def test_openai_gets_arguments_as_the_model_wrote_them() -> None:
    said = await accepted("openai", *talk(ToolCall("c1", "add", '{"a": 1')), tools=(TOOL,))
    assert said[1]["tool_calls"][0]["function"]["arguments"] == '{"a": 1'


@pytest.mark.parametrize(
    ("name", "sent"), [("Ann", "Ann"), ("Ann Lee", "Ann_Lee"), ("a" * 70, "a" * 64)]
)
async def test_a_name_has_the_characters_that_openai_takes(name: str, sent: str) -> None:
    (said,) = await accepted("openai", Message("user", "hi", name=name))
    assert said["name"] == sent


async def test_names_without_such_characters_still_tell_speakers_apart() -> None:
    said = await accepted(
        "openai", *(Message("user", "hi", name=name) for name in ("大山", "小川"))
    )
    assert len({message["name"] for message in said}) == 2


async def test_a_message_is_written_for_each_of_two_servers_in_its_own_way() -> None:
    question = request(*talk(), tools=(TOOL,))
    first = await asked("mistral", question)
    second = await asked("openai", question)
    assert len(first["messages"][1]["tool_calls"][0]["id"]) == 9
    assert second["messages"][1]["tool_calls"][0]["id"] == "call_1"


# -- Mistral


async def test_mistral_is_asked_by_its_own_fields() -> None:
    body = await asked("mistral", request(Message("user", "hi", name="Ann"), seed=3))
    assert body["random_seed"] == 3
    assert body["messages"] == [{"role": "user", "content": "hi"}]


async def test_an_answer_stands_between_results_and_the_user_for_mistral() -> None:
    said = await accepted("mistral", *talk(CALL, Message("user", "so?")), tools=(TOOL,))
    assert [message["role"] for message in said][2:] == ["tool", "assistant", "user"]


async def test_mistral_gets_no_empty_answer() -> None:
    said = [Message("user", "hi"), Message("assistant", ""), Message("user", "so?")]
    assert [message["content"] for message in await accepted("mistral", *said)] == ["hi", "so?"]


@pytest.mark.parametrize("stream", [False, True])
async def test_what_mistral_repeats_of_begun_text_is_no_part_of_its_answer(stream: bool) -> None:
    event = {"choices": [{"index": 0, "delta": {"content": "Name: Ann"}, "finish_reason": "stop"}]}
    streamed = Fault("s", 200, STREAM, b"data: %b\n\ndata: [DONE]\n\n" % json.dumps(event).encode())
    fault = streamed if stream else Fault("w", 200, JSON, json.dumps(chat("Name: Ann")).encode())
    with FaultServer([fault], kind="mistral") as server:
        backend = OpenAI(base_url=server.openai_url, server="mistral")
        async with closing(backend):
            emit = (lambda chunk: None) if stream else None
            answer = await backend.complete(request("hi", "Name: "), emit)
    assert answer.text == "Ann"


# -- DeepSeek


async def test_deepseek_gets_reasoning_in_a_turn_with_calls_also_where_there_was_none() -> None:
    more = [Message("assistant", "3"), Message("user", "a"), Message("assistant", "b")]
    said = await accepted("deepseek", *talk(CALL, *more, Message("user", "c")), tools=(TOOL,))
    assert [each.get("reasoning_content") for each in said if each["role"] == "assistant"] == [
        "",
        "",
        None,
    ]


async def test_the_reasoning_of_an_answer_to_results_of_tools_goes_back() -> None:
    message = {"role": "assistant", "content": "3", "reasoning_content": "1 + 2"}
    answer = Fault("w", 200, JSON, json.dumps(chat(message)).encode())
    with FaultServer([answer], kind="deepseek") as server:
        async with closing(OpenAI(base_url=server.openai_url, server="deepseek")) as backend:
            found = await backend.complete(request(*talk(), tools=(TOOL,)))
    provided = found.samples[0].provider_fields
    assert provided is not None and provided.names == ("reasoning_content",)


@pytest.mark.parametrize("feature", ["schema", "images"])
def test_deepseek_is_not_asked_for_what_it_refuses(feature: str) -> None:
    assert feature not in OpenAI(server="deepseek", api_key="k").profile.features


# -- Gemini


async def test_gemini_gets_what_stands_for_the_signature_of_another_models_call() -> None:
    said = await accepted("gemini, OpenAI's interface", *talk(), tools=(TOOL,))
    google = said[1]["tool_calls"][0]["extra_content"]["google"]
    assert google == {"thought_signature": "skip_thought_signature_validator"}


async def test_gemini_gets_its_own_signature_back() -> None:
    signed = {"tool_calls": [{"extra_content": {"google": {"thought_signature": "EnRob3VnaHQ="}}}]}
    said = await accepted(
        "gemini, OpenAI's interface",
        *talk(provider_fields=ProviderFields.of(signed)),
        tools=(TOOL,),
    )
    google = said[1]["tool_calls"][0]["extra_content"]["google"]
    assert google == {"thought_signature": "EnRob3VnaHQ="}


@pytest.mark.parametrize(("model", "signs"), [("gemini-2.5-pro", False), ("gemini-3-pro", True)])
def test_only_gemini_3_wants_signatures(model: str, signs: bool) -> None:
    links = request(*talk()).messages
    assert links is not None and links.parent is not None
    (said,) = dialect_of("gemini", model).written(links.parent.message.as_dict(), links.parent)
    assert ("extra_content" in said["tool_calls"][0]) == signs


async def test_gemini_gets_no_message_without_content() -> None:
    said = [Message("user", "hi"), Message("assistant", ""), Message("user", "so?")]
    found = await accepted("gemini, OpenAI's interface", *said)
    assert [message["content"] for message in found] == ["hi", "so?"]


def test_geminis_address_tells_that_it_takes_no_seed() -> None:
    url = "https://generativelanguage.googleapis.com/v1beta/openai"
    assert "seed" not in OpenAI(base_url=url, api_key="k").profile.features


# -- Ollama


async def test_ollama_is_shown_no_tools_where_it_may_call_none() -> None:
    body = await asked("ollama", request("hi", tools=(TOOL,), tool_choice="none"))
    assert not body.keys() & {"tools", "tool_choice"}


async def test_ollama_is_given_no_reference_to_a_picture() -> None:
    picture = Message("user", "a b", media=((1, Image("https://example.org/a.png")),))
    with pytest.raises(Unsupported, match="from_file"):
        await accepted("ollama", picture)


# -- answers


@pytest.mark.parametrize("repeated", ["Name: Ann", "Name:Ann", "Ann"])
async def test_a_repetition_of_begun_text_goes_with_the_space_behind_it(repeated: str) -> None:
    answer = Fault("w", 200, JSON, json.dumps(chat(repeated)).encode())
    with FaultServer([answer], kind="openai") as server:
        async with closing(OpenAI(base_url=server.openai_url, server="openai")) as backend:
            assert (await backend.complete(request("hi", "Name: "))).text == "Ann"


async def test_an_empty_field_in_an_object_of_a_stream_is_there() -> None:
    blocks = {"thinking_blocks": [{"type": "thinking", "thinking": "", "signature": "s"}]}
    call = {"id": "a", "function": {"name": "add", "arguments": "{}"}}
    deltas = [blocks, {"content": "so"}, {"tool_calls": [call]}]
    events = [{"choices": [{"delta": delta, "finish_reason": None}]} for delta in deltas]
    events.append({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]})
    body = b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in events)
    with FaultServer([Fault("s", 200, STREAM, body + b"data: [DONE]\n\n")]) as server:
        async with closing(OpenAI(base_url=server.openai_url)) as backend:
            found = await backend.complete(request("hi"), lambda chunk: None)
    provided = found.samples[0].provider_fields
    assert provided is not None and json.loads(provided.fields) == blocks


def test_fields_of_a_provider_in_a_list_of_messages_go_to_that_provider_alone() -> None:
    signed = Message("assistant", "a", provider_fields=ProviderFields.of({"x": 1}, "someone"))
    listed = Conversation([Message("user", "hi"), signed, Message("user", "so?")]).as_list()

    @ppl
    def ask(messages: Any) -> Any:
        return str(gen(messages=messages))

    with FaultServer(kind="openai") as server:
        with using(OpenAI(base_url=server.openai_url, model="m")):
            ask(listed)
        assert listed[1]["x"] == 1
        assert server.asks[-1].data["messages"][1] == {"role": "assistant", "content": "a"}
