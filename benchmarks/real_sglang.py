"""What the SGLang client promises, tried on a real SGLang server, whose weights may be random.

Run: python benchmarks/real_sglang.py URL [--api-key K] [--admin-key K] [--tokenizer FOLDER]
A server on a CPU will do; the figures are counts, not times.
"""

from __future__ import annotations

import argparse
import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

from appl.backend import Chunk, Request, Response, Sampling
from appl.errors import BackendRefused, PromptTooLong
from appl.prompt import Message, Messages
from appl_backends.sglang import SGLang

CHECKS: list[Callable[[SGLang], Awaitable[str]]] = []
LONG = "Once upon a time there was a story that went on and on. " * 24


def check(function: Callable[[SGLang], Awaitable[str]]) -> Callable[[SGLang], Awaitable[str]]:
    CHECKS.append(function)
    return function


def ask(text: str, *, n: int = 1, **sampling: Any) -> Request:
    messages = Messages.of([Message("user", text)])
    return Request("/x", 0, "", messages, Sampling(**sampling), n=n)


def hits(answer: Response) -> tuple[int, int]:
    assert answer.usage.cached_tokens is not None and answer.usage.prompt_tokens is not None
    return answer.usage.cached_tokens, answer.usage.prompt_tokens


@check
async def a_conversation_of_50_turns_is_all_in_the_cache(backend: SGLang) -> str:
    chain = Messages(None, Message("system", "A chat of its own."))
    cached = perfect = before = 0
    for turn in range(50):
        chain = Messages(chain, Message("user", f"Turn {turn}: go on, please."))
        question = Request("/x", 0, "", chain, Sampling(max_tokens=12, temperature=1.0))
        answer = await backend.complete(question)
        found, size = hits(answer)
        cached, perfect = cached + found, perfect + min(before, size - 1)
        before = size + (answer.usage.completion_tokens or 0)
        chain = Messages(chain, Message("assistant", answer.text))
    assert cached >= 0.98 * perfect
    return f"{cached} of {perfect} tokens of earlier turns came from the cache"


@check
async def branches_find_a_warmed_prompt(backend: SGLang) -> str:
    question = ask("Warm. " + LONG, max_tokens=1)
    size = len(backend.prompt_tokens(question))
    await backend.warm(question, size)
    answers = await asyncio.gather(*(backend.complete(question) for _ in range(8)))
    assert all(hits(each) == (size - 1, size) for each in answers)
    return f"8 branches, each {size - 1} of {size} tokens"


@check
async def choices_have_the_scores_of_their_tokens(backend: SGLang) -> str:
    question = ask("Pick. " + LONG, choices=("yes", "no", "yes, of course"))
    one, two = await backend.complete(question), await backend.complete(question)
    assert one.scores is not None and two.scores is not None
    assert max(abs(a - b) for a, b in zip(one.scores, two.scores, strict=True)) < 0.05
    assert one.scores[2] < one.scores[0]
    return f"scores {[round(score, 2) for score in one.scores]}"


@check
async def forms_hold(backend: SGLang) -> str:
    tag = {"type": "structural_tag", "format": {"type": "const_string", "value": "hello"}}
    schema = '{"type":"object","properties":{"a":{"type":"boolean"}},"required":["a"]}'
    wanted: list[tuple[str, dict[str, Any]]] = [
        (r"\d{3}", {"regex": r"[0-9]{3}"}),
        ("yes|no", {"grammar": 'root ::= "yes" | "no"'}),
        (r'\{\s*"a"\s*:\s*(true|false)\s*\}', {"schema": schema}),
        ("hello", {"extra": (("structural_tag", tag),)}),
    ]
    texts = []
    for pattern, sampling in wanted:
        answer = await backend.complete(ask("A form", max_tokens=40, **sampling))
        assert re.fullmatch(pattern, answer.text), (pattern, answer.text)
        texts.append(answer.text)
    return ", ".join(map(repr, texts))


@check
async def samples_come_with_logprobs(backend: SGLang) -> str:
    answer = await backend.complete(ask("Samples", n=4, max_tokens=5, logprobs=2))
    assert len(answer.samples) == 4
    assert all(each.logprobs and len(each.logprobs[0].top) == 2 for each in answer.samples)
    return f"4 samples, {answer.usage.completion_tokens} tokens"


@check
async def a_stream_adds_up(backend: SGLang) -> str:
    chunks: list[Chunk] = []
    question = ask("Stream", n=2, max_tokens=20, temperature=1.0, stop=("zzz",))
    answer = await backend.complete(question, chunks.append)
    for number, sample in enumerate(answer.samples):
        said = "".join(chunk.text for chunk in chunks if chunk.sample == number)
        assert said and sample.text.startswith(said)
    return f"{len(chunks)} chunks of 2 samples"


@check
async def a_salt_keeps_the_cache_apart(backend: SGLang) -> str:
    found = []
    for salt in ("a", "b", "a"):
        sampling = {"max_tokens": 1, "extra": (("cache_salt", salt),)}
        found.append(hits(await backend.complete(ask("Salt. " + LONG, **sampling)))[0])
    assert found[0] == found[1] == 0 < found[2]
    return f"{found} cached tokens with the salts a, b, a"


@check
async def what_is_cancelled_stops(backend: SGLang) -> str:
    forever = {"max_tokens": 4000, "extra": (("ignore_eos", True),)}
    asking = [
        asyncio.ensure_future(backend.complete(ask("Stop", **forever))),
        asyncio.ensure_future(backend.complete(ask("Stop", n=3, **forever))),
        asyncio.ensure_future(backend.complete(ask("Stop", **forever), lambda chunk: None)),
    ]
    await asyncio.sleep(1.5)
    before = await _running(backend)
    for each in asking:
        each.cancel()
    await asyncio.wait(asking)
    await asyncio.sleep(0.5)
    after = await _running(backend)
    assert before == 5 and after == 0, (before, after)
    return "5 sequences ran, none 0.5 s later"


async def _running(backend: SGLang) -> int:
    loads = await backend._wire.get("/v1/loads")
    return sum(each["num_running_reqs"] for each in loads["loads"])


@check
async def what_cannot_be_answered_is_refused(backend: SGLang) -> str:
    for wrong in ({"regex": "(("}, {"grammar": "root ::= nothing"}, {"extra": (("lora", "x"),)}):
        try:
            await backend.complete(ask("x", max_tokens=5, **wrong))  # type: ignore[arg-type]
        except BackendRefused:
            continue
        raise AssertionError(wrong)
    try:
        await backend.complete(ask("word " * 60_000))
    except PromptTooLong as error:
        return str(error)[:90]
    raise AssertionError("a prompt that is too long was taken")


async def main() -> None:
    """Run every check and print what it saw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--api-key")
    parser.add_argument("--admin-key")
    parser.add_argument("--tokenizer")
    given = parser.parse_args()
    backend = SGLang(
        url=given.url, api_key=given.api_key, admin_key=given.admin_key, tokenizer=given.tokenizer
    )
    await backend.connect()
    assert backend.server is not None
    print(f"SGLang {backend.server.version}, {backend.server.short}, {backend.server.policy}")
    for each in CHECKS:
        print(f"{each.__name__.replace('_', ' ')}: {await each(backend)}", flush=True)
    await backend.aclose()


if __name__ == "__main__":
    asyncio.run(main())
