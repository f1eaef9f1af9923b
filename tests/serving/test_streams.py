"""What is streamed adds up to what is answered at once."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import Any

import pytest

from appl.testing import serving

from .conftest import HELLO, Client, connect

SAMPLED = {"max_new_tokens": 30, "temperature": 1.2, "sampling_seed": 3}


def without_time(answer: dict[str, Any]) -> dict[str, Any]:
    meta = {
        key: value
        for key, value in answer["meta_info"].items()
        if key not in ("e2e_latency", "id", "cached_tokens", "cached_tokens_details")
    }
    return {**answer, "meta_info": meta}


@pytest.mark.parametrize("stop", [[], ["a", "small te", "\n"]])
def test_the_last_event_is_the_whole_answer(client: Client, stop: list[str]) -> None:
    body = {"text": HELLO, "sampling_params": {**SAMPLED, "stop": stop}, "return_logprob": True}
    client.post("/generate", body)  # from now on both find the same in the cache
    events = client.events("/generate", body)
    whole = client.post("/generate", body).json()
    assert without_time(events[-1]) == without_time(whole)
    assert [e["meta_info"]["finish_reason"] for e in events[:-1]] == [None] * (len(events) - 1)
    for before, after in pairwise(events):
        assert after["text"].startswith(before["text"])
        assert len(after["output_ids"]) == len(before["output_ids"]) + 1
        assert after["meta_info"]["output_token_logprobs_length"] == len(after["output_ids"])


def test_batches_and_samples_interleave_with_their_index(client: Client) -> None:
    body = {"text": [HELLO, "Once"], "sampling_params": {**SAMPLED, "n": 2}}
    events = client.events("/generate", body)
    last = {event["index"]: event for event in events}
    whole = client.post("/generate", body).json()
    for index, answer in enumerate(whole):
        event = last[index]
        assert event.pop("index") == index
        assert without_time(event) == without_time(answer)


def test_an_interval_leaves_events_out(client: Client) -> None:
    wanted = {"max_new_tokens": 10, "temperature": 0, "ignore_eos": True, "stream_interval": 4}
    events = client.events("/generate", {"text": HELLO, "sampling_params": wanted})
    assert [len(event["output_ids"]) for event in events] == [4, 8, 10]


def test_incremental_events_hold_what_is_new() -> None:
    body = {
        "text": HELLO,
        "sampling_params": SAMPLED,
        "return_logprob": True,
        "logprob_start_len": 0,
    }
    with serving("--incremental-streaming-output") as server:
        client = connect(server)
        events = client.events("/generate", body)
        whole = client.post("/generate", body).json()
        assert client.get("/server_info")["incremental_streaming_output"] is True
    assert "".join(event["text"] for event in events) == whole["text"]
    assert [token for event in events for token in event["output_ids"]] == whole["output_ids"]
    entries = [e for event in events for e in event["meta_info"]["output_token_logprobs"]]
    assert entries == whole["meta_info"]["output_token_logprobs"]
    assert "input_token_logprobs" in events[0]["meta_info"]
    assert all("input_token_logprobs" not in event["meta_info"] for event in events[1:])


def test_what_is_refused_is_said_inside_the_stream(client: Client) -> None:
    body = {"text": HELLO, "sampling_params": {"temperature": -1}}
    (event,) = client.events("/generate", body)
    assert event["error"]["code"] == 400 and "temperature" in event["error"]["message"]


def test_a_chat_stream_adds_up(client: Client) -> None:
    body = {
        "messages": [{"role": "user", "content": "Tell me something"}], "temperature": 1.2,
        "seed": 5, "n": 2, "max_tokens": 25, "logprobs": True, "top_logprobs": 2,
        "stream_options": {"include_usage": True},
    }  # fmt: skip
    *events, last = client.events("/v1/chat/completions", body)
    whole = client.post("/v1/chat/completions", body).json()
    texts, logprobs, ends = defaultdict(str), defaultdict(list), {}
    for event in events:
        (choice,) = event["choices"]
        at = choice["index"]
        texts[at] += choice["delta"].get("content", "")
        logprobs[at] += (choice["logprobs"] or {"content": []})["content"]
        ends[at] = choice["finish_reason"], choice["matched_stop"]
    for choice in whole["choices"]:
        at = choice["index"]
        assert texts[at] == choice["message"]["content"]
        assert [each["token"] for each in logprobs[at]] == [
            each["token"] for each in choice["logprobs"]["content"]
        ]
        assert ends[at] == (choice["finish_reason"], choice["matched_stop"])
    assert last["choices"] == [] and last["usage"]["total_tokens"] == whole["usage"]["total_tokens"]
    assert not any("usage" in event for event in events)


def test_a_completion_stream_adds_up(client: Client) -> None:
    body = {
        "prompt": ["Once", HELLO],
        "temperature": 1.2,
        "seed": 5,
        "max_tokens": 20,
        "logprobs": 1,
    }
    texts, tokens = defaultdict(str), defaultdict(list)
    for event in client.events("/v1/completions", body):
        (choice,) = event["choices"]
        texts[choice["index"]] += choice["text"]
        tokens[choice["index"]] += choice["logprobs"]["tokens"]
    for choice in client.post("/v1/completions", body).json()["choices"]:
        assert texts[choice["index"]] == choice["text"]
        assert tokens[choice["index"]] == choice["logprobs"]["tokens"]
