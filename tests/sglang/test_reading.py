from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from appl.backend import Sample, Sampling
from appl.errors import BackendUnavailable, MalformedResponse
from appl_backends.sglang import answers
from appl_backends.sglang.answer_text import AnswerReader, GrowingAnswers, Thinking
from appl_backends.sglang.tools import STYLES, Offer, offer_of

TOOL = json.dumps({"name": "f", "description": "", "parameters": {"type": "object"}})
HERMES = next(style for style in STYLES if style.name == "hermes")


def offer() -> Offer:
    found = offer_of(Sampling(tools=(TOOL,)), HERMES, b"", False)
    assert found is not None
    return found


def answer(text: str, ended: str | None = "stop", **meta: Any) -> dict[str, Any]:
    finish = None if ended is None else {"type": ended}
    return {"text": text, "output_ids": [1], "meta_info": {"finish_reason": finish, **meta}}


def reader(
    thinking: Thinking = None, tools: bool = False, stop: tuple[str, ...] = ()
) -> AnswerReader:
    return AnswerReader(0, stop, offer() if tools else None, thinking)


def test_reasoning_is_told_apart() -> None:
    sample = reader("written").sample(answer("<think>\nHm.\n</think>\n\nYes."), 0)
    assert (sample.reasoning, sample.text) == ("Hm.", "Yes.")
    sample = reader("begun").sample(answer("Hm.\n</think>\n\nYes."), 0)
    assert (sample.reasoning, sample.text) == ("Hm.", "Yes.")
    sample = reader("written").sample(answer("Yes."), 0)
    assert (sample.reasoning, sample.text) == (None, "Yes.")


def test_reasoning_without_an_end_leaves_no_text() -> None:
    sample = reader("written").sample(answer("<think>on and on", "length"), 0)
    assert (sample.reasoning, sample.text, sample.finish_reason) == ("on and on", "", "length")


def test_a_call_ends_an_answer_as_calls_do() -> None:
    text = 'Wait.\n<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'
    sample = reader("written", tools=True).sample(answer(f"<think>x</think>{text}"), 0)
    assert (sample.text, sample.reasoning, sample.finish_reason) == ("Wait.", "x", "tool_calls")
    assert sample.tool_calls[0].name == "f"


PIECES = st.lists(
    st.sampled_from(
        ["<think>", "</think>", "</thi", "a", " ", "\n", "STOP", "ST", "<tool_call>", "<tool",
         '{"name": "f", "arguments": {}}', "</tool_call>", "é"]
    )
)  # fmt: skip


@given(PIECES, st.sampled_from([None, "begun", "written"]), st.booleans(), st.booleans())
def test_what_is_streamed_is_a_beginning_of_the_answer(
    pieces: list[str], thinking: Thinking, tools: bool, deltas: bool
) -> None:
    read = reader(thinking, tools, ("STOP",))
    growing = GrowingAnswers(read, 1, deltas, "it")
    shown = {"text": "", "reasoning": ""}
    raw = "".join(pieces)  # a server misses a stop text that has more tokens than usual
    for end in range(len(raw) + 1):
        piece = raw[end - 1 : end] if deltas else raw[:end]
        for chunk in growing.add(answer(piece, None)):
            shown[chunk.kind] += chunk.text
    assert not list(growing.add(answer("" if deltas else raw)))
    (whole,) = answers.answers(growing.complete(), 1, "it", read.stop)
    sample = read.sample(whole, 0)
    assert whole["text"] == raw.partition("STOP")[0] and sample.text.startswith(shown["text"])
    assert (sample.reasoning or "").startswith(shown["reasoning"])


def test_an_answer_ends_before_a_stop_text_that_the_server_missed() -> None:
    found = {**answer("one, two, three", "length"), "output_ids": [1, 2, 3]}
    (whole,) = answers.answers(found, 1, "it", ("three", ", t"))
    assert answers.sample(whole) == Sample("one", "stop")
    assert answers.generated(whole) == ([1, 2, 3], True)


def test_several_answers_are_streamed_side_by_side() -> None:
    growing = GrowingAnswers(AnswerReader(5, (), None, None), 2, False, "it")
    chunks = [*growing.add({**answer("a", None), "index": 1}), *growing.add(answer("b", None))]
    assert [(chunk.sample, chunk.text) for chunk in chunks] == [(6, "a"), (5, "b")]


def test_deltas_add_up_ids_and_logprobs() -> None:
    growing = GrowingAnswers(reader(), 1, True, "it")
    list(growing.add(answer("a", None, output_token_logprobs=[[-1.0, 1, "a"]])))
    list(growing.add(answer("b", output_token_logprobs=[[-2.0, 2, "b"]])))
    (whole,) = growing.complete()
    assert (whole["text"], whole["output_ids"]) == ("ab", [1, 1])
    assert [token.logprob for token in answers.sample(whole).logprobs or ()] == [-1.0, -2.0]


@pytest.mark.parametrize("event", [5, {}, {"text": 5, "meta_info": {}}, {"index": 9}])
def test_an_event_that_is_no_answer_is_malformed(event: Any) -> None:
    with pytest.raises(MalformedResponse):
        list(GrowingAnswers(reader(), 1, False, "it").add(event))


@pytest.mark.parametrize("found", [None, 5, "x", [], {}, {"text": 5}, answer("", None)])
def test_no_answer_is_malformed(found: Any) -> None:
    with pytest.raises(MalformedResponse):
        answers.answers(found, 1, "it")


@pytest.mark.parametrize("found", [{"text": "x"}, answer("x", None), {"text": "x", "meta_info": 5}])
def test_a_text_that_does_not_say_why_it_ended_is_an_answer(found: Any) -> None:
    (read,) = answers.answers(found, 1, "it")
    assert answers.sample(read) == Sample("x", "unknown")


def test_an_answer_that_was_broken_off_is_no_answer() -> None:
    with pytest.raises(BackendUnavailable, match="went away"):
        answers.answers(
            answer("x", None)
            | {"meta_info": {"finish_reason": {"type": "abort", "message": "went away"}}},
            1,
            "it",
        )


def test_tokens_from_the_cache_may_be_unknown() -> None:
    told = answer("x", prompt_tokens=5, completion_tokens=2, cached_tokens=0)
    assert answers.usage([told]).cached_tokens == 0
    assert answers.usage([answer("x", prompt_tokens=5)]).cached_tokens is None


def test_the_token_that_ended_an_answer_is_not_of_its_text() -> None:
    ended = {
        "text": "x",
        "output_ids": [7, 8, 2],
        "meta_info": {"finish_reason": {"type": "stop", "matched": 2}},
    }
    assert answers.generated(ended) == ([7, 8], False)
    by_text = {**ended, "meta_info": {"finish_reason": {"type": "stop", "matched": "\n"}}}
    assert answers.generated(by_text) == ([7, 8, 2], True)
