"""What every skill is made of: the seeded draw, pools of phrasings of which 30 % are withheld, the example and its check."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from skills import words
from skills.phrases import Phrases

PHRASES = Phrases("core")

T = TypeVar("T")
Message = tuple[str, str]
"""(role, text); the role `call` is an assistant message that is a tool call, its text the JSON."""
Check = dict[str, Any]
_SLOT = re.compile(r"\{(\w+)\}")
_PART = re.compile(r"\[([^\]]*)\]|\{(\w+)\}")


def withheld(index: int) -> bool:
    """The fixed rule: of ten phrasings or names in a list, those at 3, 6 and 9 are never trained on."""
    return index % 10 in (3, 6, 9)


def _parse(pattern: str) -> list[Any]:
    parts: list[Any] = []
    at = 0
    for match in _PART.finditer(pattern):
        parts.append(pattern[at : match.start()])
        parts.append((match[2],) if match[2] else match[1].split("|"))
        at = match.end()
    return [part for part in [*parts, pattern[at:]] if part != ""]


class Pool:
    """Phrasings of one thing: `[a|b]` is a free choice inside one phrasing, `{slot}` is filled in."""

    def __init__(self, name: str, patterns: str | Sequence[str]) -> None:
        lines = (
            [line.replace("\\n", "\n") for line in patterns.strip("\n").split("\n")]
            if isinstance(patterns, str)
            else patterns
        )
        self.name = name
        self.parsed = [_parse(line) for line in lines]
        self.train = [i for i in range(len(lines)) if not withheld(i)]

    @cached_property
    def held(self) -> list[int]:
        """The withheld phrasings that no trained one can come out as: words alone count, not case, punctuation or layout."""
        trained = {said for i in self.train for said in _wordings(self.parsed[i])}
        kept = range(len(self.parsed))
        return [
            i for i in kept if withheld(i) and trained.isdisjoint(_wordings(self.parsed[i]))
        ] or self.train


_WORDS = re.compile(r"\{\w+\}|[\w'-]+|[^\s.,;:!?\"'()\w-]")


def _wordings(parts: list[Any]) -> Iterator[str]:
    """Everything that a phrasing can come out as, reduced to its words; a word that labels a text is `{L}`."""
    choices = [
        [p] if isinstance(p, str) else [f"{{{p[0]}}}"] if isinstance(p, tuple) else p for p in parts
    ]
    for chosen in itertools.product(*choices):
        said = _LABEL.sub("{L}:", "".join(chosen))
        yield " ".join(_WORDS.findall(said.casefold()))


_FIRST_TRAIN = [n for i, n in enumerate(words.FIRST) if not withheld(i)]
_FIRST_HELD = [n for i, n in enumerate(words.FIRST) if withheld(i)]
_LAST_TRAIN = [n for i, n in enumerate(words.LAST) if not withheld(i)]
_LAST_HELD = [n for i, n in enumerate(words.LAST) if withheld(i)]


class Draw:
    """One seeded source of choices; `held` draws only withheld phrasings and names."""

    def __init__(self, seed: int | str, held: bool = False) -> None:
        self.rng = random.Random(seed)
        self.held = held
        self.used: list[str] = []

    def pick(self, items: Sequence[T]) -> T:
        return items[int(self.rng.random() * len(items))]

    def some(self, items: Sequence[T], number: int) -> list[T]:
        return self.rng.sample(list(items), number)

    def shuffled(self, items: Sequence[T]) -> list[T]:
        return self.rng.sample(list(items), len(items))

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def num(self, low: int, high: int) -> int:
        return low + int(self.rng.random() * (high - low + 1))

    def say(self, pool: Pool, **slots: Any) -> str:
        """One phrasing of the pool, filled in; its id is noted in `used`."""
        index = self.pick(pool.held if self.held else pool.train)
        self.used.append(f"{pool.name}:{index}")
        return self.fill(pool.parsed[index], slots)

    def fill(self, parts: list[Any], slots: dict[str, Any]) -> str:
        out = []
        for part in parts:
            if isinstance(part, str):
                out.append(part)
            elif isinstance(part, tuple):
                out.append(str(slots[part[0]]))
            else:
                chosen = self.pick(part)
                out.append(
                    _SLOT.sub(lambda m: str(slots[m[1]]), chosen) if "{" in chosen else chosen
                )
        return "".join(out)

    def free(self, pattern: str, **slots: Any) -> str:
        """A pattern outside the pools (an answer, a statement): never withheld."""
        parsed = _CACHE.get(pattern)
        if parsed is None:
            parsed = _CACHE[pattern] = _parse(pattern)
        return self.fill(parsed, slots)

    def first(self) -> str:
        if self.chance(0.5):
            return words.made_name(self.rng)
        return self.pick(_FIRST_HELD if self.held else _FIRST_TRAIN)

    def last(self) -> str:
        if self.chance(0.65):
            return words.made_name(self.rng)
        return self.pick(_LAST_HELD if self.held else _LAST_TRAIN)

    def full(self) -> str:
        return f"{self.first()} {self.last()}"

    def person(self) -> str:
        return self.first() if self.chance(0.6) else self.full()

    def firsts(self, number: int) -> list[str]:
        names: list[str] = []
        while len(names) < number:
            name = self.first()
            if name not in names:
                names.append(name)
        return names

    def city(self) -> str:
        return words.made_city(self.rng) if self.chance(0.4) else self.pick(words.CITIES)

    def country(self) -> str:
        return words.made_city(self.rng) if self.chance(0.5) else self.pick(words.COUNTRIES)

    def word(self) -> str:
        return words.syllables(self.rng, self.num(2, 3))

    def noun(self) -> str:
        return self.word() if self.chance(0.12) else self.pick(words.NOUNS)

    def loosen(self, text: str) -> str:
        """Small untidiness of people: no final full stop, a small first letter, `please`, an empty line at the end."""
        roll = self.rng.random()
        if roll < 0.06 and text.endswith((".", "?")):
            return text[:-1]
        if roll < 0.12 and text[:1].isupper() and text[1:2].islower():
            return text[0].lower() + text[1:]
        if roll < 0.14:
            return text + "\n"
        if roll < 0.16:
            return text + " Please."
        return text


_CACHE: dict[str, list[Any]] = {}


@dataclass
class Example:
    """A conversation; `messages` ends before the answer that is checked, `answer` is a right one, `rest` may follow in training."""

    skill: str
    messages: list[Message]
    answer: Message
    check: Check
    rest: list[Message] = field(default_factory=list)
    tools: list[dict[str, Any]] = field(default_factory=list)
    results: dict[str, str] = field(default_factory=dict)
    prefill: str = ""
    templates: list[str] = field(default_factory=list)


LABELS = PHRASES.lines("labels")


_LABEL = re.compile(rf"\b(?:the )?(?:{'|'.join(LABELS)}):", re.IGNORECASE)


def label(draw: Draw) -> str:
    """A word that stands before a text and is not part of it."""
    word = words.syllables(draw.rng, 2).capitalize() if draw.chance(0.15) else draw.pick(LABELS)
    roll = draw.rng.random()
    return (
        word.upper()
        if roll < 0.06
        else word.lower()
        if roll < 0.14
        else f"The {word.lower()}"
        if roll < 0.24
        else word
    )


SYSTEM = Pool(
    "system",
    PHRASES.text("system"),
)


def system(draw: Draw, messages: list[Message], chance: float = 0.3) -> list[Message]:
    """The messages, at times under a plain system prompt."""
    return [("system", draw.say(SYSTEM)), *messages] if draw.chance(chance) else messages


def simple(text: str) -> str:
    """Text as a lenient comparison sees it: no case, no final full stop, no quotes, no article in front."""
    bare = " ".join(text.strip().rstrip(".!").strip("\"'` ").casefold().split())
    return re.sub(r"^(a|an|the) (?=\w)", "", bare)


def _last_number(text: str) -> str | None:
    found: list[str] = re.findall(r"Answer:\s*\$?(-?\d+)", text)
    return found[-1] if found else None


def _json_equal(text: str, value: Any) -> bool:
    try:
        return bool(json.loads(text.strip()) == value)
    except ValueError:
        return False


def passed(check: Check, text: str) -> bool:
    """Whether the text passes: kinds equals, any, contains, excludes, regex, json, answer, distinct, all."""
    kind, value = check["kind"], check.get("value")
    if kind == "equals":
        return simple(text) == simple(str(value))
    if kind == "any":
        return simple(text) in [simple(str(v)) for v in value or []]
    if kind == "contains":
        wanted = value if isinstance(value, list) else [value]
        return all(str(v).casefold() in text.casefold() for v in wanted)
    if kind == "excludes":
        return all(str(v).casefold() not in text.casefold() for v in value or [])
    if kind == "regex":
        return re.search(str(value), text, re.DOTALL) is not None
    if kind == "json":
        return _json_equal(text, value)
    if kind == "answer":
        return _last_number(text) == str(value)
    if kind == "distinct":
        lines = [simple(re.sub(r"^\s*\d+\. *", "", line)) for line in text.strip().split("\n")]
        return len(set(lines)) == len(lines)
    if kind == "all":
        return all(passed(part, text) for part in value or [])
    raise ValueError(f"unknown check {kind!r}")


def equals(value: Any) -> Check:
    return {"kind": "equals", "value": value}


def contains(*values: Any) -> Check:
    return {"kind": "contains", "value": list(values)}


def every(*checks: Check) -> Check:
    return {"kind": "all", "value": list(checks)}


def regex(pattern: str) -> Check:
    return {"kind": "regex", "value": pattern}
