"""``/generate`` says what the engine in the program's own process says, by text and by ids."""

from __future__ import annotations

import re
from typing import Any

import pytest

from appl.backend import Request, Sampling, canonical
from appl.prompt import Messages, UserMessage
from appl_backends.embedded import Embedded

from .conftest import HELLO, Client

GREEDY = {"temperature": 0, "max_new_tokens": 24}
QUESTIONS = (
    "Hello",
    "What can you do?",
    'Is this review positive or negative? "The soup was cold." Choose one of: positive, negative',
    'Compute (40 - 17) * 2. End with a line "Answer: N".',
)


def ask(text: str, **sampling: Any) -> Request:
    options = {"temperature": 0.0, "max_tokens": 24} | sampling
    return Request("a", 0, "", Messages.of([UserMessage(text)]), Sampling(**options))


async def test_greedy_answers_are_those_of_the_backend_in_this_process(
    client: Client, local: Embedded
) -> None:
    for question in QUESTIONS:
        request = ask(question)
        theirs = client.generate(local.prompt_tokens(request), sampling_params=GREEDY)
        ours = await local.complete(request)
        meta = theirs["meta_info"]
        assert theirs["text"] == ours.text
        assert meta["finish_reason"]["type"] == ours.samples[0].finish_reason
        assert meta["prompt_tokens"] == ours.usage.prompt_tokens
        assert meta["completion_tokens"] == ours.usage.completion_tokens


async def test_seeded_samples_are_those_of_the_backend_in_this_process(
    client: Client, local: Embedded
) -> None:
    request = ask("Tell me something", temperature=1.3, seed=7)
    request.n = 4
    wanted = {"temperature": 1.3, "max_new_tokens": 24, "sampling_seed": 7, "n": 4}
    theirs = client.generate(local.prompt_tokens(request), sampling_params=wanted)
    ours = await local.complete(request)
    assert [each["text"] for each in theirs] == [sample.text for sample in ours.samples]
    assert len({each["meta_info"]["id"] for each in theirs}) == 4


def test_special_tokens_in_text_are_those_of_the_chat_template(
    client: Client, local: Embedded
) -> None:
    ids = local.prompt_tokens(ask("Hello"))
    answer = client.generate(HELLO, sampling_params=GREEDY, return_prompt_token_ids=True)
    assert answer["prompt_token_ids"] == ids
    assert answer == {**client.generate(ids, sampling_params=GREEDY), "prompt_token_ids": ids} | {
        "meta_info": answer["meta_info"]
    }


def test_a_continuation_by_ids_is_cached_to_the_last_token(client: Client) -> None:
    asked = client.post("/tokenize", {"prompt": HELLO + "Well, a story of "}).json()["tokens"]
    first = client.generate(asked, sampling_params=GREEDY)
    more = client.post("/tokenize", {"prompt": "<|end|><|user|>And then?<|end|><|assistant|>"})
    whole = asked + first["output_ids"]
    second = client.generate(whole + more.json()["tokens"], sampling_params=GREEDY)
    assert second["meta_info"]["cached_tokens"] == len(whole) - 1


def test_no_new_tokens_fill_the_cache(client: Client) -> None:
    prompt = "<s><|user|>" + "A cold beginning that nobody has seen. " * 8
    warm = client.generate(prompt, sampling_params={"max_new_tokens": 0})
    meta = warm["meta_info"]
    assert (warm["text"], warm["output_ids"], meta["completion_tokens"]) == ("", [], 0)
    assert meta["finish_reason"] == {"type": "length", "length": 0}
    again = client.generate(prompt, sampling_params={"max_new_tokens": 1})["meta_info"]
    assert again["cached_tokens"] == again["prompt_tokens"] - 1 > meta["cached_tokens"]


def test_a_batch_is_a_list_in_order(client: Client) -> None:
    prompts = [HELLO, "Once upon", HELLO]
    wanted = [{**GREEDY, "max_new_tokens": n} for n in (3, 5, 7)]
    found = client.generate(prompts, sampling_params=wanted, rid="batch")
    assert [each["meta_info"]["completion_tokens"] for each in found] == [3, 5, 7]
    assert [each["meta_info"]["id"] for each in found] == ["batch_0", "batch_1", "batch_2"]
    assert found[2]["text"].startswith(found[0]["text"])
    alone = [client.generate(p, sampling_params=w) for p, w in zip(prompts, wanted, strict=True)]
    assert [each["output_ids"] for each in found] == [each["output_ids"] for each in alone]
    assert isinstance(client.generate([HELLO], sampling_params=GREEDY), list)


def test_stops_are_cut_off_and_named(client: Client) -> None:
    whole = client.generate(HELLO, sampling_params={"temperature": 0, "max_new_tokens": 60})
    ended = whole["meta_info"]["finish_reason"]
    assert ended == {"type": "stop", "matched": 1} and whole["output_ids"][-1] == 1
    cut = client.generate(HELLO, sampling_params={**GREEDY, "stop": ["small", "test"]})
    assert cut["text"] == whole["text"].partition("small")[0]
    assert cut["meta_info"]["finish_reason"] == {"type": "stop", "matched": "small"}
    third = whole["output_ids"][2]
    held = client.generate(HELLO, sampling_params={**GREEDY, "stop_token_ids": [third]})
    assert held["meta_info"]["finish_reason"] == {"type": "stop", "matched": third}
    assert held["output_ids"] == whole["output_ids"][:3]


