"""A provider with a cache, as a backend: what it is sent is what our backends send, and it bills."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from appl.backend import Emit, Request, Response, Sample, Usage
from appl.backend.check import read_json
from appl.runtime.scheduling import CacheMemory, CallQueue, ReuseOrder
from appl.testing import Policy, Run, VirtualClock
from appl.testing.radix import RadixServer
from appl_backends.litellm import messages_of
from appl_backends.openai.body import body_of
from appl_backends.openai.servers import server_for
from appl_backends.prompt_cache import CacheRule, plan_for
from appl_backends.prompt_cache.anthropic import RULE
from appl_backends.prompt_cache.openai import rule_of
from tests.bill.caches import AnthropicCache, Cache, Counts, OldOpenAICache, OpenAICache, blocks

OPENAI = server_for("openai", None, (), ())
BEGINS_S, ENDS_S = 1.0, 1.0


def openai_body(request: Request, model: str = "gpt-5.6") -> Mapping[str, Any]:
    """The body that the backend ``openai`` sends."""
    body: Mapping[str, Any] = read_json(b"".join(body_of(request, model, OPENAI)))
    return body


def old_openai_body(request: Request) -> Mapping[str, Any]:
    """The body that the backend ``openai`` sends to an earlier model."""
    return openai_body(request, "gpt-5-mini")


def claude_body(request: Request) -> Mapping[str, Any]:
    """What the backend ``litellm`` gives litellm for Claude; by default it would mark nothing."""
    plan = plan_for(request, RULE) if request.reuse is not None else None
    return {"messages": messages_of(request.messages, marks=False, plan=plan)}


WAYS: dict[str, tuple[Callable[..., Mapping[str, Any]], CacheRule, Callable[[], Cache]]] = {
    "openai": (openai_body, rule_of("gpt-5.6"), OpenAICache),
    "openai in dispute": (openai_body, rule_of("gpt-5.6"), lambda: OpenAICache(dispute=True)),
    "earlier openai": (old_openai_body, rule_of("gpt-5-mini"), lambda: OldOpenAICache(ttl=300.0)),
    "anthropic": (claude_body, RULE, lambda: AnthropicCache(ttl=300.0)),
    "anthropic in dispute": (claude_body, RULE, lambda: AnthropicCache(True, 300.0)),
}
"""For each rule: how a request is sent, our rule for it, and the provider's cache."""


class Provider(RadixServer):
    """A provider by the rule *way*; with *plain* it is asked as if nothing were known."""

    def __init__(self, way: str, *, plain: bool = False) -> None:
        super().__init__(VirtualClock(), 10**9)
        self._body, self._rule, make = WAYS[way]
        self.cache: Any = make()
        self._plain = plain
        self.counts = list[Counts]()
        self.prompts = list[list[str]]()
        self.keys = set[str]()
        self.digests = list[bytes]()

    def order(self, queue: CallQueue) -> Any:
        """The order that our backends bring; with *plain* none."""
        if self._plain:
            return None
        return ReuseOrder(queue, CacheMemory(), lambda _: self._rule)

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        """Answer *request*, and note what it is billed for."""
        body, now = self._body(request), self.clock.now()
        counts = self.cache.bill(body, now, now + BEGINS_S)
        self.counts.append(counts)
        self.keys.add(str(body.get("prompt_cache_key")))
        self.digests.append(request.digest)
        assert request.messages is not None
        self.prompts.append(places(request))
        await self.clock.sleep(BEGINS_S * 1.01)
        if request.reuse is not None and request.reuse.begins is not None:
            request.reuse.begins()
        await self.clock.sleep(ENDS_S)
        answer = f"answer {len(self.counts)} ".ljust(60, ".")
        usage = Usage(
            counts.read + counts.written + counts.uncached, 8, counts.read, counts.written
        )
        return Response((Sample(answer, "stop"),), usage)

    @property
    def price(self) -> Fraction:
        """The price of all prompts so far, in that of a plain token."""
        return sum((each.price for each in self.counts), Fraction(0))

    @property
    def uncached(self) -> int:
        """The price without a cache."""
        return sum(each.read + each.written + each.uncached for each in self.counts)


def places(request: Request) -> list[str]:
    """The prompt of *request* up to each statement and message: where it may be cut at best."""
    assert request.messages is not None
    found, before = list[str](), ""
    for link in request.messages.links():
        before += f"<{link.outline.role}>"
        text, at = link.message.content, 0
        for length in link.spans[::2] or (len(text),):
            found.append(before + text[: at + length])
            at += length
        before += text
    return found


def billed(way: str, program: Callable[[], object], *, plain: bool = False) -> Provider:
    """*program*, run with a provider by the rule *way*."""
    provider = Provider(way, plain=plain)
    with Run(provider, policy=Policy(clock=provider.clock)):
        program()
    return provider


__all__ = ["WAYS", "Provider", "billed", "blocks"]
