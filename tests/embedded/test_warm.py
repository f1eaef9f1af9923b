"""The embedded backend keeps prefixes, and says so."""

from __future__ import annotations

from pathlib import Path

from appl.backend import PrefixCaching, Request, Sampling
from appl.prompt import Messages, SystemMessage, UserMessage
from appl_backends.embedded import Embedded


def ask(*more: str) -> Request:
    said = [SystemMessage("A long beginning. " * 10), *map(UserMessage, more)]
    return Request("a", 0, "", Messages.of(said), Sampling(max_tokens=2, temperature=0.0))


async def test_a_warmed_beginning_is_cached_for_all_that_follow(backend: Embedded) -> None:
    assert isinstance(backend, PrefixCaching) and backend.cache_tokens == 16384
    one, two = ask("one"), ask("two")
    ids = backend.prompt_tokens(one)
    pairs = zip(ids, backend.prompt_tokens(two), strict=False)
    shared = next(at for at, (a, b) in enumerate(pairs) if a != b)
    await backend.warm(one, shared)
    before = backend.cache_report()
    assert before["decoded_tokens"] == 0 and before["tokens"] == shared
    for request in (one, two):
        usage = (await backend.complete(request)).usage
        assert usage.cached_tokens == shared and usage.prompt_tokens == len(
            backend.prompt_tokens(request)
        )


async def test_the_ids_are_those_that_are_computed(backend: Embedded) -> None:
    request = ask("x")
    await backend.warm(request, len(backend.prompt_tokens(request)))
    usage = (await backend.complete(request)).usage
    assert usage.cached_tokens == len(backend.prompt_tokens(request)) - 1


async def test_without_a_prefix_cache_there_is_no_room(folder: Path) -> None:
    backend = Embedded(weights=folder, cache="naive")
    assert backend.cache_tokens == 0
    await backend.warm(ask("x"), 20)
    assert (await backend.complete(ask("x"))).usage.cached_tokens == 0
    await backend.aclose()
