"""The backend seen from asyncio: requests in, responses out, whatever else is going on."""

from __future__ import annotations

import asyncio
import gc
import json
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from appl.backend import GREEDY, UNCONDITIONAL, Chunk, Request, Response, Sampling
from appl.errors import (
    BackendError,
    BackendTimeout,
    ConfigError,
    InvalidOption,
    ModelNotFound,
    PromptTooLong,
    Unsupported,
)
from appl.prompt import AIMessage, Image, Messages, UserMessage
from appl_backends.embedded import WEIGHTS, Embedded
from appl_backends.embedded.constraint import AnswerForm
from appl_backends.embedded.tools import ToolOffer
from appl_backends.option_scores import scored
from tests.drawn import counts
from tests.embedded.reference import logits

shipped = pytest.mark.skipif(
    not (WEIGHTS / "model.safetensors").is_file(), reason="no model is shipped"
)


def ask(
    *said: str | AIMessage, n: int = 1, sample: int = 0, model: str = "", address: str = "a",
    timeout: float | None = None, **sampling: Any,
) -> Request:  # fmt: skip
    messages = Messages.of([UserMessage(m) if isinstance(m, str) else m for m in said])
    options = {"max_tokens": 12} | sampling
    return Request(address, 0, model, messages, Sampling(**options), n, sample, timeout)


# Cannot end before many seconds of work.
ENDLESS: dict[str, Any] = {"n": 100, "max_tokens": 900, "regex": "a{2000}"}


def texts(response: Response) -> list[str]:
    return [sample.text for sample in response.samples]


async def test_usage_counts_tokens_exactly(backend: Embedded) -> None:
    first = await backend.complete(ask("Hello there, Mia", temperature=0.0, n=3))
    size = first.usage.prompt_tokens
    assert size and first.usage.completion_tokens == 36 and first.usage.cached_tokens == 0
    again = await backend.complete(ask("Hello there, Mia", temperature=0.0))
    assert again.usage.cached_tokens == size - 1
    assert again.model == "embedded" and texts(again) == texts(first)[:1]


async def test_a_seed_repeats_and_no_seed_does_not(backend: Embedded) -> None:
    seeded = [texts(await backend.complete(ask("Hi", seed=4, n=2))) for _ in range(2)]
    fresh = [texts(await backend.complete(ask("Hi", n=2))) for _ in range(2)]
    assert seeded[0] == seeded[1] and fresh[0] != fresh[1]
    assert seeded[0][0] != seeded[0][1]


async def test_a_seed_of_the_backend_goes_by_where_a_request_is_asked(folder: Path) -> None:
    async def answers(seed: int) -> list[list[str]]:
        backend = Embedded(weights=folder, seed=seed)
        found = [texts(await backend.complete(ask("Hi", address=where))) for where in "ab"]
        await backend.aclose()
        return found

    one, again, other = await answers(1), await answers(1), await answers(2)
    assert one == again != other and one[0] != one[1]


async def test_what_follows_a_final_space_starts_with_one_unseen(backend: Embedded) -> None:
    request = ask("Who?", AIMessage("The author is "), seed=1, n=5, logprobs=0)
    for sample in (await backend.complete(request)).samples:
        tokens = "".join(entry.token for entry in sample.logprobs or ())
        assert not tokens or tokens[0] == " "
        assert "\ufffd" in tokens or tokens[1:] == sample.text


async def test_many_at_once_get_what_each_would_get_alone(backend: Embedded) -> None:
    requests = [ask("Hello " * (at % 5) + str(at), seed=at, max_tokens=6) for at in range(60)]
    together = await asyncio.gather(*map(backend.complete, requests))
    for at in range(0, 60, 13):
        assert texts(await backend.complete(requests[at])) == texts(together[at])
    report = backend.cache_report()
    assert report["running"] == report["waiting"] == report["protected"] == 0
    assert report["free_blocks"] > 0


