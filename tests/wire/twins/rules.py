"""What a server refuses: rules, each with its sources, and the request that they are held against."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any


@dataclass(frozen=True)
class Asked:
    """A request as a server gets it."""

    body: dict[str, Any]
    path: str = "/v1/chat/completions"
    headers: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def messages(self) -> list[dict[str, Any]]:
        found = self.body.get("messages")
        return found if isinstance(found, list) else []

    @property
    def model(self) -> str:
        return str(self.body.get("model", ""))

    @property
    def tools(self) -> list[dict[str, Any]]:
        return [each.get("function", {}) for each in self.body.get("tools") or ()]


Check = Callable[[Asked], Iterator[str]]


@dataclass(frozen=True)
class Rule:
    """What *check* says of a request is refused with *status*; *sources* say so.

    *wrong* are fields of a request that breaks it. *about* goes into the body of the error.
    """

    name: str
    check: Check
    sources: tuple[str, ...]
    wrong: Mapping[str, Any]
    status: int = 400
    about: Mapping[str, Any] = field(default_factory=dict)


def rule(
    *sources: str, wrong: Mapping[str, Any], status: int = 400, **about: Any
) -> Callable[[Check], Rule]:
    """A rule of the check that follows."""

    def made(check: Check) -> Rule:
        return Rule(check.__name__, check, sources, wrong, status, about)

    return made


@dataclass(frozen=True)
class Refusal:
    """Why a server refuses a request: the *rule*, and its words."""

    rule: Rule
    message: str


def first_refusal(rules: tuple[Rule, ...], asked: Asked) -> Refusal | None:
    """What the first of *rules* that *asked* breaks says."""
    for each in rules:
        message = next(each.check(asked), None)
        if message is not None:
            return Refusal(each, message)
    return None


# -- what several rules look at

QUESTION = {"role": "user", "content": "hi"}
"""A message that every server takes."""


def called(*ids: str, content: Any = None, **more: Any) -> dict[str, Any]:
    """A message of the assistant that calls the tool ``f``, once for each of *ids*."""
    calls = [
        {"id": each, "type": "function", "function": {"name": "f", "arguments": "{}"}}
        for each in ids
    ]
    return {"role": "assistant", "content": content, "tool_calls": calls, **more}


def result(id: str, content: Any = "1", **more: Any) -> dict[str, Any]:
    """The result of the call *id*."""
    return {"role": "tool", "tool_call_id": id, "content": content, **more}


TOOL = {
    "type": "function",
    "function": {"name": "f", "parameters": {"type": "object", "properties": {}}},
}


def parts_of(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The parts of a message, also of one whose content is a text."""
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [each for each in content or () if isinstance(each, dict)]


def calls_in(asked: Asked) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """The calls of the assistant's messages, with the numbers of message and call."""
    for at, message in enumerate(asked.messages):
        for number, call in enumerate(message.get("tool_calls") or ()):
            yield at, number, call


def unanswered(asked: Asked) -> Iterator[tuple[int, list[str]]]:
    """The calls that no message right behind their own answers, by the number of their message."""
    for at, message in enumerate(asked.messages):
        wanted = [call.get("id") for call in message.get("tool_calls") or ()]
        behind = at + 1
        while behind < len(asked.messages) and asked.messages[behind].get("role") == "tool":
            behind += 1
        got = [each.get("tool_call_id") for each in asked.messages[at + 1 : behind]]
        missing = [str(id) for id in wanted if id not in got]
        if missing:
            yield at, missing


def orphans(asked: Asked) -> Iterator[int]:
    """The numbers of tools' messages that answer no call of the message of the assistant before."""
    open_ids: set[Any] = set()
    for at, message in enumerate(asked.messages):
        if message.get("role") != "tool":
            open_ids = {call.get("id") for call in message.get("tool_calls") or ()}
        elif message.get("tool_call_id") not in open_ids:
            yield at


SURROGATE = re.compile("[\ud800-\udfff]")


def texts_in(value: Any) -> Iterator[str]:
    """All texts at any depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from texts_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from texts_in(each)