def test_the_end_can_be_ignored_or_put_off(client: Client) -> None:
    forced = client.generate(
        HELLO, sampling_params={**GREEDY, "max_new_tokens": 90, "ignore_eos": True}
    )
    assert forced["meta_info"]["finish_reason"] == {"type": "length", "length": 90}
    late = {**GREEDY, "max_new_tokens": 90, "min_new_tokens": 50}
    ids = client.generate(HELLO, sampling_params=late)["output_ids"]
    assert 1 not in ids[:50] and len(ids) >= 50


@pytest.mark.parametrize(
    ("form", "pattern"),
    [
        ({"regex": "[0-9]{3}-[a-z]{2}"}, "[0-9]{3}-[a-z]{2}"),
        ({"ebnf": 'root ::= "yes" | "no" digit\ndigit ::= [0-9]'}, "yes|no[0-9]"),
        ({"json_schema": '{"type":"object","properties":{"a":{"type":"boolean"}},"required":["a"],"additionalProperties":false}'},
         r'\{"a": (true|false)\}'),
    ],
)  # fmt: skip
def test_forms_are_kept(client: Client, form: dict[str, str], pattern: str) -> None:
    found = client.generate(
        HELLO, sampling_params={"max_new_tokens": 60, **form, "n": 3, "sampling_seed": 1}
    )
    for each in found:
        assert re.fullmatch(pattern, each["text"]), each
        assert each["meta_info"]["finish_reason"] == {"type": "stop", "matched": 1}


def test_without_a_limit_an_answer_ends_by_itself_or_with_the_context(client: Client) -> None:
    found = client.generate(HELLO, sampling_params={"max_new_tokens": None, "temperature": 0})
    assert found["meta_info"]["finish_reason"]["type"] == "stop"


def test_ids_and_texts_go_both_ways(client: Client) -> None:
    found = client.post("/tokenize", {"prompt": HELLO + "é 🙂"}).json()
    assert found["count"] == len(found["tokens"]) and found["max_model_len"] == 4096
    for skip, text in ((False, HELLO + "é 🙂"), (True, "Helloé 🙂")):
        body = {"tokens": found["tokens"], "skip_special_tokens": skip}
        assert client.post("/detokenize", body).json() == {"text": text}


def test_what_the_server_says_of_itself(client: Client) -> None:
    info, model = client.get("/server_info"), client.get("/get_model_info")
    assert info["model_path"] == model["model_path"] and model["architectures"] == [
        "LlamaForCausalLM"
    ]
    assert info["context_length"] == 4096 and info["engine"] == "appl-embedded"
    assert info["enable_cache_report"] and not info["disable_radix_cache"]
    assert client.get("/v1/loads")["loads"][0]["max_total_num_tokens"] == 16384
    metrics = client.http.get("/metrics").text
    assert re.search(r"^sglang:generation_tokens_total [1-9]\d*$", metrics, re.MULTILINE)
    assert client.http.get("/health").status_code == 200
    assert client.http.get("/health_generate", headers=client.server.headers).status_code == 200


def test_spaces_share_no_prefix(client: Client) -> None:
    prompt = "<s><|user|>" + "What belongs to one tenant stays with him. " * 4

    def cached(**space: str) -> int:
        found = client.generate(prompt, sampling_params={"max_new_tokens": 1}, **space)
        return int(found["meta_info"]["cached_tokens"])

    spaces: list[dict[str, str]] = [
        {},
        {"cache_salt": "a"},
        {"extra_key": "a"},
        {"cache_salt": "b"},
    ]
    assert all(cached(**space) < 8 for space in spaces)
    assert len({cached(**space) for space in spaces}) == 1 and cached() > 20


def test_special_tokens_are_written_where_they_are_not_skipped(client: Client) -> None:
    wanted = {**GREEDY, "max_new_tokens": 60, "ignore_eos": True}
    skipped = client.generate(HELLO, sampling_params=wanted)
    shown = client.generate(HELLO, sampling_params={**wanted, "skip_special_tokens": False})
    assert "<|end|>" in shown["text"] and "<|end|>" not in skipped["text"]
    assert shown["output_ids"] == skipped["output_ids"]


async def test_a_tool_is_called_through_text(client: Client, local: Embedded) -> None:
    tool = {
        "name": "weather", "description": "The weather in a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    }  # fmt: skip
    request = ask("What is the weather in Lund?", tools=(canonical(tool),))
    ours = await local.complete(request)
    wanted = {**GREEDY, "skip_special_tokens": False}
    theirs = client.generate(local.prompt_tokens(request), sampling_params=wanted)
    if ours.samples[0].tool_calls:
        assert theirs["text"].startswith('<|call|>{"name": "weather"')
    else:
        assert theirs["text"] == ours.text