async def test_streamed_chunks_add_up_on_the_loop_that_asked(backend: Embedded) -> None:
    chunks: list[Chunk] = []
    threads = set()

    def emit(chunk: Chunk) -> None:
        chunks.append(chunk)
        threads.add(threading.get_ident())

    response = await backend.complete(ask("Stream", seed=1, n=2, sample=5), emit)
    assert threads == {threading.get_ident()} and {chunk.sample for chunk in chunks} == {5, 6}
    for index, sample in enumerate(response.samples):
        assert "".join(c.text for c in chunks if c.sample == 5 + index) == sample.text


async def test_cancelling_stops_the_work(backend: Embedded) -> None:
    begun = asyncio.Event()
    request = ask("Go on for ever", **ENDLESS)
    call = asyncio.create_task(backend.complete(request, lambda chunk: begun.set()))
    await begun.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await backend.complete(ask("another", max_tokens=1))
    before = backend.cache_report()["decoded_tokens"]
    await backend.complete(ask("another", max_tokens=1))
    report = backend.cache_report()
    assert report["decoded_tokens"] == before + 1 and report["running"] == 0


async def test_a_timeout_is_an_error_and_aborts(backend: Embedded) -> None:
    with pytest.raises(BackendTimeout, match=r"0\.01 s"):
        await backend.complete(ask("slow", timeout=0.01, **ENDLESS))
    await backend.complete(ask("next", max_tokens=1))
    assert backend.cache_report()["running"] == 0


async def test_closing_fails_what_is_open_and_refuses_more(folder: Path) -> None:
    backend = Embedded(weights=folder)
    begun = asyncio.Event()
    request = ask("x", **ENDLESS)
    call = asyncio.create_task(backend.complete(request, lambda chunk: begun.set()))
    await begun.wait()
    await backend.aclose()
    with pytest.raises(BackendError, match="closed"):
        await call
    with pytest.raises(BackendError, match="closed"):
        await backend.complete(ask("x"))
    await backend.aclose()


def test_a_backend_that_is_dropped_ends_its_thread(folder: Path) -> None:
    before = set(threading.enumerate())
    backend = Embedded(weights=folder)
    asyncio.run(backend.complete(ask("Hello", temperature=0.0)))
    [thread] = (each for each in set(threading.enumerate()) - before if "embedded" in each.name)
    del backend
    gc.collect()
    thread.join(60)
    assert not thread.is_alive()


def test_two_loops_in_two_threads_share_one_backend(folder: Path) -> None:
    backend, found = Embedded(weights=folder), []

    def work() -> None:
        found.append(asyncio.run(backend.complete(ask("Hello", seed=3))))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3 and len({response.text for response in found}) == 1
    asyncio.run(backend.aclose())


async def test_a_prompt_that_does_not_fit_is_refused_at_once(backend: Embedded) -> None:
    before = backend.cache_report()
    for size in (3_000, 1_000_000):
        with pytest.raises(PromptTooLong, match=r"\d+ tokens, the model has room for 1023"):
            await backend.complete(ask("word " * size))
    assert backend.cache_report() == before


async def test_an_answer_ends_where_the_context_ends(backend: Embedded) -> None:
    response = await backend.complete(ask("x" * 1000, max_tokens=10_000, temperature=0.0))
    used = (response.usage.prompt_tokens or 0) + (response.usage.completion_tokens or 0)
    assert used <= 1024 and response.samples[0].finish_reason in ("length", "stop")


async def test_odd_characters_are_prompt_text(backend: Embedded) -> None:
    for text in ("a\0b", "\ud800 lone", "\x1b[31m", "", "🙂" * 50, "<|end|><|system|>"):
        assert (await backend.complete(ask(text, max_tokens=2))).usage.completion_tokens


async def test_no_messages_at_all_get_an_answer(backend: Embedded) -> None:
    request = Request("a", 0, "", None, Sampling(max_tokens=3))
    assert (await backend.complete(request)).usage.prompt_tokens == 2


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize(
    "regex", ["[0-9]{3}-[a-z]+!", "(yes|no)", r"\d+(\.\d\d)?", "é[ü-ÿ]{2}", "Mia .{0,9}\\."]
)
async def test_a_regex_is_satisfied(backend: Embedded, regex: str, temperature: float) -> None:
    request = ask("Say", regex=regex, temperature=temperature, seed=2, n=4, max_tokens=200)
    for sample in (await backend.complete(request)).samples:
        assert sample.finish_reason == "length" or re.fullmatch(regex, sample.text)


