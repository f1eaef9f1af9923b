"""Every interface of a provider says the same to its cache: the same parts, marks and keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

import pytest

from appl.backend import Emit, Request, Response
from appl.backend.check import read_json
from appl.testing import Policy, Run
from appl_backends.anthropic.body import body_of as message_body
from appl_backends.openai.responses.body import body_of as response_body
from appl_backends.prompt_cache import plan_for
from appl_backends.prompt_cache.anthropic import RULE
from tests.bill.programs import drawn
from tests.bill.world import OPENAI, Provider

Part = tuple[str, bool]
"""A text, and whether the provider is to keep the prompt up to its end."""


def parts(messages: list[Mapping[str, Any]], mark: str) -> Iterator[Part]:
    for message in messages:
        content = message.get("content") or ""
        listed = [{"text": content}] if isinstance(content, str) else content
        for at, part in enumerate(listed):
            is_last = at == len(listed) - 1
            yield part["text"], mark in part or (is_last and mark in message)


def of_response(request: Request) -> tuple[list[Part], Any]:
    body = read_json(b"".join(response_body(request, "gpt-5.6", OPENAI)))
    options = body.get("prompt_cache_key"), body.get("prompt_cache_options")
    return list(parts(body["input"], "prompt_cache_breakpoint")), options


def of_message(request: Request) -> tuple[list[Part], Any]:
    plan = plan_for(request, RULE) if request.reuse is not None else None
    body = read_json(b"".join(message_body(request, "claude-sonnet-4-5", plan=plan).pieces))
    system = [{"role": "system", "content": body["system"]}] if "system" in body else []
    found = list(parts([*system, *body["messages"]], "cache_control"))
    if "cache_control" in body:
        found[-1] = found[-1][0], True
    return found, None


class Compared(Provider):
    """A provider that is asked by both of its interfaces. ``marks`` counts the marks."""

    marks = requests = 0

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        body, is_claude = self._body(request), self._rule is RULE
        mark = "cache_control" if is_claude else "prompt_cache_breakpoint"
        usual = list(parts(body["messages"], mark))
        options = None if is_claude else (body.get("prompt_cache_key"), body.get("prompt_cache_options"))  # fmt: skip
        native, said = of_message(request) if is_claude else of_response(request)
        assert (native, said) == (usual, options)
        self.marks += sum(is_marked for _, is_marked in native)
        self.requests += 1
        return await super().complete(request, emit)


@pytest.mark.parametrize("way", ["openai", "anthropic"])
def test_both_interfaces_of_a_provider_say_the_same_to_its_cache(way: str) -> None:
    marks = 0
    for seed in range(20):
        provider = Compared(way)
        with Run(provider, policy=Policy(clock=provider.clock)):
            drawn(Random(seed)).run()
        assert provider.requests
        marks += provider.marks
    assert marks
