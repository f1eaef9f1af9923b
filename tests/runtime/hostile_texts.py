"""Answers as no model should write them, from a seed: numbers, dates, nesting, halves of characters.

A text is one of a list of what parsers choke on, put where a value may stand; or what a model may
write for a schema, mutated and garbled. Nothing here says what a text is worth.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from tests.tools.fuzz import Writer

ONES = "1" * 5000
VALUES = [
    ONES, f"-{ONES}", "2" * 4300, "2" * 4301, "1" + "0" * 400, "1" + "0" * 400 + ".5", "1e999", "-1e999",
    "1e400000", "1E+400", "1e308", f"0.{ONES}", "1_000", "0x10", "١٢٣", "NaN", "Infinity", "-Infinity",
    "null", "true", f'"{ONES}"', f'"{ONES}e5"', f'"P{ONES}D"', '"1e999999999999"', '"NaN"', '"sNaN"',
    '"Infinity"', '"-1e-999999999"', '"2001-13-45"', '"9999-99-99T99:99:99"', '"0001-01-01T00:00:00+23:59"',
    '"24:00:60"', '"' + "9" * 400 + '"', '"\\ud800"', '"\ud800"', '"\\u0000"', '"\\x"', '"http://["',
    "[" * 3000, "{" * 5000, '{"a":' * 3000, "[" * 90 + "]" * 90, "[" * 100_000, '{"b":1,"b":2}',
    '{"\\ud800": 1}', '{"$ref": "#"}', "[[],[[]],{}]", "[1,1.0,true]",
]  # fmt: skip
FRAMES = [
    "{}", '{{"b": {}}}', '{{"value": {}}}', "[{}]", '{{"b": {}', 'So {{"b": {}}} it is. And 12.',
    'Here:\n```json\n{{"b": {}}}\n```\n', '```\n{}\n```', '{{"b": [{{"b": {}}}]}}', "{} or {}", '"{}',
    '{{"value": {{"b": {}}}}}', '{{"b": 1, "other": {}}}', "The answer is {}.",
]  # fmt: skip


def nested(dice: random.Random, levels: int) -> str:
    """An object in an object, in which each level can be read in more ways than one."""
    value: Any = {"op": dice.choice(["add", "mul", "none"])}
    for _ in range(levels):
        value = {"op": dice.choice(["add", "mul"]), "left": value, "b": dice.choice([1, "x"])}
    return json.dumps(value)


class HostileTexts:
    """Answers from a seed."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self._writer = Writer(seed)

    def text(self, schema: dict[str, Any] | None) -> str:
        """An answer to somebody who wants a value of *schema*."""
        how = self.dice.random()
        if how < 0.45:
            frame, value = self.dice.choice(FRAMES), self.dice.choice(VALUES)
            return (
                frame.format(value, self.dice.choice(VALUES))
                if "{} or" in frame
                else frame.format(value)
            )
        if how < 0.5:
            return nested(self.dice, self.dice.choice([3, 8, 40, 200]))
        written = self._writer.text(schema or {})
        if how < 0.7:
            return written
        if how < 0.85:
            at = self.dice.randrange(len(written) + 1)
            return written[:at] + self.dice.choice(VALUES)[:6000] + written[at:]
        return self.dice.choice(FRAMES).replace("{}", written).replace("{{", "{").replace("}}", "}")

    def pieces(self, text: str) -> Iterator[str]:
        """*text* cut into a few pieces, or its beginning into many."""
        at = 0
        while at < len(text):
            size = self.dice.choice([1, 3, max(1, len(text) // 4)])
            size = size if at < 30 else max(size, len(text) // 6)
            yield text[at : at + size]
            at += size