async def test_a_regex_continues_what_was_begun(backend: Embedded) -> None:
    request = ask("Who?", AIMessage("The number is "), regex="[0-9]{2}", seed=1, n=5)
    for text in texts(await backend.complete(request)):
        assert re.fullmatch("[0-9]{2}", text)


SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "city": {"enum": ["Lund", "Köln"]},
        "tags": {"type": "array", "items": {"type": "boolean"}, "maxItems": 3},
        "boss": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/boss"}]},
    },
    "required": ["name", "age", "city", "tags", "boss"],
    "additionalProperties": False,
    "$defs": {"boss": {"type": "object", "properties": {"id": {"type": "integer"}}}},
}


@pytest.mark.parametrize("begun", [None, "As JSON: "])
async def test_a_schema_is_satisfied(backend: Embedded, begun: str | None) -> None:
    said = ["Who?", *([AIMessage(begun)] if begun else [])]
    request = ask(*said, schema=json.dumps(SCHEMA), temperature=1.0, seed=1, n=6, max_tokens=400)
    done = [s for s in (await backend.complete(request)).samples if s.finish_reason == "stop"]
    assert done
    for sample in done:
        value = json.loads(sample.text)
        assert list(value) == SCHEMA["required"] and 0 <= value["age"] <= 120
        assert value["city"] in ("Lund", "Köln") and len(value["tags"]) <= 3


async def test_a_grammar_is_satisfied(backend: Embedded) -> None:
    grammar = 'root ::= term ("+" term)*\nterm ::= [0-9] | "(" root ")"'
    request = ask("Sum", grammar=grammar, temperature=1.0, seed=1, n=4, max_tokens=60)
    for sample in (await backend.complete(request)).samples:
        assert re.fullmatch(r"[0-9+()]*", sample.text)
        if sample.finish_reason == "stop":
            assert isinstance(eval(sample.text), int)


