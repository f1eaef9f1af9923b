"""The proposer: a prompt function that reflects on answers that failed, and writes a better text.

Invariant: it sees training cases only, and is a function like the user's: recorded and paid alike.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from appl.runtime.answers.generate import gen
from appl.runtime.function import ppl

_LONGEST = 1000  # characters of a value
_MOST = 4000  # tokens of an answer: a budget reserves them
_FENCED = re.compile(r"```[^\n`]*\n(.*?)\n?[ \t]*```", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Example:
    """A case of the reflection, in texts: its calls whose prompts have the text, with answers.

    A prompt is shown with the values of the text's placeholders in place of the text. ``input`` is
    that of a case without such calls: no text can bring in what its placeholders do not hold.
    ``answer`` is the program's, ``error`` is in words.
    """

    input: str
    calls: Sequence[tuple[str, str]]
    answer: str
    target: str
    scores: str
    error: str = ""


@dataclass(frozen=True, slots=True)
class Reflection:
    """The material of a proposer: a text of a prompt, and answers that it led to.

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
    f"You improve the prompts of a program. Its function {reflection.function} says to a model:"
    f"```\n{reflection.text}\n```"
    for number, example in enumerate(reflection.examples, 1):
        f"## Case {number}: {example.scores}"
        if example.input:
            f"input: {_short(example.input)}"
        for prompt, answer in example.calls:
            f"{_short(prompt)}"
            f"answer: {_short(answer.strip())}"
        if example.error:
            f"failed: {_short(example.error)}"
        elif not any(said.strip() and said.strip() in example.answer for _, said in example.calls):
            f"result: {_short(example.answer)}"
        f"wanted: {_short(example.target)}"
    if reflection.earlier:
        "## Tried, no better"
        for text, reason in reflection.earlier:
            f"```\n{_short(text)}\n```\n{reason}"
    "## Task"
    "Write a better text in place of the first: what the model has to know of all such tasks, and "
    "in which form to answer."
    if reflection.placeholders:
        f"Keep each of these exactly as often: {' '.join(reflection.placeholders)}"
    "Answer with the text alone, between lines of three backticks."
    return gen(model, max_tokens=_MOST)


def text_in(answer: str) -> str:
    """The text in the *answer* of a proposer: what stands in its last fence, else all of it."""
    found = _FENCED.findall(answer)
    return str(found[-1]) if found else answer.strip()


def _short(text: str) -> str:
    """*text*, without its middle if it is long."""
    half = _LONGEST // 2
    return text if len(text) <= _LONGEST else f"{text[:half]}\n[…]\n{text[-half:]}"
