"""The fixed beginning of a regular expression is computed with the prompt, and part of the answer."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from appl.backend import Request, Sampling
from appl.prompt import Message, Messages
from appl_backends.embedded import Embedded
from appl_backends.sglang import SGLang
from appl_backends.sglang.heads import Heads, fixed
from appl_backends.sglang.tokens import ModelTokenizer

WEIGHTS = Path(__file__).parents[2] / "backends" / "appl_backends" / "embedded" / "weights"
Make = Callable[..., SGLang]
PERSON = r'\{"name": "[a-z]{4,9}", "age": [0-9]{2}\}'
PIECES = st.sampled_from(
    ["a", "b", " ", '"', r"\.", r"\{", r"\d", "[ab]", "a?", "b*", "c+", "d{2}", "(ab)", ".", r"\n"]
)


def heads() -> Heads:
    return Heads(ModelTokenizer(WEIGHTS))


def asked(regex: str, **sampling: object) -> Request:
    messages = Messages(None, Message("user", "Anna is 31. Say it as JSON."))
    given = {"temperature": 0.0, "max_tokens": 32, "regex": regex, **sampling}
    return Request("/x", 0, "", messages, Sampling(**given))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "regex, text",
    [
        (PERSON, '{"name": "'),
        ("abc", "abc"),
        ("ab?c", "a"),
        ("ab{2}", "a"),
        (r"x\d", "x"),
        (r"x\.y\+z*", "x.y+"),
        ("ab|ac", ""),
        ("a(b|c)", ""),
        ("(?i)ab", ""),
        ("^ab", ""),
        ("", ""),
        ("a\\", "a"),
        (r"ab\b c", ""),
        (r"ab(?<=b)c", ""),
        (r"ab(?<name>c)", "ab"),
        (r"ab\<c", "ab"),
    ],
)
def test_only_what_is_plain_to_see_is_fixed(regex: str, text: str) -> None:
    assert fixed(regex)[0] == text


@given(st.lists(PIECES, max_size=8).map("".join), st.data())
def test_every_match_begins_with_what_is_fixed_and_goes_on_with_the_rest(
    regex: str, data: Any
) -> None:
    text, ends = fixed(regex)
    found = data.draw(st.from_regex(regex, fullmatch=True))
    assert found.startswith(text)
    for size, end in enumerate(ends, 1):
        assert re.fullmatch(regex[end:], found[size:], re.DOTALL if "\n" in found else 0)


async def test_answer_and_usage_are_those_of_one_answer(open_client: Make) -> None:
    question = asked(PERSON)
    assert heads().of(question.sampling) is not None
    embedded = Embedded()
    here, there = await embedded.complete(question), await open_client().complete(question)
    await embedded.aclose()
    assert re.fullmatch(PERSON, there.text)
    assert there.usage.prompt_tokens == here.usage.prompt_tokens
    assert there.usage.completion_tokens is not None and there.usage.completion_tokens <= 32
    several = await open_client().complete(
        Request("/x", 0, "", question.messages, asked(PERSON, temperature=1.0).sampling, n=3)
    )
    assert all(re.fullmatch(PERSON, sample.text) for sample in several.samples)


@pytest.mark.parametrize(
    "more",
    [
        {"stop": ("x",)},
        {"logprobs": 1},
        {"max_tokens": 2},
        {"begun": "{"},
        {"extra": (("frequency_penalty", 1.0),)},
        {"regex": "[a-z]+"},
    ],
)
def test_where_what_is_generated_counts_nothing_is_taken_from_it(more: dict[str, object]) -> None:
    assert heads().of(asked(**{"regex": PERSON, **more}).sampling) is None  # type: ignore[arg-type]


def test_the_clients_own_bound_holds_for_head_and_rest_together() -> None:
    head = Heads(ModelTokenizer(WEIGHTS), 20).of(asked(PERSON, max_tokens=None).sampling)
    assert head is not None and head.sampling.max_tokens == 20 - len(head.ids)