async def test_a_form_that_no_answer_fits_is_refused(backend: Embedded) -> None:
    itself = {"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}}
    endless = {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}
    for schema, text in (itself, "no answer fits it"), (endless, "cannot be followed to its end"):
        for n in (1, 3):
            with pytest.raises(Unsupported, match=text):
                await backend.complete(ask("Hi", n=n, schema=json.dumps(schema)))
    assert backend.engine.idle and backend.engine.rows.room == backend.engine.rows.size


async def test_a_task_that_ends_in_a_step_that_fails_is_told_so(backend: Embedded) -> None:
    task = await backend.task(ask("Hi"))
    calls = backend.constraints.compile(AnswerForm(regex="no call"))
    task.offer = ToolOffer(calls, must=True, content=b"")
    with pytest.raises(BackendError, match="the engine failed"):
        await backend.worker.run(task)
    assert (await backend.complete(ask("Hi"))).samples


async def test_choices_take_the_best_scored_and_the_first_of_equals(backend: Embedded) -> None:
    options = ("yes", "no", "maybe so, who knows")
    response = await backend.complete(ask("Well?", choices=options))
    assert response.choice_method == "logprob" and len(response.scores or ()) == 3
    best = max(response.scores or ())
    assert response.text == options[(response.scores or ()).index(best)]
    tied = await backend.complete(ask("Well?", choices=("yes", "yes")))
    assert tied.text == "yes" and (tied.scores or ())[0] == pytest.approx((tied.scores or ())[1])


async def test_choices_can_be_normalised_by_their_tokens(backend: Embedded) -> None:
    options = ("yes", "maybe so, who knows")
    plain = await backend.complete(ask("Well?", choices=options))
    mean = await backend.complete(ask("Well?", choices=options, normalize="token"))
    ratios = [a / b for a, b in zip(plain.scores or (), mean.scores or (), strict=True)]
    assert ratios[0] == pytest.approx(round(ratios[0])) and ratios[1] > ratios[0] >= 2


def naive(folder: Path, ids: list[int], scored: list[int]) -> list[float]:
    """The log-probabilities of *scored* after *ids*, by the reference; 0 after nothing."""
    rows = logits(folder, [*ids, *scored])
    logprobs = rows - np.log(np.exp(rows).sum(-1, keepdims=True))
    first = len(ids)
    return [
        float(logprobs[first + at - 1, token]) if first + at else 0.0
        for at, token in enumerate(scored)
    ]


OPTIONS = ("yes", "maybe so, who knows", "no")


async def test_choices_without_their_own_likelihood_are_those_of_the_reference(
    backend: Embedded,
) -> None:
    request = ask("Well?", choices=OPTIONS, normalize=UNCONDITIONAL)
    prompt, scores = backend.prompt_tokens(request), []
    for option in OPTIONS:
        ids = [*backend.tokenizer.encode(option), backend.tokenizer.end]
        with_prompt, alone = naive(backend.folder, prompt, ids), naive(backend.folder, [], ids)
        scores.append((sum(with_prompt) - sum(alone)) / len(ids))
    response = await backend.complete(request)
    assert response.scores == pytest.approx(scores, abs=1e-3)
    assert response.text == OPTIONS[scores.index(max(scores))]
    assert response.choice_method == "logprob"


async def test_a_greedy_choice_is_made_token_by_token(backend: Embedded) -> None:
    for question in ("Well?", "Is it so?", "What now?", "a", "Who?"):
        request = ask(question, choices=OPTIONS, normalize=GREEDY)
        prompt = backend.prompt_tokens(request)
        rows = []
        for option in OPTIONS:
            ids = [*backend.tokenizer.encode(option), backend.tokenizer.end]
            rows.append(naive(backend.folder, prompt, ids))
        longest = max(map(len, rows))
        padded = [row + [sum(row) / len(row)] * (longest - len(row)) for row in rows]
        best = max(range(len(OPTIONS)), key=lambda at: [round(each, 3) for each in padded[at]])
        response = await backend.complete(request)
        assert response.text == OPTIONS[best]
        assert response.scores == pytest.approx([sum(row) for row in rows], abs=1e-3)


@pytest.mark.parametrize(
    ("choices", "best"),
    [
        ([[-1.0, -9.0], [-2.0, -0.1]], 0),  # the first token decides
        ([[-1.0, -3.0], [-1.0, -2.0, -9.0]], 1),  # then the second one
        ([[-1.0], [-1.0, -0.5], [-3.0]], 1),  # one that is over goes on with its mean
        ([[-1.0, -2.0], [-1.0, -2.0]], 0),  # of equals the first
    ],
)
def test_the_first_token_that_differs_decides_a_greedy_choice(
    choices: list[list[float]], best: int
) -> None:
    assert scored(GREEDY, choices, [], 1e-6) == (tuple(map(sum, choices)), best)


async def test_what_cannot_be_done_is_said(backend: Embedded) -> None:
    cases: list[tuple[Request, type[Exception], str]] = [
        (ask("x", model="embeded"), ModelNotFound, "did you mean 'embedded'"),
        (ask("x", regex="(unclosed"), Unsupported, "constraint"),
        (ask("x", schema='{"type": 7}'), Unsupported, "constraint"),
        (ask("x", extra=(("top_k", 3),)), Unsupported, "top_k"),
        (ask("x", temperature=-1.0), Unsupported, "temperature"),
        (ask("x", top_p=0.0), Unsupported, "top_p"),
        (ask("x", max_tokens=0), Unsupported, "max_tokens"),
        (ask("x", choices=()), Unsupported, "options"),
        (ask(AIMessage([Image("https://example.com/a.png")])), Unsupported, "cannot take images"),
    ]
    for request, error, words in cases:
        with pytest.raises(error, match=words):
            await backend.complete(request)


def test_settings_are_checked(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match="no model in"):
        Embedded(weights=tmp_path)
    with pytest.raises(InvalidOption, match="'radix' or 'naive'"):
        Embedded(weights=folder, cache="lru")  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="positive"):
        Embedded(weights=folder, max_batch=0)


