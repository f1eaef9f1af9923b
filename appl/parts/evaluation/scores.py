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
    said = text(answer).casefold()
    wanted = target if isinstance(target, list | tuple) else [target]
    return all(text(each).strip().casefold() in said for each in wanted)


def regex(answer: object, target: object) -> bool:
    """True if the regular expression that is the target is found in the answer."""
    return re.search(text(target), text(answer)) is not None


def as_json(answer: object, target: object) -> bool:
    """True if answer and target are the same JSON, in whatever order and form it is written."""
    return _parsed(answer) == _parsed(target)


def _parsed(value: object) -> object:
    found = plain(value)
    if not isinstance(found, str):
        return found
    try:
        return json.loads(found)
    except (ValueError, RecursionError):
        return found


def choice(answer: object, target: object) -> bool:
    """True if the answer picks the letter that is the target: ``B``, ``(b)``, ``Answer: B.``"""
    said = text(answer).strip()
    found = _LETTER.fullmatch(said) or _FIRST.match(said)
    letters = [found[1]] if found else _SAID.findall(said)
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
        known = {
            "target": case.target,
            "input": case.input,
            "id": case.id,
            "fields": case.fields,
        }
        args = (answer, case.target)[: self.positions]
        return args, {name: known[name] for name in self.named}


def scorers_of(wanted: object) -> list[Scorer]:
    """The scorers that *wanted* lists, by name or as functions. Raises ``InvalidOption``."""
    if isinstance(wanted, str) or callable(wanted) or not isinstance(wanted, Iterable):
        wanted = [wanted]
    found: dict[str, Scorer] = {}
    for each in wanted:
        made = _scorer(each)
        name, number = made.name, 2
        while name in found:
            name, number = f"{made.name}-{number}", number + 1
        found[name] = Scorer(name, made.f, made.named, made.positions, made.ready)
    if not found:
        raise InvalidOption("evaluate(scores=[]): write at least one, such as 'exact'")
    return list(found.values())


def _scorer(wanted: object) -> Scorer:
    if isinstance(wanted, str):
        f = READY.get(wanted)
        if f is None:
            known = ", ".join(READY)
            raise InvalidOption(
                f"there is no ready score {wanted!r}{nearest(wanted, READY)} (they are {known}); "
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
    named = tuple(each for each in parameters[positions:] if each in _NAMED)
    return Scorer(name, wanted, named, positions, ready=False)


def number_of(value: object) -> float | None:
    """*value* as a score; ``None`` is none. Raises ``ValueError`` for anything else."""
    found = plain(value)
    if found is None:
        return None
    if isinstance(found, str):
        word = found.strip().strip(".").casefold()
        found = _WORDS[word] if word in _WORDS else _float(word)
    with contextlib.suppress(OverflowError):  # a whole number of hundreds of digits
        if isinstance(found, bool | int | float) and math.isfinite(found):
            return float(found)
    raise ValueError(f"a score is a number, True or False, yes or no, or None; got {value!r:.80}")


def _float(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return math.nan
