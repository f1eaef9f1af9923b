"""The model behind a twin: what it says is drawn from the question, and known to the test.

Invariant: the same question gets the same answer, in whichever order and however often it is asked.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

MARK = re.compile(r"#p\d+q\d+#")
"""What programs put into their questions, so that an answer is found again."""

GO_ON = "Continue your last message exactly where it ends"
IN_WORDS = re.compile(r"fits this JSON schema, and with nothing else:\n(\{.*\})", re.DOTALL)
ONE_OF = re.compile(r"Answer with one of these, and with nothing else:\n((?:- .*\n?)+)")
SIMPLE = {
    "Answer with its number only": {"enum": [1, 2, 3]},
    "Answer with one whole number": {"type": "integer"},
    "Answer with one number": {"type": "number"},
    "Answer with true or false": {"type": "boolean"},
    "Answer with one JSON object": {"type": "object", "properties": {"a": {"type": "integer"}}},
}


@dataclass
class Heard:
    """A question in neutral terms: what a twin has understood of a request.

    *texts* are all texts of the conversation in their order, the system's first; *step* is the
    number of messages that called tools since the last mark. *begun* is text of the assistant from
    which the answer is to go on, and *told* that it is asked for that in words.
    """

    texts: list[str] = field(default_factory=list)
    calls: list[tuple[str, Any]] = field(default_factory=list)
    mark: str = ""
    step: int = 0
    images: int = 0
    tools: list[dict[str, Any]] = field(default_factory=list)
    choice: str = "auto"
    schema: dict[str, Any] | None = None
    any_object: bool = False
    regex: str | None = None
    stop: list[str] = field(default_factory=list)
    n: int = 1
    logprobs: bool = False
    begun: str | None = None
    told: bool = False
    streams: bool = False

    def note_mark(self, text: str) -> None:
        """Take the last mark in *text*, which the user said."""
        for found in MARK.findall(text):
            self.mark, self.step = found, 0


@dataclass(frozen=True)
class Call:
    """A call of a tool; *arguments* that are a text are no JSON."""

    name: str
    arguments: Any


@dataclass(frozen=True)
class Said:
    """An answer: *text* is what the program must see; *raw* is what the server sends for it."""

    text: str = ""
    raw: str = ""
    calls: tuple[Call, ...] = ()
    finish: str = "stop"
    reasoning: str | None = None


WORDS = (
    "amber basil cedar delta ember fjord gamma heron indigo jade Straße naïve 東京 Привет 👩‍🔬 שלום "
    "data: [DONE] {\"a\":1} \\n \"quoted\" 100% <b>bold</b> ```py x``` \u2028 \u200b e\u0301 null"
).split(" ")  # fmt: skip
GAPS = (" ",) * 12 + ("\n", "\n\n", "\t", "  ", "\r\n", ", ")


class Model:
    """What the model says; *seed* draws another one.

    With *cuts*, its server passes on arguments of calls that are no JSON.
    """

    def __init__(self, seed: int = 0, *, thinks: bool = False, cuts: bool = True) -> None:
        self.seed, self.thinks, self.cuts = seed, thinks, cuts

    def draw(self, heard: Heard, about: str = "") -> random.Random:
        """A source of chance for this question, the same each time."""
        return random.Random(f"{self.seed}{about}{heard.mark}/{heard.step}")

    def answers(self, heard: Heard) -> list[Said]:
        """What it says, as often as it is asked to."""
        draw = self.draw(heard)
        return [self._answer(heard, draw) for _ in range(heard.n)]

    def _answer(self, heard: Heard, draw: random.Random) -> Said:
        reasoning = self._thought(draw) if self.thinks else None
        calls = self._calls(heard, draw)
        if calls:
            text = self.text(draw, 4) if draw.random() < 0.3 else ""
            return Said(text, text, calls, "tool_calls", reasoning)
        schema = heard.schema or _in_words(heard)
        if schema is not None or heard.any_object:
            value = instance(schema or SIMPLE["Answer with one JSON object"], draw)
            in_words = heard.schema is None and not heard.any_object
            text = value if in_words and isinstance(value, str) else written(value, draw)
            return Said(text, text, (), "stop", reasoning)
        if heard.regex is not None:
            text = _matching(heard.regex, draw)
            return Said(text, text, (), "stop", reasoning)
        return self._free(heard, draw, reasoning)

    def _free(self, heard: Heard, draw: random.Random, reasoning: str | None) -> Said:
        odd = draw.random()
        text = self.text(draw, 14)
        if heard.begun is None and odd < 0.03:
            text = draw.choice(["", "\n", " ", "  \n"])
        if heard.begun is not None:
            text = "so " + text
        finish = "stop"
        if heard.stop and draw.random() < 0.5:
            at = draw.randrange(len(text) + 1)
            text = text[:at] + draw.choice(heard.stop) + text[at:]
        text = before(text, heard.stop)
        if odd > 0.93:
            finish = "length"
        raw = text
        if heard.told and heard.begun:
            last = heard.begun.rpartition("\n")[2]
            raw = draw.choice(["", heard.begun, last]) + text
        return Said(text, raw, (), finish, reasoning)

    def _thought(self, draw: random.Random) -> str:
        return "" if draw.random() < 0.15 else f"I think: {self.text(draw, 6)}"

    def text(self, draw: random.Random, most: int) -> str:
        """Some words, which no two answers share."""
        found = f"a{draw.randrange(10**6)}"
        for _ in range(draw.randint(1, most)):
            found += draw.choice(GAPS) + draw.choice(WORDS)
        edges = draw.random()
        return f" {found}" if edges < 0.05 else f"{found}\n" if edges < 0.1 else found

    def _calls(self, heard: Heard, draw: random.Random) -> tuple[Call, ...]:
        if not heard.tools or heard.choice == "none":
            return ()
        named = [tool for tool in heard.tools if tool["name"] == heard.choice]
        must = bool(named) or heard.choice in ("required", "any")  # Mistral has another word
        likely = (0.8, 0.35, 0.1)
        if not must and draw.random() >= (likely[heard.step] if heard.step < 3 else 0):
            return ()
        among = named or heard.tools
        return tuple(self._call(draw.choice(among), draw) for _ in range(draw.choice((1, 1, 2, 3))))

    def _call(self, tool: dict[str, Any], draw: random.Random) -> Call:
        arguments = instance(tool.get("parameters") or {"type": "object"}, draw)
        odd = draw.random()
        if self.cuts and odd < 0.04:
            return Call(tool["name"], written(arguments, draw)[:-1])  # cut off
        if odd < 0.07:
            return Call(tool["name"], {**arguments, "unknown": 1})
        return Call(tool["name"], arguments)


def before(text: str, stops: list[str]) -> str:
    """*text* up to the first of *stops*."""
    places = [text.find(stop) for stop in stops if stop in text]
    return text[: min(places)] if places else text


def _in_words(heard: Heard) -> dict[str, Any] | None:
    """The schema that the last texts ask for in words."""
    for text in heard.texts[-3:][::-1]:
        if found := IN_WORDS.search(text):
            value, _ = json.JSONDecoder().raw_decode(found[1])
            return dict(value)
        if found := ONE_OF.search(text):
            return {"enum": [line[2:] for line in found[1].strip().split("\n")]}
        for words, schema in SIMPLE.items():
            if words in text:
                return schema
    return None


def _matching(regex: str, draw: random.Random) -> str:
    """A text that *regex* matches: a choice of plain texts."""
    inner = regex.strip("^$")
    while inner.startswith("(") and inner.endswith(")"):
        inner = inner[1:-1].removeprefix("?:")
    return re.sub(r"\\(.)", r"\1", draw.choice(inner.split("|")))


def written(value: Any, draw: random.Random) -> str:
    """*value* as JSON, as models write it."""
    return json.dumps(
        value,
        ensure_ascii=draw.random() < 0.3,
        indent=draw.choice((None, None, 1)),
        separators=draw.choice(((",", ":"), (", ", ": "))),
    )


# -- values of schemas


def instance(schema: Any, draw: random.Random, root: Any = None, depth: int = 5) -> Any:
    """A value of *schema*, with all properties."""
    root = schema if root is None else root
    if not isinstance(schema, dict) or not schema:
        return draw.choice([None, 1, "x"])
    if "$ref" in schema:
        return instance(_target(schema["$ref"], root), draw, root, depth - 1)
    for word in ("anyOf", "oneOf", "allOf"):
        if word in schema:
            ends = [each for each in schema[word] if "$ref" not in each]
            among = ends if depth <= 0 and ends else schema[word]
            return instance(draw.choice(among), draw, root, depth - 1)
    if "enum" in schema or "const" in schema:
        return draw.choice(schema["enum"]) if "enum" in schema else schema["const"]
    kind = schema.get("type", "object")
    kind = draw.choice(kind) if isinstance(kind, list) else kind
    return _KINDS[kind](schema, draw, root, depth)


def _target(reference: str, root: Any) -> Any:
    found = root
    for step in reference.split("/")[1:]:
        found = found[step]
    return found


def _object(schema: Any, draw: random.Random, root: Any, depth: int) -> Any:
    found = {
        name: instance(inner, draw, root, depth - 1)
        for name, inner in schema.get("properties", {}).items()
    }
    more = schema.get("additionalProperties")
    if isinstance(more, dict):
        found[f"k{draw.randrange(9)}"] = instance(more, draw, root, depth - 1)
    return found


def _array(schema: Any, draw: random.Random, root: Any, depth: int) -> Any:
    least = schema.get("minItems", 0)
    count = least if depth <= 0 else draw.randint(least, min(schema.get("maxItems", 9), least + 2))
    return [instance(schema.get("items"), draw, root, depth - 1) for _ in range(count)]


def _string(schema: Any, draw: random.Random, root: Any, depth: int) -> Any:
    return draw.choice(WORDS) + draw.choice(["", " ", "\n", "x"]) + draw.choice(WORDS)


_KINDS = {
    "object": _object,
    "array": _array,
    "string": _string,
    "integer": lambda schema, draw, root, depth: draw.randint(-5, 10**6),
    "number": lambda schema, draw, root, depth: draw.choice([0.5, 2.0, 1e3, -7.25]),
    "boolean": lambda schema, draw, root, depth: draw.random() < 0.5,
    "null": lambda schema, draw, root, depth: None,
}


def pieces(text: str, draw: random.Random) -> Iterator[str]:
    """*text* in pieces, as tokens come; some are cut within a character of several code points."""
    at = 0
    while at < len(text):
        size = draw.randint(1, 12)
        yield text[at : at + size]
        at += size