def test_a_process_that_ends_in_the_middle_ends_cleanly(folder: Path) -> None:
    program = f"""
import asyncio
from appl_backends.embedded import Embedded
from appl.backend import Request, Sampling
from appl.prompt import Messages, UserMessage
async def main():
    backend, begun = Embedded(weights={str(folder)!r}), asyncio.Event()
    request = Request("a", 0, "", Messages.of([UserMessage("x")]), Sampling(max_tokens=900))
    asyncio.ensure_future(backend.complete(request, lambda chunk: begun.set()))
    await begun.wait()
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")


@shipped
@counts(8, 24)
async def test_the_shipped_model_answers_the_same_alone_and_in_company(count: int) -> None:
    backend, naive = Embedded(), Embedded(cache="naive")
    requests = [
        ask(
            f'Compute ({40 + at} - 17) * {at % 7}. End with a line "Answer: N".',
            seed=at,
            max_tokens=40,
        )
        for at in range(count)
    ]
    together = await asyncio.gather(*map(backend.complete, requests))
    alone = [await naive.complete(request) for request in requests]
    assert list(map(texts, together)) == list(map(texts, alone))
    await asyncio.gather(backend.aclose(), naive.aclose())


@shipped
async def test_the_shipped_model_continues_and_chooses() -> None:
    backend = Embedded()
    fact = 'Name the author of the quotation.\n"A river does not ask." (Mira Holt, born 1921, wrote it.)'
    begun = await backend.complete(ask(fact, AIMessage("The author is "), temperature=0.0))
    assert begun.text.startswith("Mira Holt")
    review = 'Is this review positive or negative? "The soup was cold." Choose one of: positive, negative'
    chosen = await backend.complete(ask(review, choices=("positive", "negative")))
    assert chosen.text == "negative"
    await backend.aclose()


@shipped
@pytest.mark.parametrize(
    ("file", "text"),
    [("config.json", "{"), ("config.json", '{"hidden_size": %s}' % ("9" * 5000)), ("config.json", "[" * 5000),
     ("config.json", "[]"), ("tokenizer.json", "{}"), ("generation_config.json", "[]"),
     ("model.safetensors", "short")],
)  # fmt: skip
def test_a_folder_that_holds_no_model_is_named(tmp_path: Path, file: str, text: str) -> None:
    for path in WEIGHTS.iterdir():
        (tmp_path / path.name).symlink_to(path)
    (tmp_path / file).unlink(missing_ok=True)
    (tmp_path / file).write_text(text)
    with pytest.raises(ConfigError, match=f"the model in {tmp_path} cannot be read"):
        Embedded(weights=tmp_path)


BEGUN = (UserMessage("Is it so?"), AIMessage("I think"))


@pytest.mark.parametrize("normalize", [None, "token", GREEDY, UNCONDITIONAL])
@pytest.mark.parametrize("said", [("Is it so?",), BEGUN], ids=["whole", "begun"])
@pytest.mark.parametrize("end", [True, False, None])
async def test_the_end_of_the_turn_is_scored_where_the_choice_ends_it_or_as_asked(
    backend: Embedded, normalize: str | None, said: tuple[Any, ...], end: bool | None
) -> None:
    request = ask(*said, choices=OPTIONS, normalize=normalize, choice_end=end)
    prompt, scores = backend.prompt_tokens(request), []
    ending = [backend.tokenizer.end] if (said is not BEGUN if end is None else end) else []
    for option in OPTIONS:
        ids = [*backend.tokenizer.encode(option), *ending]
        row, alone = naive(backend.folder, prompt, ids), naive(backend.folder, [], ids)
        total = sum(row) - sum(alone) if normalize == UNCONDITIONAL else sum(row)
        scores.append(total / (len(ids) if normalize in ("token", UNCONDITIONAL) else 1))
    response = await backend.complete(request)
    assert response.scores == pytest.approx(scores, abs=1e-3)
    assert normalize == GREEDY or response.text == OPTIONS[scores.index(max(scores))]
