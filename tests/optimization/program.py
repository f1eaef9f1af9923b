"""A program whose prompts are improved in tests."""

from __future__ import annotations

from appl import SystemMessage, gen, ppl


@ppl
def topic(question: str):
    f"Topic of {question}?"
    return gen(max_tokens=8)


@ppl
def answer(question: str):
    "Answer."
    f"{topic(question)} now: {question}"
    return gen(max_tokens=8)


@ppl
def judge(answer: object, target: object):
    f"Judge {answer} {target}"
    return gen(max_tokens=4)


async def later(question: str):
    return str(await answer(question))


class Agent:
    @ppl
    def ask(self, question: str):
        f"Ask {question}"
        return gen(max_tokens=8)


@ppl
def spoken(question: str):
    SystemMessage("You are kind.")
    f"Say {question}"
    return gen(max_tokens=8)


@ppl
def measured(question: str, temperature: float):
    f"Measure {question}"
    return gen(max_tokens=8, temperature=temperature)
