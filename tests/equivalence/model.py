"""A model as a function of its question: what it says, refuses, cuts short and calls.

Invariant: the same question always gets the same answer, whoever asks it, and in whatever order.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from appl.errors import BackendError

from .layout import Messages, ToolCall

WORDS = [
    "amber",
    "basil",
    "cedar",
    "delta",
    "ember",
    "fjord",
    "gamma",
    "heron",
    "indigo",
    "jade",
    "koi",
    "lotus",
]


class Reply(NamedTuple):
    """One answer of the model."""

    text: str
    finish: str = "stop"
    calls: tuple[ToolCall, ...] = ()
    thoughts: str | None = None


WRONG = "I cannot say."
AGAIN = "That answer cannot be used"
CUT = re.compile(r"-----\n(.*)\n-----\Z", re.DOTALL)
NUMBERS = re.compile(r"Answer with its number only\.\n((?:\d+\. .*\n?)+)")
REFUSAL = "I am"
"""What a refused answer streams before it ends with the error."""

SHAPES: dict[str, tuple[str, Callable[[bytes], Any]]] = {
    "int": ("Answer with one whole number, and with nothing else.", lambda d: d[8] % 9),
    "bool": ("Answer with true or false, and with nothing else.", lambda d: d[8] % 2 == 0),
    "word": (
        "Answer with one of these, and with nothing else:\n- red\n- green",
        lambda d: ("red", "green")[d[8] % 2],
    ),
    "list": (
        "Answer with JSON that fits this JSON schema, and with nothing else:\n"
        '{"items": {"type": "integer"}, "type": "array"}',
        lambda d: [each % 9 for each in d[8 : 10 + d[9] % 2]],
    ),
    "float": ("Answer with one number, and with nothing else.", lambda d: d[8] % 9 + 0.5),
    "Heat": (
        "Answer with one of these, and with nothing else:\n- hot\n- cold",
        lambda d: ("hot", "cold")[d[8] % 2],
    ),
    "words": (
        "Answer with JSON that fits this JSON schema, and with nothing else:\n"
        '{"items": {"type": "string"}, "type": "array"}',
        lambda d: [WORDS[each % 12] for each in d[8 : 9 + d[9] % 3]],
    ),
    "Point": (
        "Answer with JSON that fits this JSON schema, and with nothing else:\n"
        '{"properties": {"x": {"type": "integer"}, "y": {"type": "integer"}}, '
        '"required": ["x", "y"], "type": "object"}',
        lambda d: {"x": d[8] % 9, "y": d[9] % 9},
    ),
}
"""The types that answers are asked for: how in words, and a value of each."""

SCHEMAS = {
    "int": '{"type":"integer"}',
    "bool": '{"type":"boolean"}',
    "word": '{"enum":["red","green"],"type":"string"}',
    "list": '{"items":{"type":"integer"},"type":"array"}',
    "float": '{"type":"number"}',
    "Heat": '{"enum":["hot","cold"],"type":"string"}',
    "words": '{"items":{"type":"string"},"type":"array"}',
    "Point": '{"properties":{"x":{"type":"integer"},"y":{"type":"integer"}},'
    '"required":["x","y"],"type":"object","additionalProperties":false}',
}
"""How the same types are asked for where decoding can be constrained."""


def reply(messages: Messages, sampling: Mapping[str, Any], sample: int = 0) -> Reply:
    """The answer to a question; questions that say "risky" last are refused now and then."""
    asked = repr((messages, sorted(sampling.items()), sample)).encode()
    digest = hashlib.blake2b(asked).digest()
    last = messages[-1].content if messages else ""
    if "risky" in last.rpartition("\n")[2] and digest[0] % 5 < 2:
        raise BackendError(f"refused {digest.hex()[:6]}")
    word = f"{WORDS[digest[1] % 12]}{digest[2] % 10}"
    if "choices" in sampling:
        return Reply(sampling["choices"][digest[3] % len(sampling["choices"])])
    if options := NUMBERS.findall("\n".join(message.content for message in messages)):
        return _chosen(len(options[-1].splitlines()), last, digest)
    if "tools" in sampling and sampling.get("tool_choice") != "none":
        calls = tuple(_calls(messages, sampling, digest))
        if calls:
            return Reply(word, "tool_calls", calls)
    shape = _shape(messages, sampling)
    if shape is not None:
        if shape == "list" and "max_tokens" in sampling and (digest[7] % 3 or CUT.search(last)):
            return _cut_list(last, digest)
        return _of_shape(shape, messages, "schema" in sampling, digest)
    thoughts = f"because {WORDS[digest[10] % 12]}" if digest[10] % 4 == 0 else None
    begun = CUT.search(last)
    joint = ("", " ", "-")[digest[4] % 3]
    text = (begun[1] + joint if begun else "") + word
    if "max_tokens" in sampling and digest[5] % 3:
        return Reply(text + " " * (digest[6] % 4 == 0), "length", thoughts=thoughts)
    return Reply(text, thoughts=thoughts)


def _chosen(count: int, last: str, digest: bytes) -> Reply:
    again = last.startswith("That is not one of the numbers")
    return Reply(WRONG if digest[7] % 3 == 0 and not again else f"{digest[3] % count + 1}.")


def _shape(messages: Messages, sampling: Mapping[str, Any]) -> str | None:
    if "schema" in sampling:
        return next(name for name, schema in SCHEMAS.items() if schema == sampling["schema"])
    said = [message.content for message in messages if message.role == "user"]
    return next((name for name, (how, _) in SHAPES.items() if any(how in s for s in said)), None)


def _cut_list(last: str, digest: bytes) -> Reply:
    """Half a list, and the other half when that was cut."""
    begun = CUT.search(last)
    if begun is None:
        return Reply(f"[{digest[8] % 9},", "length")
    return Reply(f"{begun[1]} {digest[8] % 9}]")


def _of_shape(shape: str, messages: Messages, exactly: bool, digest: bytes) -> Reply:
    asked = sum(message.content.startswith(AGAIN) for message in messages)
    if digest[7] % 3 == 0 and asked < 2:
        return Reply(WRONG)
    value = SHAPES[shape][1](digest)
    text = value if shape in ("word", "Heat") and not exactly else json.dumps(value)
    return Reply(f"It is {text}." if digest[6] % 2 and not exactly else text)


def _calls(messages: Messages, sampling: Mapping[str, Any], digest: bytes) -> Iterator[ToolCall]:
    """Calls of the tools that are offered; some are wrong, and they become fewer."""
    names, choice = sampling["tools"], sampling.get("tool_choice")
    answered = sum(message.role == "tool" for message in messages)
    count = digest[11] % 3 if answered < 2 else digest[11] % 4 // 3
    if choice is not None:
        count = max(count, 1)
    for number in range(count):
        byte = digest[12 + number]
        name = choice if choice in names else names[byte % len(names)]
        if byte % 13 == 0 and choice is None:
            name = "zzzzz"
        given: dict[str, Any] = {"q": WORDS[byte % 12]} if byte % 7 else {}
        if byte % 3 == 0:
            given["k"] = byte % 4
        if byte % 11 == 0:
            given["zzzzz"] = 1
        yield ToolCall(f"call{number}", name, json.dumps(given))


def pieces(text: str) -> list[str]:
    """How a text is streamed."""
    return [text[at : at + 3] for at in range(0, len(text), 3)]
