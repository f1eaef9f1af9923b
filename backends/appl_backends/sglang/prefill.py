"""A server that computes prompts for the one that generates the answers (DistServe).

Both get the same request. The first computes the prompt and sends what it has computed to the
second over a connection of their own, which the members ``bootstrap_*`` of the request name.
Invariant: a request is in flight at both or at neither: what fails at one is stopped at the other.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from appl.backend import canonical
from appl.errors import ConfigError
from appl_backends.http.client import Body
from appl_backends.sglang.answers import check_goes_on
from appl_backends.sglang.probe import ServerFacts, probe
from appl_backends.sglang.wire import Wire

_ROOMS = 1 << 62
_LISTS = ("input_token_logprobs", "input_top_logprobs")


class PrefillServer:
    """The server behind *wire*, which computes the prompts of another one."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self._port: int | None = None

    async def connect(self, decode: ServerFacts) -> ServerFacts:
        """What both servers are together: prompts are cached here, answers generated there.

        Raises ``ConfigError`` if they are no pair, ``BackendError`` if the server cannot be asked.
        """
        here = await probe(self.wire)
        self.wire.names(here.model)
        for facts, role in ((here, "prefill"), (decode, "decode")):
            mode = facts.facts.get("disaggregation_mode")
            if mode != role:
                raise ConfigError(
                    f"prefill= of sglang needs url= of a server with --disaggregation-mode decode "
                    f"and prefill= of one with --disaggregation-mode prefill; the {role} server "
                    f"says {mode!r:.40}"
                )
        if here.model != decode.model:
            raise ConfigError(
                f"the servers at url= and prefill= have different models: {decode.model!r:.99} and "
                f"{here.model!r:.99}"
            )
        port = here.facts.get("disaggregation_bootstrap_port")
        self._port = port if type(port) is int and 0 < port < 1 << 16 else None
        longest = [each for each in (here.longest, decode.longest) if each is not None]
        return replace(
            decode,
            policy=here.policy,
            radix=here.radix,
            cache_tokens=here.cache_tokens,
            longest=min(longest, default=None),
            facts={**decode.facts, "enable_hierarchical_cache": None},
        )

    async def asked(
        self, body: Body, prompts: int | None, generate: Callable[[Body], Awaitable[Any]]
    ) -> Any:
        """The answer by *generate* to *body*, which both servers get.

        *prompts* is the length of a body's list of prompts, ``None`` for a single one. Raises what
        either fails with.
        """
        joined = self._joined(body, prompts)
        computing = asyncio.ensure_future(self._computed(joined))
        generating = asyncio.ensure_future(generate(joined))
        both = {computing, generating}
        try:
            # The one that generates waits for the other, for minutes if that has failed: the first
            # error ends both.
            await asyncio.wait(both, return_when=asyncio.FIRST_EXCEPTION)
            for task in (computing, generating):
                if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                    raise error
            return _together(computing.result(), generating.result())
        finally:
            for task in both:
                task.cancel()
            await asyncio.gather(*both, return_exceptions=True)

    async def _computed(self, body: Body) -> list[Any]:
        """The answers to *body*, in the order of its prompts: whole ones, streamed or not."""
        found: dict[int, Any] = {}
        async with aclosing(self.wire.stream("/generate", body)) as events:
            async for event in events:
                check_goes_on(event, self.wire.who)  # a stream tells of its failure in an event
                index = event.get("index") if isinstance(event, Mapping) else None
                found[index if type(index) is int else len(found)] = event
        return [found[each] for each in sorted(found)]

    def _joined(self, body: Body, prompts: int | None) -> list[bytes]:
        """*body* with the names of the connection over which the servers hand over the prompts."""
        host, several = urlsplit(self.wire.url).hostname, prompts is not None
        rooms = [secrets.randbelow(_ROOMS) for _ in range(prompts or 1)]
        given = {"bootstrap_host": host, "bootstrap_port": self._port}
        members: dict[str, Any] = {
            name: [value] * len(rooms) if several else value for name, value in given.items()
        }
        members["bootstrap_room"] = rooms if several else rooms[0]
        text = canonical(members).encode("ascii")
        pieces = [body] if isinstance(body, bytes) else list(body)
        return [*pieces[:-1], pieces[-1][:-1] + b"," + text[1:]]


def _together(prefill: list[Any], decode: Any) -> Any:
    """The answers of *decode* with what only the server that computed the prompts knows of them."""
    listed = decode if isinstance(decode, list) else [decode]
    if len(prefill) != len(listed):
        return decode
    both = [_completed(*pair) for pair in zip(prefill, listed, strict=True)]
    return both if isinstance(decode, list) else both[0]


def _completed(prefill: Any, decode: Any) -> Any:
    here, there = _meta(prefill), _meta(decode)
    if not here or not there:
        return decode
    more: dict[str, Any] = {}
    cached = [meta.get("cached_tokens") for meta in (here, there)]
    if known := [each for each in cached if type(each) is int]:
        more["cached_tokens"] = max(known)
    for name in _LISTS:
        if isinstance(here.get(name), list):
            more[name] = here[name] + (there[name] if isinstance(there.get(name), list) else [])
    return {**decode, "meta_info": {**there, **more}}


def _meta(answer: Any) -> Mapping[str, Any]:
    found = answer.get("meta_info") if isinstance(answer, Mapping) else None
    return found if isinstance(found, Mapping) else {}
