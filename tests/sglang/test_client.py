from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from appl import AIRole, gen, ppl, select
from appl.backend import BringsOrder, Chunk, PrefixCaching, Request, Response, Sampling
from appl.errors import (
    AuthenticationFailed,
    BackendRefused,
    BackendUnavailable,
    ConfigError,
    InvalidOption,
    ModelNotFound,
    PromptTooLong,
    Unsupported,
)
from appl.prompt import Image, Message, Messages
from appl.testing import on_backend_loop, running
from appl.testing.embedded_server import Served, serving
from appl_backends.embedded import Embedded
from appl_backends.sglang import SGLang
from tests.sglang.conftest import client

WEIGHTS = Path(__file__).parents[2] / "backends" / "appl_backends" / "embedded" / "weights"
Make = Callable[..., SGLang]
GREEDY = Sampling(temperature=0.0, max_tokens=8)
BY_PROMPT = "unconditional_likelihood_normalized"
WAYS = (None, "token", "greedy_token_selection", BY_PROMPT)


def asked(*said: tuple[str, str], sampling: Sampling = GREEDY, **fields: Any) -> Request:
    messages = Messages.of([Message(role, text) for role, text in said])  # type: ignore[arg-type]
    return Request("/x", 0, "", messages, sampling, **fields)


def after(request: Request, *said: tuple[str, str]) -> Request:
    """The question that goes on from *request*."""
    messages = request.messages
    for role, text in said:
        messages = Messages(messages, Message(role, text))  # type: ignore[arg-type]
    return Request("/y", 0, "", messages, request.sampling)


async def test_an_answer_is_the_one_of_the_engine_itself(open_client: Make) -> None:
    question = asked(("system", "Be brief."), ("user", "Say hello"))
    embedded = Embedded()
    here = await embedded.complete(question)
    there = await open_client().complete(question)
    assert there.text == here.text
    assert there.usage.prompt_tokens == here.usage.prompt_tokens
    assert there.samples[0].finish_reason == here.samples[0].finish_reason
    await embedded.aclose()


async def test_choices_are_scored_as_by_the_engine_itself(open_client: Make) -> None:
    for said in [(("user", "Is ice cold?"),), (("user", "Is ice cold?"), ("assistant", "It is "))]:
        for normalize, end in product(WAYS, (None, True, False)):
            choices = ("yes", "no", "cold, of course")
            sampling = Sampling(choices=choices, normalize=normalize, choice_end=end)
            question = asked(*said, sampling=sampling)
            embedded = Embedded()
            here, there = await embedded.complete(question), await open_client().complete(question)
            await embedded.aclose()
            assert there.scores is not None and here.scores is not None
            if said[-1][0] == "user":  # the engine itself heals a text that ends with a space
                assert there.scores == pytest.approx(here.scores, abs=1e-3)
                assert there.text == here.text
            assert there.text == there.samples[0].text in sampling.choices  # type: ignore[operator]
            assert there.choice_method == "logprob"


@pytest.mark.parametrize("most", [0, 2])
async def test_tokens_of_a_prompt_have_their_log_probabilities(
    open_client: Make, most: int
) -> None:
    question = asked(("user", "Say hello"), sampling=replace(GREEDY, prompt_logprobs=most))
    found = await open_client().complete(question)
    plain = await open_client().complete(replace(question, sampling=GREEDY))
    assert found.text == plain.text and found.samples[0].logprobs is None
    tokens = found.prompt_logprobs or ()
    assert len(tokens) == plain.usage.prompt_tokens - 1
    assert "Say hello" in "".join(token.token for token in tokens)
    assert all(len(token.top) == most and token.logprob < 0 for token in tokens)
    streamed = await open_client().complete(question, lambda chunk: None)
    assert streamed.text == found.text and len(streamed.prompt_logprobs or ()) == len(tokens)


