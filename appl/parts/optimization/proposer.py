"""The proposer: a prompt function that reflects on answers that failed, and writes a better text.

Invariant: it sees training cases only, and is a function like the user's: recorded and paid alike.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from appl.runtime.answers.generate import gen
from appl.runtime.function import ppl

_LONGEST = 2000
_MOST = 4000  # tokens of an answer: a budget reserves them
_FENCED = re.compile(r"```[^\n`]*\n(.*?)\n?[ \t]*```", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Example:
    """A case of the reflection: the calls whose prompts have the text, with their answers.

    ``scores`` are those of the program's ``answer``; ``error`` is in words.
    """

    input: str
    calls: Sequence[tuple[str, str]]
    answer: str
    target: str
    scores: str
    error: str = ""


@dataclass(frozen=True, slots=True)
class Reflection:
    """What a proposer is given: a text of a prompt, and answers that it led to.

    ``placeholders`` have to stand in a new text as they are, each as often as here. ``earlier``
    are texts that were proposed before, each with the reason why it was not taken.
    """

    function: str
    text: str
    placeholders: tuple[str, ...]
    examples: Sequence[Example]
    earlier: Sequence[tuple[str, str]] = ()


@ppl
def propose(reflection: Reflection, model: str | None = None) -> str:
    """The answer of a model that is asked for a better text."""
    "You improve the prompts of a program that asks language models."
    f"This text is a part of a prompt of its function {reflection.function}:"
    f"```\n{reflection.text}\n```"
    if reflection.placeholders:
        names = ", ".join(dict.fromkeys(reflection.placeholders))
        f"The program puts values in place of {names}."
    "Here is what came of it. A score of 1 is right, 0 is wrong."
    for number, example in enumerate(reflection.examples, 1):
        f"## Case {number}"
        f"Input: {_short(example.input)}"
        for prompt, answer in example.calls:
            f"Prompt:\n```\n{_short(prompt)}\n```\nThe model's answer:\n```\n{_short(answer)}\n```"
        if example.error:
            f"The program failed: {_short(example.error)}"
        else:
            f"The program's result: {_short(example.answer)}"
        f"The result that was wanted: {_short(example.target)}"
        f"Scores: {example.scores}"
    if reflection.earlier:
        "## Texts that were tried before, and did not help"
        for text, reason in reflection.earlier:
            f"```\n{text}\n```\n{reason}"
    "## Your task"
    "Find out why the scores are low, and write a new text in place of the one above. Say in it "
    "what the model has to know about this kind of task and the form of the answer that is wanted. "
    "It has to hold for cases like these, not for these alone."
    if reflection.placeholders:
        names = " ".join(reflection.placeholders)
        f"Write these placeholders into it as they stand, each exactly so often: {names}"
    "Write the new text alone, between lines of three backticks."
    return gen(model, max_tokens=_MOST)


def text_in(answer: str) -> str:
    """The text in the *answer* of a proposer: what stands in its last fence, else all of it."""
    found = _FENCED.findall(answer)
    return str(found[-1]) if found else answer.strip()


def _short(text: str) -> str:
    """*text*, without its middle if it is long."""
    half = _LONGEST // 2
    return text if len(text) <= _LONGEST else f"{text[:half]}\n[…]\n{text[-half:]}"
