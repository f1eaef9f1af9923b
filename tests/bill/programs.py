"""Programs of every shape that shares beginnings, with prompts whose sizes are drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import appl
from appl import AIRole, Generation, SystemRole, gen, ppl


def said(name: str, length: int) -> str:
    """A text of so many characters that no other name has."""
    text = f"{name}: " + f"{name}, " * (length // (len(name) + 2) + 1)
    return text[:length]


@ppl
def ask(facts: str, question: str) -> Generation:
    f"{facts}"
    f"{question}"
    return gen(max_tokens=8)


@ppl
def once(question: str) -> Generation:
    f"{question}"
    return gen(max_tokens=8)


@ppl(ctx="copy")
def branch(question: str) -> Generation:
    f"{question}"
    return gen(max_tokens=8)


@ppl
def fan_out(facts: str, questions: list[str]) -> list[str]:
    f"{facts}"
    return [str(each) for each in [branch(question) for question in questions]]


@ppl(ctx="copy")
def twig(facts: str, questions: list[str]) -> list[Generation]:
    f"{facts}"
    return [branch(question) for question in questions]


@ppl
def tree(facts: str, boughs: list[tuple[str, list[str]]]) -> list[str]:
    f"{facts}"
    found = [twig(more, questions) for more, questions in boughs]
    return [str(answer) for answers in found for answer in answers]


@ppl
def chain_of_two(facts: str, turns: list[str]) -> str:
    f"{facts}"
    for number in range(2):
        f"{turns[number]}"
        answer = str(gen(max_tokens=8))
    return answer


@ppl
def chain_of_five(facts: str, turns: list[str]) -> str:
    f"{facts}"
    for number in range(5):
        f"{turns[number]}"
        answer = str(gen(max_tokens=8))
    return answer


@ppl
def chain_of_twenty(facts: str, turns: list[str]) -> str:
    f"{facts}"
    for number in range(20):
        f"{turns[number]}"
        answer = str(gen(max_tokens=8))
    return answer


@ppl
def dialogue(facts: str, turns: list[str]) -> str:
    """A chain whose answers stand in the prompt; all its calls are known from the beginning."""
    with SystemRole():
        f"{facts}"
    for number in range(6):
        f"{turns[number]}"
        answer = gen(max_tokens=8)
        with AIRole():
            f"{answer}"
    return str(answer)


@ppl
def branching_dialogue(facts: str, turns: list[str]) -> list[str]:
    """A chain that is left by a question in each turn."""
    f"{facts}"
    asides = []
    for number in range(4):
        f"{turns[number]}"
        answer = gen(max_tokens=8)
        with AIRole():
            f"{answer}"
        asides.append(branch(f"How sure are you of {number}?"))
    return [str(answer), *map(str, asides)]


@ppl
def agent(facts: str, turns: list[str]) -> str:
    """It goes on as long as it likes, so that nobody knows which turn is the last one."""
    f"{facts}"
    answer = ""
    for turn in turns:
        f"{turn}"
        answer = str(gen(max_tokens=8))
    return answer


@ppl
def talks(facts: str, turns: list[list[str]]) -> list[str]:
    """A fan-out whose branches are chains."""
    f"{facts}"
    return [str(answer) for answer in [talk(each) for each in turns]]


@ppl(ctx="copy", parallel=True)
def talk(turns: list[str]) -> str:
    for number in range(3):
        f"{turns[number]}"
        answer = str(gen(max_tokens=8))
    return answer


@ppl(ctx="copy")
def bough(texts: list[str]) -> list[Generation]:
    """A branch of a branch, as deep as there are texts, with a question beside each."""
    f"{texts[0]}"
    return [branch(f"{texts[0][:60]}, and then?"), *(bough(texts[1:]) if texts[1:] else [])]


@ppl
def deep(facts: str, texts: list[str]) -> list[str]:
    f"{facts}"
    return [str(answer) for answer in bough(texts)]


@ppl(ctx="same")
def examples(texts: list[str]) -> None:
    for text in texts:
        f"{text}"


@ppl
def ask_with_examples(rules: str, texts: list[str], question: str) -> Generation:
    with SystemRole():
        f"{rules}"
    examples(texts)
    "Now the question."
    f"{question}"
    return gen(max_tokens=8)


@ppl
def drafts(facts: str, number: int) -> list[str]:
    """The same prompt for several answers, which then stand in it."""
    f"{facts}"
    return [str(answer) for answer in [gen(max_tokens=8, temperature=1.0) for _ in range(3)]]


@dataclass
class Drawn:
    """A program that was drawn: its *kind*, and how it is run.

    ``calls`` that begin with the same ``shared`` characters come together. ``surprises`` are texts
    that come again without a sign.
    """

    kind: str
    run: Callable[[], object]
    calls: int = 0
    shared: int = 0
    surprises: tuple[str, ...] = ()


KINDS = (
    "map", "fan-out", "chain", "tree", "agent", "one-shots", "mixed", "deep", "examples", "sequence",
    "dialogue", "several",
)  # fmt: skip


def drawn(dice: Random, kind: str = "") -> Drawn:
    """A program of *kind*, or of any."""
    return _Drawing(dice).program(kind or dice.choice(KINDS))


class _Drawing:
    def __init__(self, dice: Random) -> None:
        self._dice = dice
        self._many = dice.randint(2, 16)

    def text(self, name: str, *lengths: int) -> str:
        """A text that no other program has, of one of *lengths*."""
        return said(f"{name}{self._dice.randrange(10**9)}", self._dice.choice(lengths))

    def questions(self, number: int) -> list[str]:
        return [self.text("question", *range(80, 900)) for _ in range(number)]

    def program(self, kind: str) -> Drawn:
        """A program of *kind*."""
        dice, many = self._dice, self._many
        facts, asked = self.text("facts", 800, 4_500, 9_000, 24_000, 60_000), self.questions(many)
        sizes = many, len(facts)
        if kind == "map":
            return Drawn(kind, lambda: list(map(str, [ask(facts, q) for q in asked])), *sizes)
        if kind == "fan-out":
            return Drawn(kind, lambda: fan_out(facts, asked), *sizes)
        if kind == "chain":
            long = dice.choice([chain_of_two, chain_of_five, chain_of_twenty, drafts])
            turns = self.questions(20)
            return Drawn(kind, lambda: long(facts, turns if long is not drafts else 3))
        if kind == "dialogue":
            talked, turns = dice.choice([dialogue, branching_dialogue]), self.questions(20)
            return Drawn(kind, lambda: talked(facts, turns))
        if kind == "tree":
            boughs = [
                (self.text("bough", 300, 6_000), self.questions(dice.randint(2, 5)))
                for _ in range(dice.randint(2, 4))
            ]
            return Drawn(kind, lambda: tree(facts, boughs))
        if kind == "agent":
            turns = self.questions(dice.randint(2, 12))
            return Drawn(kind, lambda: agent(facts, turns))
        if kind == "one-shots":
            ones = [self.text("once", *range(500, 30_000)) for _ in range(many)]
            return Drawn(kind, lambda: list(map(str, [once(each) for each in ones])))
        if kind == "mixed":
            dialogues = [self.questions(3) for _ in range(dice.randint(2, 5))]
            return Drawn(kind, lambda: talks(facts, dialogues))
        if kind == "deep":
            texts = [self.text("step", 200, 3_000) for _ in range(dice.randint(2, 9))]
            return Drawn(kind, lambda: deep(facts, texts))
        if kind == "examples":
            rules, texts = self.text("rules", 100, 5_000), self.questions(dice.randint(1, 40))
            return Drawn(
                kind, lambda: list(map(str, [ask_with_examples(rules, texts, q) for q in asked]))
            )
        if kind == "sequence":  # nobody knows that the second one comes
            asked += self.questions(1)
            return Drawn(kind, lambda: [str(ask(facts, q)) for q in asked], surprises=(facts,))
        parts = [self.program(dice.choice(KINDS[:-1])) for _ in range(dice.randint(2, 4))]
        surprises = tuple(text for part in parts for text in part.surprises)
        return Drawn(kind, lambda: [part.run() for part in parts], surprises=surprises)


def mapped(facts: str, questions: list[str]) -> list[Any]:
    """The same question about many things, by ``appl.map``."""
    return list(appl.map(lambda question: str(ask(facts, question)), questions))