async def test_tokens_at_the_end_of_a_prompt_are_worth_what_they_are_as_a_choice(
    open_client: Make,
) -> None:
    user, backend = ("user", "What is the sea like?"), open_client()
    ways = Sampling(choices=(" cold", " warm"), choice_end=False)
    scored = await backend.complete(asked(user, ("assistant", "The sea is"), sampling=ways))
    whole = asked(user, ("assistant", "The sea is cold"), sampling=Sampling(prompt_logprobs=0))
    tokens = list((await backend.complete(whole)).prompt_logprobs or ())
    last: list[Any] = []
    while "".join(token.token for token in last) != " cold":
        last.insert(0, tokens.pop())
    assert sum(token.logprob for token in last) == pytest.approx(scored.scores[0], abs=1e-3)  # type: ignore[index]


async def test_a_flushed_cache_has_nothing_of_a_prompt(open_client: Make) -> None:
    backend = open_client()
    question = asked(("user", "A question that is asked twice, and long enough to be kept."))
    first, again = await backend.complete(question), await backend.complete(question)
    assert again.usage.cached_tokens
    await backend.flush_cache()
    assert (await backend.complete(question)).usage.cached_tokens in (0, None)
    assert first.usage.prompt_tokens == again.usage.prompt_tokens


async def test_a_conversation_that_goes_on_finds_all_of_itself_in_the_cache(
    open_client: Make,
) -> None:
    backend = open_client()
    question = asked(("user", "A conversation of its own. Tell me something about the sea."),
                     sampling=Sampling(temperature=1.0, max_tokens=12, seed=3))  # fmt: skip
    first = await backend.complete(question)
    more = after(question, ("assistant", first.text), ("user", "Go on."))
    second = await backend.complete(more)
    assert first.usage.prompt_tokens is not None and first.usage.completion_tokens is not None
    total = first.usage.prompt_tokens + first.usage.completion_tokens
    assert second.usage.cached_tokens is not None
    assert second.usage.cached_tokens >= total - 2


async def test_a_warmed_prompt_is_in_the_cache(open_client: Make) -> None:
    backend = open_client()
    assert isinstance(backend, PrefixCaching)
    question = asked(("user", "Warm words about a winter in the far north of the country."))
    await backend.connect()
    ids = backend.prompt_tokens(question)
    await backend.warm(question, len(ids))
    answer = await backend.complete(question)
    assert answer.usage.cached_tokens == len(ids) - 1
    assert backend.cache_tokens == 16384


async def test_it_brings_an_order_and_the_embedded_engine_which_compares_prompts_brings_none() -> (
    None
):
    assert isinstance(SGLang(url="http://localhost:30000", api_key="a-secret-key"), BringsOrder)
    assert not isinstance(Embedded(), BringsOrder)


async def test_a_salt_keeps_the_cache_apart(open_client: Make) -> None:
    backend = open_client()
    text = "A secret of one user that no other may find in the cache."
    hits = []
    for salt in ("one", "two", "one"):
        sampling = Sampling(temperature=0.0, max_tokens=2, extra=(("cache_salt", salt),))
        answer = await backend.complete(asked(("user", text), sampling=sampling))
        hits.append((answer.usage.cached_tokens or 0) > 8)
    assert hits == [False, False, True]


async def test_samples_come_in_one_request(open_client: Make) -> None:
    sampling = Sampling(temperature=1.0, max_tokens=4, logprobs=2)
    answer = await open_client().complete(asked(("user", "Hi"), sampling=sampling, n=3))
    assert len(answer.samples) == 3
    for sample in answer.samples:
        assert sample.logprobs and len(sample.logprobs[0].top) == 2
        assert all(token.logprob <= 0 for token in sample.logprobs)


async def _streamed(backend: SGLang, question: Request) -> tuple[Response, list[Chunk]]:
    chunks: list[Chunk] = []
    return await backend.complete(question, chunks.append), chunks


@pytest.mark.parametrize("n", [1, 3])
async def test_a_stream_adds_up_to_the_answer(open_client: Make, n: int) -> None:
    sampling = Sampling(temperature=0.0, max_tokens=24, stop=("zzz",))
    question = asked(("user", "Tell me about you."), sampling=sampling, n=n)
    answer, chunks = await _streamed(open_client(), question)
    for number, sample in enumerate(answer.samples):
        said = "".join(chunk.text for chunk in chunks if chunk.sample == number)
        assert said and sample.text.startswith(said)
    whole = await open_client().complete(question)
    assert whole.text == answer.text


