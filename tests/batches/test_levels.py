"""Calls go out in one batch a level, are answered like any others, and cost half."""

from __future__ import annotations

import appl
from appl import gen, ppl

MODELS = {"chat": "gpt-5-mini", "responses": "gpt-5-mini", "messages": "claude-haiku-4-5"}


@ppl
def ask(text: str) -> str:
    f"{text}"
    return str(gen(max_tokens=100))


@ppl
def chain(text: str, depth: int) -> str:
    for _ in range(depth):
        text = ask(f"about {text}")
    return text


def program(width: int, depth: int) -> list[str]:
    return list(appl.map(lambda each: chain(each, depth), [f"topic {at}" for at in range(width)]))
