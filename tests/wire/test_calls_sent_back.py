"""Calls of earlier turns go back in a form that strict servers take, whatever the model wrote."""

from __future__ import annotations

import json
from typing import Any

import pytest

from appl.prompt import AIMessage, Message, Messages, ToolCall, ToolMessage, UserMessage
from appl_backends.litellm import messages_of
from appl_backends.openai.body import body_of
from appl_backends.openai.servers import server_for
from tests.providers.asking import request

NO_OBJECTS = ['": {"', '"text"', '{"a": 1', "null", "[]", '{"a": NaN}', "[" * 100_000]


def after_a_call(arguments: str) -> Messages:
    call = ToolCall("c1", "today", arguments)
    said: list[Message] = [UserMessage("q"), AIMessage("", tool_calls=[call])]
    return Messages.of([*said, ToolMessage("wrong", tool_call_id="c1")])


def sent_arguments(messages: Messages) -> list[Any]:
    """The arguments that each client sends, as strict servers read them."""
    asked = request("q")
    chain = type(asked)(asked.address, 0, "m", messages, asked.sampling)
    body = b"".join(body_of(chain, "m", server_for("other", None, (), ())))
    found = [json.loads(body)["messages"][1], messages_of(messages, "who", marks=False)[1]]
    return [each["tool_calls"][0]["function"]["arguments"] for each in found]


@pytest.mark.parametrize("arguments", NO_OBJECTS)
def test_arguments_that_are_no_object_go_back_in_one(arguments: str) -> None:
    messages = after_a_call(arguments)
    for sent in sent_arguments(messages):
        assert json.loads(sent) == {"not_a_json_object": arguments}
    assert messages.parent is not None
    assert messages.parent.message.tool_calls[0].arguments == arguments


@pytest.mark.parametrize("arguments", ["{}", '{"a": 1, "b": [null]}', ' {"é": "\\ud83e"}'])
def test_arguments_that_are_an_object_go_back_as_they_are(arguments: str) -> None:
    assert sent_arguments(after_a_call(arguments)) == [arguments, arguments]
