"""Methods, class methods and properties."""

from __future__ import annotations

from typing import assert_type

from appl import gen, ppl


class Agent:
    @ppl(ctx="resume")
    def talk(self, word: str) -> str:
        f"{word}"
        return gen()

    @classmethod
    @ppl
    def named(cls, name: str) -> str:
        f"{name}"
        return gen()

    @property
    @ppl
    def mood(self) -> str:
        "How are you?"
        return gen()


agent = Agent()
assert_type(agent.talk("hi"), str)
assert_type(Agent.named("Ann"), str)
assert_type(agent.mood, str)
agent.talk(word=3)  # type: ignore[arg-type]
agent.tolk("hi")  # type: ignore[attr-defined]
