"""Scores: how good an answer is, as a number, by a function of the user's or a ready one.

Invariant: a score is a finite number, or nothing where a score says so (``None``); anything else is
a failure of the score, with words.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from appl.errors import InvalidOption, nearest
from appl.parts.evaluation.cases import Case, parameters_of
from appl.parts.evaluation.plain import plain, text

_WORDS = {"yes": 1.0, "no": 0.0, "true": 1.0, "false": 0.0}
_NAMED = ("target", "input", "id", "fields")
_LETTER = re.compile(r"\W*([A-Za-z])\W*")
_FIRST = re.compile(r"\W*([A-Za-z])[).:\]]")
_SAID = re.compile(
    r"\b(?:answer|choice|option)\b(?:\s+is)?\W{0,4}\(?([A-Za-z])\b(?!['\u2019])", re.IGNORECASE
)


def exact(answer: object, target: object) -> bool:
    """True if the answer is the target: the same value, or the same text but for space around."""
    return plain(answer) == plain(target) or text(answer).strip() == text(target).strip()


def contains(answer: object, target: object) -> bool:
    """True if the target stands in the answer, in capitals or not; of a list, all that it has."""
    answer_text = text(answer).casefold()
    wanted = target if isinstance(target, list | tuple) else [target]
    return all(text(target_text).strip().casefold() in answer_text for target_text in wanted)


def regex(answer: object, target: object) -> bool:
    """True if the regular expression that is the target is found in the answer."""
    return re.search(text(target), text(answer)) is not None


def as_json(answer: object, target: object) -> bool:
    """True if answer and target are the same JSON, in whatever order and form it is written."""
    return _parsed(answer) == _parsed(target)


def _parsed(value: object) -> object:
    data = plain(value)
    if not isinstance(data, str):
        return data
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return data


def choice(answer: object, target: object) -> bool:
    """True if the answer picks the letter that is the target: ``B``, ``(b)``, ``Answer: B.``"""
    answer_text = text(answer).strip()
    match = _LETTER.fullmatch(answer_text) or _FIRST.match(answer_text)
    letters = [match[1]] if match else _SAID.findall(answer_text)
    return bool(letters) and letters[-1].casefold() == text(target).strip().strip("().").casefold()


READY: Mapping[str, Callable[[object, object], bool]] = {
    "exact": exact,
    "contains": contains,
    "regex": regex,
    "json": as_json,
    "choice": choice,
}
"""The ready scores, by name."""


@dataclass(frozen=True, slots=True)
class Scorer:
    """A score by its name: ``f``, with the parameters that it has; a ready one runs at once."""

    name: str
    f: Callable[..., object]
    named: tuple[str, ...]
    positions: int
    ready: bool

    def arguments(self, answer: object, case: Case) -> tuple[tuple[object, ...], dict[str, Any]]:
        """The arguments of ``f`` for *answer*."""
        arguments = {
            "target": case.target,
            "input": case.input,
            "id": case.id,
            "fields": case.fields,
        }
        args = (answer, case.target)[: self.positions]
        return args, {name: arguments[name] for name in self.named}


def scorers_of(wanted: object) -> list[Scorer]:
    """The scorers that *wanted* lists, by name or as functions. Raises ``InvalidOption``."""
    if isinstance(wanted, str) or callable(wanted) or not isinstance(wanted, Iterable):
        wanted = [wanted]
    scorers: dict[str, Scorer] = {}
    for entry in wanted:
        scorer = _scorer(entry)
        name, number = scorer.name, 2
        while name in scorers:
            name, number = f"{scorer.name}-{number}", number + 1
        scorers[name] = Scorer(name, scorer.f, scorer.named, scorer.positions, scorer.ready)
    if not scorers:
        raise InvalidOption("evaluate(scores=[]): write at least one, such as 'exact'")
    return list(scorers.values())


def _scorer(wanted: object) -> Scorer:
    if isinstance(wanted, str):
        f = READY.get(wanted)
        if f is None:
            names = ", ".join(READY)
            raise InvalidOption(
                f"there is no ready score {wanted!r}{nearest(wanted, READY)} (they are {names}); "
                "others are functions: score(answer, target)"
            )
        return Scorer(wanted, f, (), 2, ready=True)
    if not callable(wanted):
        raise InvalidOption(
            f"a score is a function of answer and target, or one of {', '.join(READY)}; got "
            f"{wanted!r:.80}"
        )
    name = str(getattr(wanted, "__name__", type(wanted).__name__))
    parameters = parameters_of(wanted)
    if parameters is None:
        return Scorer(name, wanted, (), 2, ready=False)
    if not parameters:
        raise InvalidOption(f"the score {name}() takes no answer: write {name}(answer, target)")
    second = parameters[1:2]
    positions = 2 if second and second[0] not in _NAMED else 1
    named = tuple(parameter for parameter in parameters[positions:] if parameter in _NAMED)
    return Scorer(name, wanted, named, positions, ready=False)


def number_of(value: object) -> float | None:
    """*value* as a score; ``None`` is none. Raises ``ValueError`` for anything else."""
    data = plain(value)
    if data is None:
        return None
    if isinstance(data, str):
        word = data.strip().strip(".").casefold()
        if word in _WORDS:
            data = _WORDS[word]
        else:
            with contextlib.suppress(ValueError):
                data = float(word)
    with contextlib.suppress(OverflowError):  # a whole number of hundreds of digits
        if isinstance(data, bool | int | float) and math.isfinite(data):
            return float(data)
    raise ValueError(f"a score is a number, True or False, yes or no, or None; got {value!r:.80}")
