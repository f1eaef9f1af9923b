"""One body goes to the server that computes the prompt and to the one that generates."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import pytest

from appl.backend import Request, Response, Sampling, TokenLogprob
from appl.errors import BackendError, BackendUnavailable, ConfigError
from appl.prompt import Message, Messages
from appl.testing.embedded_server import Served
from appl_backends.sglang import SGLang

from .twins import Twin, twin

PREFILL = {"disaggregation_mode": "prefill", "disaggregation_bootstrap_port": 8998}
DECODE = {"disaggregation_mode": "decode", "disable_radix_cache": True}
ROOM = ("bootstrap_host", "bootstrap_port", "bootstrap_room")


def ask(text: str = "What is a fox?", n: int = 1, **sampling: Any) -> Request:
    given = {"temperature": 0.0, "max_tokens": 8, **sampling}
    return Request("/a", 0, "", Messages.of([Message("user", text)]), Sampling(**given), n=n)


def without_input(body: dict[str, Any], each: dict[str, Any]) -> dict[str, Any]:
    """The server that generates knows no log-probabilities of the prompt, and no cached tokens."""
    meta = {**each["meta_info"], "cached_tokens": 0}
    given = {name: [] for name in ("input_token_logprobs", "input_top_logprobs") if name in meta}
    return {**each, "meta_info": {**meta, **given}}


@pytest.fixture
def prefill(served: Served) -> Iterator[Twin]:
    with twin(served, facts=dict(PREFILL), renames="prefill-") as found:
        yield found


@pytest.fixture
def decode(served: Served) -> Iterator[Twin]:
    with twin(served, facts=dict(DECODE), changes=without_input) as found:
        yield found


@pytest.fixture
def both(open_client: Callable[..., SGLang], prefill: Twin, decode: Twin) -> SGLang:
    return open_client(url=decode.url, prefill=prefill.url)


async def test_both_get_one_body_with_the_place_where_the_prompt_is_handed_over(
    both: SGLang, prefill: Twin, decode: Twin
) -> None:
    await both.complete(ask())
    await both.complete(ask())
    bodies = prefill.bodies("/generate")
    assert bodies == decode.bodies("/generate")
    assert [[body[name] for name in ROOM[:2]] for body in bodies] == [["127.0.0.1", 8998]] * 2
    rooms = [body["bootstrap_room"] for body in bodies]
    assert len(set(rooms)) == 2 and all(0 <= room < 1 << 63 for room in rooms)


REQUESTS = {
    "text": ask(),
    "regex": ask(regex=r"\{\"name\": \"[a-z]{3}\"\}", max_tokens=None),
    "several": ask(n=3),
    "logprobs": ask(logprobs=2),
    "prompt_logprobs": ask(prompt_logprobs=1, max_tokens=1),
    "choices": ask(choices=("a fox", "an owl")),
    "normalized": ask(choices=("a fox", "an owl"), normalize="unconditional"),
}


def listed(answer: Response) -> list[TokenLogprob]:
    """The log-probabilities of an answer, those of its prompt among them."""
    of_samples = (sample.logprobs or () for sample in answer.samples)
    return [*chain(*of_samples), *(answer.prompt_logprobs or ())]


@pytest.mark.parametrize("name", REQUESTS)
async def test_answers_are_those_of_one_server(
    both: SGLang, open_client: Callable[..., SGLang], name: str
) -> None:
    alone, request = open_client(), REQUESTS[name]
    expected, found = await alone.complete(request), await both.complete(request)
    assert [each.text for each in found.samples] == [each.text for each in expected.samples]
    assert found.scores == pytest.approx(expected.scores, abs=1e-3)
    for one, other in zip(listed(found), listed(expected), strict=True):
        assert one.token == other.token and one.logprob == pytest.approx(other.logprob, abs=1e-3)


async def test_a_streamed_answer_is_that_of_one_server(
    both: SGLang, open_client: Callable[..., SGLang], prefill: Twin, decode: Twin
) -> None:
    chunks: list[Any] = []
    expected, found = await open_client().complete(ask()), await both.complete(ask(), chunks.append)
    assert "".join(each.text for each in chunks) == found.text == expected.text
    assert prefill.bodies("/generate") == decode.bodies("/generate")


async def test_each_of_several_answers_is_handed_over_by_itself(both: SGLang, decode: Twin) -> None:
    await both.complete(ask(n=3))
    [body] = decode.bodies("/generate")
    assert len(set(body["bootstrap_room"])) == len(body["input_ids"]) == 3
    assert body["bootstrap_port"] == [8998] * 3


async def test_the_cache_is_that_of_the_server_that_computes_prompts(both: SGLang) -> None:
    await both.complete(ask("A long text. " * 20))
    assert both.server is not None and both.server.radix and both.cache_tokens
    answer = await both.complete(ask("A long text. " * 20))
    assert (answer.usage.cached_tokens or 0) > 20


async def test_a_prompt_is_warmed_with_one_token_that_is_handed_over(
    both: SGLang, prefill: Twin, decode: Twin
) -> None:
    await both.warm(ask(), 5)
    [body] = prefill.bodies("/generate")
    assert body["sampling_params"]["max_new_tokens"] == 1
    assert decode.bodies("/generate") == [body]


@pytest.mark.parametrize("which", ["prefill", "decode"])
async def test_where_one_fails_the_other_is_told_to_stop(
    both: SGLang, prefill: Twin, decode: Twin, which: str
) -> None:
    failing, waiting = (prefill, decode) if which == "prefill" else (decode, prefill)
    await both.complete(ask())
    failing.failing = 503
    waiting.released.clear()  # as a server that waits for the other one
    with pytest.raises(BackendError, match="it cannot"):
        await both.complete(ask())
    waiting.released.set()
    await both.aclose()
    rid = failing.bodies("/generate")[-1]["rid"]
    assert waiting.bodies("/abort_request") == [{"rid": rid}]


async def test_a_prompt_that_is_refused_in_a_stream_ends_the_call(
    both: SGLang, prefill: Twin, decode: Twin
) -> None:
    def refused(body: dict[str, Any], each: dict[str, Any]) -> dict[str, Any]:
        said = {"type": "abort", "message": "it has no room", "status_code": 503}
        return {**each, "text": "", "meta_info": {**each["meta_info"], "finish_reason": said}}

    await both.connect()
    prefill.changes = refused
    decode.released.clear()  # it waits for the prompt
    with pytest.raises(BackendError, match="it has no room"):
        await both.complete(ask(), lambda chunk: None)
    decode.released.set()
    await both.aclose()
    assert len(decode.bodies("/abort_request")) == 1


async def test_a_cancelled_call_is_stopped_at_both(
    both: SGLang, prefill: Twin, decode: Twin
) -> None:
    await both.connect()
    prefill.released.clear()
    decode.released.clear()
    task = asyncio.ensure_future(both.complete(ask()))
    for each in (prefill, decode):
        await asyncio.to_thread(each.arrived.acquire)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    prefill.released.set()
    decode.released.set()
    await both.aclose()
    assert len(prefill.bodies("/abort_request")) == len(decode.bodies("/abort_request")) == 1


async def test_a_server_that_is_not_there_is_named(
    open_client: Callable[..., SGLang], decode: Twin
) -> None:
    backend = open_client(url=decode.url, prefill="http://127.0.0.1:9")
    with pytest.raises(BackendUnavailable, match=r"127\.0\.0\.1:9"):
        await backend.complete(ask())


@pytest.mark.parametrize("swapped", [True, False])
async def test_servers_that_are_no_pair_are_refused(
    open_client: Callable[..., SGLang], prefill: Twin, decode: Twin, swapped: bool
) -> None:
    urls = (prefill.url, decode.url) if swapped else (decode.url, decode.url)
    backend = open_client(url=urls[0], prefill=urls[1])
    with pytest.raises(ConfigError, match="--disaggregation-mode"):
        await backend.complete(ask())


async def test_another_model_is_refused(both: SGLang, prefill: Twin) -> None:
    prefill.facts["served_model_name"] = "other"
    with pytest.raises(ConfigError, match="different models"):
        await both.complete(ask())
