"""Random programs of several levels, and what plain Python says of them."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import appl
from appl import gen, ppl

Kind = Literal["chat", "responses", "messages"]
"""An interface with batches."""
KINDS: tuple[Kind, ...] = ("chat", "responses", "messages")


def answer_to(question: str) -> str:
    """The answer to *question*: a word that no other question gets."""
    return f"a{hashlib.sha256(question.encode()).hexdigest()[:12]}"


@ppl
def ask(text: str) -> str:
    f"{text}"
    return str(gen(max_tokens=100))


@ppl
def chain(text: str, depth: int) -> str:
    for _ in range(depth):
        text = ask(f"about {text}")
    return text


@dataclass(frozen=True)
class Shape:
    """Chains of questions side by side, and perhaps a last question about all of their ends."""

    seed: int
    depths: tuple[int, ...]
    merges: bool

    @classmethod
    def drawn(cls, seed: int) -> Shape:
        dice = random.Random(seed)
        depths = tuple(dice.randint(1, 3) for _ in range(dice.randint(1, 4)))
        return cls(seed, depths, dice.random() < 0.5)

    def run(self) -> list[str]:
        """The program, on appl."""
        topics = [f"{self.seed} topic {at}" for at in range(len(self.depths))]
        ends = list(appl.map(chain, topics, self.depths))
        return [ask("all of " + " ".join(ends))] if self.merges else ends

    def told(self) -> list[str]:
        """Its values, by plain Python."""
        ends = [path[-1] for path in self._paths(answer_to)]
        return [answer_to("all of " + " ".join(ends))] if self.merges else ends

    def questions(self) -> set[str]:
        """All questions that it asks, by plain Python."""
        found: set[str] = set()

        def answer(question: str) -> str:
            found.add(question)
            return answer_to(question)

        ends = [path[-1] for path in self._paths(answer)]
        if self.merges:
            answer("all of " + " ".join(ends))
        return found

    def levels(self, tries: Callable[[str], int]) -> int:
        """The number of levels where each question takes so many *tries*."""
        longest, ends = 0, list[str]()
        for at, depth in enumerate(self.depths):
            text, length = f"{self.seed} topic {at}", 0
            for _ in range(depth):
                length += tries(f"about {text}")
                text = answer_to(f"about {text}")
            longest = max(longest, length)
            ends.append(text)
        return longest + (tries("all of " + " ".join(ends)) if self.merges else 0)

    def _paths(self, answer: Callable[[str], str]) -> list[list[str]]:
        found = []
        for at, depth in enumerate(self.depths):
            path = [f"{self.seed} topic {at}"]
            for _ in range(depth):
                path.append(answer(f"about {path[-1]}"))
            found.append(path)
        return found
