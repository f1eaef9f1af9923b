"""Messages: their fields, what they are made of, and their form for chat completion servers."""

from __future__ import annotations

import pickle
from hashlib import blake2b
from typing import Any

import pytest

from appl import AIMessage, Audio, Image, Message, SystemMessage, ToolCall, ToolMessage, UserMessage
from appl.errors import InvalidOption
from appl.prompt import Messages, as_message, digest_of

CAT = Image("https://example.com/cat.png")
CALL = ToolCall("c1", "add", '{"a": 1}')


def test_a_message_of_parts_keeps_their_order() -> None:
    message = UserMessage(["look: ", CAT, "well?", " hm"])
    assert message.content == "look: well? hm"
    assert message.media == ((6, CAT),)
    assert message.parts == ["look: ", CAT, "well? hm"]
    assert message.shown == "look: [image https://example.com/cat.png]well? hm"


def test_an_image_alone_is_a_message() -> None:
    assert UserMessage(CAT).parts == [CAT]
    assert UserMessage(CAT).as_dict()["content"] == [CAT.as_part()]


@pytest.mark.parametrize(
    "message",
    [
        UserMessage("x"),
        SystemMessage("s", name="n"),
        UserMessage(["a", CAT, "b", Audio(b"\x01", "wav")], name="Ann"),
        AIMessage("I add", tool_calls=[CALL]),
        AIMessage(tool_calls=[CALL, ToolCall("c2", "f", "{}")]),
        ToolMessage("3", tool_call_id="c1"),
    ],
)
def test_the_dict_of_a_message_is_that_message(message: Message) -> None:
    assert as_message(message.as_dict()) == message


def test_a_plain_message_is_role_and_content() -> None:
    assert UserMessage("x").as_dict() == {"role": "user", "content": "x"}


def test_an_assistant_message_without_text_has_no_content() -> None:
    assert AIMessage(tool_calls=[CALL]).as_dict() == {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
        ],
    }


def test_messages_are_equal_whichever_class_they_have() -> None:
    assert UserMessage("x") == Message("user", "x")
    assert len({UserMessage("x"), Message("user", "x"), AIMessage("x")}) == 2
    assert pickle.loads(pickle.dumps(ToolMessage("t", "c1", True))) == ToolMessage("t", "c1", True)


def test_the_old_arguments_of_messages_are_taken() -> None:
    assert AIMessage(None, tool_calls=None).content == ""  # type: ignore[arg-type]
    assert ToolMessage("t", tool_call_id="").tool_call_id is None
    assert UserMessage("x", role="user") == UserMessage("x")
    assert CALL.args == CALL.arguments
    with pytest.raises(ValueError, match="has the role 'user', not 'assistant'"):
        UserMessage("x", role="assistant")


def test_what_vendors_put_beside_a_message_is_taken_when_it_is_empty() -> None:
    given = {"role": "assistant", "content": "x", "refusal": None, "annotations": []}
    assert as_message(given) == AIMessage("x")
    assert as_message({"role": "developer", "content": "x"}) == SystemMessage("x")


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"role": "bot", "content": "x"}, "system, user, assistant, tool"),
        ({"role": "user"}, "content"),
        ({"role": "user", "content": None}, "content"),
        ({"role": "assistant", "content": "x", "tool_cals": [1]}, "did you mean 'tool_calls'"),
        ({"role": "user", "content": "x", "of_mine": object()}, "plain data"),
        ({"role": "user", "content": [{"type": "file", "file": {}}]}, "text, image_url"),
        ({"role": "user", "content": [{"type": "image_url"}]}, "image_url"),
        ({"role": "user", "content": [3]}, "got 3"),
        ({"role": "user", "content": 3}, "got 3"),
        ({"role": "assistant", "tool_calls": [{"id": "x"}]}, "ToolCall"),
        ("x", "list of UserMessage"),
    ],
)
def test_a_wrong_message_is_told_what_is_wrong(wrong: Any, told: str) -> None:
    with pytest.raises(InvalidOption, match=told):
        as_message(wrong)


def test_every_field_is_part_of_the_digest() -> None:
    messages = [
        Message("user", "x"),
        Message("user", "x", media=((0, CAT),)),
        Message("user", "x", media=((1, CAT),)),
        Message("user", "x", media=((1, Image("https://example.com/dog.png")),)),
        Message("user", "x", name="a"),
        Message("user", "x", name="b"),
        Message("assistant", "x", tool_calls=(CALL,)),
        Message("assistant", "x", tool_calls=(CALL, CALL)),
        Message("assistant", "x", tool_calls=(ToolCall("c1", "add", '{"a": 2}'),)),
        Message("tool", "x"),
        Message("tool", "x", tool_call_id="c1"),
        Message("tool", "x", has_error=True),
    ]
    chains = [Messages.of([message]) for message in messages]
    assert len({chain.digest for chain in chains if chain}) == len(messages)


def test_the_digest_of_a_plain_text_is_what_it_always_was() -> None:
    chain = Messages.of([SystemMessage("s"), UserMessage("q")])
    assert chain is not None
    assert chain.digest.hex() == "98cbdac631b905e18b9df717147268f0"


TEXTS = ["", "é", "a" * 70_000, "é" * 70_000, "\ud800" * 40_000]


@pytest.mark.parametrize("text", TEXTS)
def test_a_digest_covers_each_field_after_its_length(text: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    fields = (b"\x00", data, b"user")
    whole = b"".join([len(field).to_bytes(8, "little") + field for field in fields])
    assert digest_of(b"\x00", text, "user") == blake2b(whole, digest_size=16).digest()


@pytest.mark.parametrize("text", TEXTS)
def test_the_digest_of_a_chain_covers_what_is_before_the_role_and_the_text(text: str) -> None:
    chain = Messages.of([SystemMessage("s"), UserMessage(text)])
    assert chain is not None and chain.parent is not None
    fields = (chain.parent.digest, b"user", text.encode("utf-8", "surrogatepass"))
    whole = b"".join([len(field).to_bytes(8, "little") + field for field in fields])
    assert chain.digest == blake2b(whole, digest_size=16).digest()


def test_a_chain_knows_what_its_backend_must_be_able_to_take() -> None:
    chain = Messages.of([UserMessage(CAT), UserMessage("x"), UserMessage(Audio(b"1", "wav"))])
    assert chain is not None and chain.parent is not None
    assert chain.needs == {"images", "audio"}
    assert chain.parent.needs == {"images"}
