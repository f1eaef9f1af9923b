"""Texts that are hard to cut and join: drawn from a seed."""

from __future__ import annotations

import random

_WORDS = [
    "the",
    "rain",
    "in",
    "Spain",
    "stays",
    "mainly",
    "on",
    "a",
    "plain",
    "and",
    "so",
    "does",
    "10",
    "11",
    "1",
    "it's",
    "x",
    "y",
    "ab",
    "abab",
]
_HARD = [
    "naïve", "e\u0301te\u0301", "Ångström", "A\u030angstro\u0308m", "日本語の文章です。", "한국어", "🎉", "👩‍👩‍👧‍👦", "🇩🇪🇫🇷",
    "👍🏽", "مرحبا", "שלום", "न\u093fह\u093fत", "\u00a0", "\u200b", "ﬃ", "𝔘𝔫𝔦", "\\n", "```", "***", "----", "....",
    '"quoted"', "a" * 30, "https://example.org/?q=1&r=2",
]  # fmt: skip
_SPACES = [" ", " ", " ", " ", "  ", "\n", "\n\n", "\t", "\r\n", "\n    ", "   \n"]
_CODE = [
    "def f(x):\n    return x + 1\n", "for i in range(10):\n    print(i)\n", "x = 1\nx = 1\nx = 1\n",
    '{"a": [1, 2, {"b": null}]}', "if (a) {\n\tb();\n}\n", "| a | b |\n|---|---|\n| 1 | 2 |\n",
    "ha ha ha ha ha ha ha ha", "0" * 50,
]  # fmt: skip


def text(seed: int, length: int = 60) -> str:
    """A text of about *length* characters."""
    dice = random.Random(seed)
    found: list[str] = []
    while sum(map(len, found)) < length:
        pool = dice.choices([_WORDS, _HARD, _CODE], [6, 2, 1])[0]
        found += [dice.choice(pool), dice.choice(_SPACES) if dice.random() < 0.9 else ""]
    if dice.random() < 0.5:
        found.pop()
    if dice.random() < 0.3:
        found.insert(0, dice.choice(_SPACES))
    return "".join(found)
