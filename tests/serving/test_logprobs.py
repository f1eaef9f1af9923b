"""Log-probabilities by id: what the prompt's tokens and the answer's are worth."""

from __future__ import annotations

import pytest

from appl.backend import Request, Sampling
from appl.prompt import Messages, UserMessage
from appl_backends.embedded import Embedded

from .conftest import HELLO, Client

ONE = {"temperature": 0, "max_new_tokens": 6}


def test_entries_begin_at_the_asked_position_with_one_that_has_no_value(client: Client) -> None:
    ids = client.post("/tokenize", {"prompt": HELLO}).json()["tokens"]
    for start in range(len(ids)):
        meta = client.generate(
            ids, sampling_params=ONE, return_logprob=True, logprob_start_len=start
        )["meta_info"]
        entries = meta["input_token_logprobs"]
        assert entries[0] == [None, ids[start], None]
        assert [token for _, token, _ in entries] == ids[start:]
        assert all(value < 0 for value, _, _ in entries[1:])
        assert meta["cached_tokens"] <= start
        assert meta["output_token_logprobs_length"] == len(meta["output_token_logprobs"]) == 6


def test_by_default_there_are_entries_of_the_answer_alone(client: Client) -> None:
    found = client.generate(HELLO, sampling_params=ONE, return_logprob=True)
    meta = found["meta_info"]
    assert meta["input_token_logprobs"] == []
    assert [token for _, token, _ in meta["output_token_logprobs"]] == found["output_ids"]
    assert "input_token_logprobs" not in client.generate(HELLO, sampling_params=ONE)["meta_info"]


def test_the_cache_does_not_change_them(client: Client) -> None:
    asked = {"sampling_params": ONE, "return_logprob": True, "logprob_start_len": 2}
    prompt = HELLO + "It was in the year that the well ran dry"
    cold = client.generate(prompt, **asked)["meta_info"]["input_token_logprobs"][1:]
    warm = client.generate(prompt, **asked)["meta_info"]["input_token_logprobs"][1:]
    assert [token for _, token, _ in cold] == [token for _, token, _ in warm]
    assert [v for v, _, _ in cold] == pytest.approx([v for v, _, _ in warm], abs=1e-4)


def test_the_likeliest_and_those_asked_for_come_with_their_texts(client: Client) -> None:
    meta = client.generate(
        HELLO, sampling_params=ONE, return_logprob=True, logprob_start_len=1,
        top_logprobs_num=3, token_ids_logprob=[1, 5], return_text_in_logprobs=True,
    )["meta_info"]  # fmt: skip
    assert meta["input_token_logprobs"][0] == [None, 3, "<|user|>"]
    assert meta["input_top_logprobs"][0] is None and meta["input_token_ids_logprobs"][0] is None
    for row in (*meta["input_top_logprobs"][1:], *meta["output_top_logprobs"]):
        assert len(row) == 3 and row == sorted(row, key=lambda entry: -entry[0])
    for row in (*meta["input_token_ids_logprobs"][1:], *meta["output_token_ids_logprobs"]):
        assert [entry[1:] for entry in row] == [[1, "<|end|>"], [5, "<|tool|>"]]
    greedy = [row[0] for row in meta["output_top_logprobs"]]
    assert greedy == meta["output_token_logprobs"]


def test_samples_share_the_entries_of_their_prompt(client: Client) -> None:
    one, two = client.generate(
        HELLO, sampling_params={**ONE, "n": 2}, return_logprob=True, logprob_start_len=0
    )
    assert one["meta_info"]["input_token_logprobs"] == two["meta_info"]["input_token_logprobs"]
    assert len(one["meta_info"]["input_token_logprobs"]) == 5


async def test_options_scored_in_one_batch_are_scored_as_the_backend_does(
    client: Client, local: Embedded
) -> None:
    options = ("positive", "negative", "neither of them")
    question = (
        'Is this review positive or negative? "The soup was cold." One of: positive, negative'
    )
    request = Request("a", 0, "", Messages.of([UserMessage(question)]), Sampling(choices=options))
    prompt, end = local.prompt_tokens(request), local.tokenizer.end
    client.generate(prompt, sampling_params={"max_new_tokens": 0})
    found = client.generate(
        [[*prompt, *local.tokenizer.encode(option), end] for option in options],
        sampling_params={"max_new_tokens": 0},
        return_logprob=True,
        logprob_start_len=len(prompt) - 1,
    )
    scores = [
        sum(value for value, _, _ in each["meta_info"]["input_token_logprobs"][1:])
        for each in found
    ]
    assert scores == pytest.approx((await local.complete(request)).scores, abs=1e-3)
    assert all(each["meta_info"]["cached_tokens"] == len(prompt) - 1 for each in found)