async def test_forms_hold(open_client: Make) -> None:
    backend = open_client()
    digits = Sampling(regex="[0-9]{3}", max_tokens=12)
    assert (await backend.complete(asked(("user", "A number"), sampling=digits))).text.isdigit()
    schema = Sampling(schema='{"type":"object","properties":{"a":{"type":"integer"}},'
                      '"required":["a"],"additionalProperties":false}', max_tokens=40)  # fmt: skip
    assert (await backend.complete(asked(("user", "JSON"), sampling=schema))).text.startswith("{")


async def test_one_answer_has_one_form(open_client: Make) -> None:
    sampling = Sampling(regex="a", schema="{}")
    with pytest.raises(Unsupported, match="one form"):
        await open_client().complete(asked(("user", "x"), sampling=sampling))


async def test_what_the_server_refuses_is_refused(open_client: Make) -> None:
    with pytest.raises(BackendRefused):
        await open_client().complete(asked(("user", "x"), sampling=Sampling(regex="((")))


async def test_a_prompt_without_room_for_an_answer_is_too_long(open_client: Make) -> None:
    with pytest.raises(PromptTooLong, match="4096"):
        await open_client().complete(asked(("user", "word " * 9000)))


async def test_an_answer_is_asked_to_fit_into_the_context(open_client: Make) -> None:
    sampling = Sampling(temperature=0.0, max_tokens=100_000, stop=("e",))
    answer = await open_client().complete(asked(("user", "Hello"), sampling=sampling))
    assert answer.samples[0].finish_reason == "stop"


async def test_another_model_is_not_found(open_client: Make) -> None:
    question = asked(("user", "x"))
    question.model = "other"
    with pytest.raises(ModelNotFound, match="lora"):
        await open_client().complete(question)


async def test_images_are_refused_by_a_model_that_cannot_see(open_client: Make) -> None:
    picture = Message("user", "What?", ((0, Image("https://example.org/a.png")),))
    question = Request("/x", 0, "", Messages.of([picture]), GREEDY)
    with pytest.raises(Unsupported, match="images"):
        await open_client().complete(question)


async def test_a_wrong_key_is_refused_and_not_shown(served: Served) -> None:
    backend = client(served, api_key="wrong-key-1234")
    with pytest.raises(AuthenticationFailed) as caught:
        await backend.complete(asked(("user", "x")))
    assert "wrong-key" not in str(caught.value)
    await backend.aclose()


async def test_nobody_at_the_address(open_client: Make) -> None:
    with pytest.raises(BackendUnavailable, match=r"127\.0\.0\.1:9"):
        await open_client(url="http://127.0.0.1:9").complete(asked(("user", "x")))


def test_settings_without_sense_are_refused() -> None:
    with pytest.raises(ConfigError, match="http"):
        SGLang(url="localhost:30000")
    with pytest.raises(InvalidOption):
        SGLang(connections=0)


async def test_a_tokenizer_that_is_not_here_is_asked_for(served: Served, tmp_path: Any) -> None:
    backend = client(served, tokenizer=tmp_path)
    with pytest.raises(ConfigError, match=str(tmp_path)):
        await backend.connect()
    await backend.aclose()


async def test_a_tokenizer_of_another_model_is_refused(served: Served, tmp_path: Path) -> None:
    source = json.loads((WEIGHTS / "tokenizer.json").read_text("utf-8"))
    vocabulary = source["model"]["vocab"]
    one, other = "1", "2"
    vocabulary[one], vocabulary[other] = vocabulary[other], vocabulary[one]
    (tmp_path / "tokenizer.json").write_text(json.dumps(source))
    backend = client(served, tokenizer=tmp_path, template="plain")
    with pytest.raises(ConfigError, match="another tokenizer"):
        await backend.connect()
    await backend.aclose()


async def _until(backend: SGLang, key: str, wanted: int) -> None:
    for _ in range(2000):
        facts = await backend._wire.get("/server_info")
        if facts["internal_states"][0][key] == wanted:
            return
    raise AssertionError(f"{key} is not {wanted}")


