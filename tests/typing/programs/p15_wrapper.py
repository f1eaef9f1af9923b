"""A function that passes the options of gen on."""

from __future__ import annotations

from typing import Unpack, assert_type

from appl import GenOptions, gen, ppl


@ppl
def answer(question: str, **options: Unpack[GenOptions]) -> str:
    f"{question}"
    return gen(**options)


assert_type(answer("Why?", temperature=0.5), str)
answer("Why?", logprobs=True, top_logprobs=3, max_completion_tokens=5)
answer("Why?", temprature=0.5)  # type: ignore[call-arg]