@pytest.mark.parametrize("stream", [False, True])
async def test_what_is_cancelled_is_aborted_on_the_server(open_client: Make, stream: bool) -> None:
    backend = open_client()
    sampling = Sampling(max_tokens=3000, stop_tokens=(), regex="[a-z]{2000,}")
    question = asked(("user", "For ever"), sampling=sampling, n=2)
    emit = (lambda chunk: None) if stream else None
    asking = asyncio.ensure_future(backend.complete(question, emit))
    await _until(backend, "running", 2)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await _until(backend, "running", 0)
    await _until(backend, "open_requests", 0)


async def test_closing_waits_for_aborts(served: Served) -> None:
    watcher, backend = client(served), client(served)
    question = asked(
        ("user", "On and on"), sampling=Sampling(max_tokens=3000, regex="[a-z]{2000,}")
    )
    asking = asyncio.ensure_future(backend.complete(question))
    await _until(watcher, "running", 1)
    asking.cancel()
    await asyncio.wait([asking])
    await backend.aclose()
    await _until(watcher, "running", 0)
    with pytest.raises(BackendUnavailable, match="closed"):
        await backend.complete(question)
    await watcher.aclose()


async def test_a_server_that_comes_back_is_probed_again() -> None:
    with serving() as first:
        backend = client(first)
        question = asked(("user", "Hi"))
        whole = await backend.complete(question)
        first.kill()
        with pytest.raises(BackendUnavailable):
            await backend.complete(question)
        port = first.url.rpartition(":")[2]
        assert first.api_key is not None
        with serving("--port", port, "--api-key", first.api_key):
            assert (await backend.complete(question)).text == whole.text
        await backend.aclose()


async def test_advice_is_given_once(served: Served) -> None:
    said: list[str] = []
    backend = client(served, advise=said.append)
    await backend.connect()
    await backend.connect()
    assert len(said) == len(set(said))
    await backend.aclose()


# -- programs


@ppl
def chat(turns: int) -> list[str]:
    "You answer in one word."
    for turn in range(turns):
        f"Question {turn}?"
        with AIRole():
            "Well: "
            gen(temperature=1.0, max_tokens=6)
    return []


@ppl
def several() -> tuple[str, str, str]:
    "Is the sea deep?"
    answers = [gen(max_tokens=5) for _ in range(20)]
    chosen = select(["yes", "no"])
    return str(answers[0]), str(chosen), str(answers[-1])


@ppl
def with_tools() -> tuple[str, str]:
    def weather(city: str) -> str:
        """The weather in a city."""
        return f"sunny in {city}"

    "What is the weather in Rome?"
    answer = gen(tools=[weather], tool_choice="required", max_tokens=60)
    (call,) = answer.tool_calls
    return call.name, call.arguments


def test_programs_run_on_the_client(served: Served) -> None:
    backend = client(served)
    with running(backend):
        chat(3)
        assert several()[1] in ("yes", "no")
        name, arguments = with_tools()
    on_backend_loop(backend.aclose)
    assert name == "weather" and "city" in arguments


@ppl
def long_answer(rounds: int, tokens: int) -> str:
    "Tell me about you and what you can do."
    if rounds:
        return str(gen(temperature=0.0, max_tokens=tokens, max_relay_rounds=rounds))
    return str(gen(temperature=0.0, max_tokens=tokens))


def test_an_answer_in_pieces_is_the_beginning_of_a_longer_one(served: Served) -> None:
    backend = client(served)
    with running(backend):
        assert long_answer(0, 60).startswith(long_answer(8, 5))
    on_backend_loop(backend.aclose)


@ppl
def streamed() -> tuple[str, str]:
    "Tell me about you."
    answer = gen(stream=True, temperature=0.0, max_tokens=20)
    return "".join(answer.text_stream), str(gen(temperature=0.0, max_tokens=20))


def test_a_streamed_answer_is_the_one_that_comes_as_a_whole(served: Served) -> None:
    backend = client(served)
    with running(backend):
        pieces, whole = streamed()
    assert pieces == whole
    on_backend_loop(backend.aclose)


def test_the_keys_of_the_environment_belong_to_its_address() -> None:
    code = (
        "from appl_backends.sglang.client import _address\n"
        "print(_address(None, None, None), _address('http://other', None, None))"
    )
    names = {"SGLANG_URL": "http://mine", "SGLANG_API_KEY": "k", "SGLANG_ADMIN_KEY": "a"}
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **names}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "('http://mine', 'k', 'a') ('http://other', None, None)"
