"""Arguments as a bad or hostile model may write them, from a seed: for the test that reads them.

A text is a valid instance of a tool's schema, mutated or not, or something that never was one:
random JSON, cut and garbled texts, numbers beyond measure, deep nesting, names that were not
offered. Which of these a tool takes is the affair of the test's oracle, not of this module.
"""

from __future__ import annotations

import json
import random
import sys
from typing import Any

HUGE = [
    2**31, -(2**63), 2**64, 10**400, -(10**4000), 1e308, -1e308, 5e-324, 0.1 + 0.2, 1.0, -0.0,
]  # fmt: skip
RAW = [
    "NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1E400", "0x10", "01", "1.", ".5", "+1",
    "True", "None", "undefined", "'a'", "1_000", "9" * 5000, "1" + "0" * 400, "1e5", "2.0", "-0",
]  # fmt: skip
TEXTS = [
    "", " ", "a", "null", "true", "1", "é", "\U0001f642", "\u0000", "\u202e", "﻿", "A" * 5000,
    "'; DROP TABLE x; --", "${jndi:ldap://x}", "\\", '"', "\n", "2026-01-01", "red", "x" * 64,
    "\ud800", "__class__", "../../etc/passwd",
]  # fmt: skip
EXTRA = [
    "api_key", "unit", "self", "cls", "args", "kwargs", "_ctx", "__proto__", "constructor", "$ref",
    "", "A", "Query", "query ", "extra", "predefined", "func", "ctx_method",
]  # fmt: skip


class Writer:
    """Writes arguments for tools with the given schemas."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)

    def text(self, schema: dict[str, Any]) -> str:
        """The arguments of one call."""
        roll = self.dice.random()
        if roll < 0.08:
            return self.anything()
        if roll < 0.16:
            return self.garbled(self.written(self.instance(schema, schema)))
        value = self.instance(schema, schema)
        for _ in range(self.dice.choice([0, 0, 1, 1, 1, 2, 3])):
            value = self.mutated(value)
        return self.written(value)

    # -- instances of a schema

    def instance(self, schema: Any, root: dict[str, Any], depth: int = 0) -> Any:
        """A value that *schema* allows, as far as this simple writer knows its keywords."""
        dice = self.dice
        if not isinstance(schema, dict) or not schema:
            return self.value(depth)
        if "$ref" in schema:
            return self.instance(root["$defs"][schema["$ref"].rpartition("/")[2]], root, depth + 1)
        for key in ("anyOf", "oneOf"):
            if key in schema:
                return self.instance(dice.choice(schema[key]), root, depth)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return dice.choice(schema["enum"])
        made = getattr(self, f"_{schema.get('type', 'any')}", None)
        return made(schema, root, depth) if made else self.value(depth)

    def _object(self, schema: dict[str, Any], root: dict[str, Any], depth: int) -> Any:
        required, found = schema.get("required", []), {}
        for name, inner in schema.get("properties", {}).items():
            if name in required or (depth < 4 and self.dice.random() < 0.5):
                found[name] = self.instance(inner, root, depth + 1)
        more = schema.get("additionalProperties")
        if isinstance(more, dict):
            for _ in range(self.dice.randrange(3)):
                found[self.dice.choice(TEXTS)] = self.instance(more, root, depth + 1)
        return found

    def _array(self, schema: dict[str, Any], root: dict[str, Any], depth: int) -> Any:
        first = [self.instance(each, root, depth + 1) for each in schema.get("prefixItems", [])]
        low = schema.get("minItems", 0) - len(first)
        rest = max(low, self.dice.randrange(3) if "items" in schema and depth < 5 else 0)
        return first + [self.instance(schema.get("items"), root, depth + 1) for _ in range(rest)]

    def _string(self, schema: dict[str, Any], root: dict[str, Any], depth: int) -> Any:
        named = {
            "date": "2026-02-03",
            "date-time": "2026-02-03T04:05:06Z",
            "uuid": str(self.uuid()),
        }
        if schema.get("format") in named and self.dice.random() < 0.9:
            return named[schema["format"]]
        if "pattern" in schema:
            return self.dice.choice(["ab-12", "xy-99", "zz-00"])
        return self.dice.choice(TEXTS[:-4])

    def uuid(self) -> Any:
        """A UUID from the seed."""
        return __import__("uuid").UUID(int=self.dice.getrandbits(128))

    def _integer(self, schema: dict[str, Any], root: dict[str, Any], depth: int) -> Any:
        low, high = schema.get("minimum", -5), schema.get("maximum", 100)
        return self.dice.randint(int(low), int(high))

    def _number(self, schema: dict[str, Any], root: dict[str, Any], depth: int) -> Any:
        return self.dice.choice([0, 1, -3, 0.5, 2.75, 1e3, 1e-9])

    def _boolean(self, schema: dict[str, Any], root: dict[str, Any], depth: int) -> Any:
        return self.dice.random() < 0.5

    def _null(self, schema: dict[str, Any], root: dict[str, Any], depth: int) -> Any:
        return None

    # -- everything else

    def value(self, depth: int = 0) -> Any:
        """Some JSON value."""
        dice = self.dice
        kind = dice.randrange(9 if depth < 3 else 6)
        if kind == 0:
            return None
        if kind == 1:
            return dice.random() < 0.5
        if kind == 2:
            return dice.randrange(-10, 10)
        if kind == 3:
            return dice.choice(HUGE)
        if kind in (4, 5):
            return dice.choice(TEXTS)
        if kind == 6:
            return [self.value(depth + 1) for _ in range(dice.randrange(3))]
        return {dice.choice(TEXTS + EXTRA): self.value(depth + 1) for _ in range(dice.randrange(3))}

    def mutated(self, value: Any) -> Any:
        """*value* with something in it changed: another type, one more name, one fewer."""
        dice = self.dice
        if isinstance(value, dict) and value and dice.random() < 0.8:
            key = dice.choice(list(value))
            roll = dice.random()
            if roll < 0.15:
                return {k: v for k, v in value.items() if k != key}
            if roll < 0.3:
                return {**value, dice.choice(EXTRA): self.value(1)}
            if roll < 0.4:
                return {(k.upper() if k == key else k): v for k, v in value.items()}
            return {**value, key: self.mutated(value[key])}
        if isinstance(value, list) and value and dice.random() < 0.7:
            at = dice.randrange(len(value))
            return [*value[:at], self.mutated(value[at]), *value[at + dice.randrange(2) :]]
        if isinstance(value, dict):
            return {**value, dice.choice(EXTRA): self.value(1)}
        return self.confused(value)

    def confused(self, value: Any) -> Any:
        """*value* as another type that looks like it, or anything else."""
        dice = self.dice
        looks = [self.spelled(value), [value], {"value": value}, None, not value, dice.choice(HUGE)]
        if isinstance(value, int | float) and not isinstance(value, bool):
            looks += [bool(value), 0.5, float(value % 1000), -value]
        if isinstance(value, str):
            looks += [value + " ", value.upper(), list(value[:3]), len(value)]
        return self.value(1) if dice.random() < 0.2 else dice.choice(looks)

    def spelled(self, value: Any) -> str:
        """*value* as a text that shows it."""
        return "9" * 400 if isinstance(value, int) and abs(value) > 10**300 else str(value)

    def written(self, value: Any) -> str:
        """*value* as JSON text, in one of its spellings; at times with a number that is none."""
        dice = self.dice
        before = sys.get_int_max_str_digits()
        sys.set_int_max_str_digits(0)
        try:
            text = json.dumps(
                value, ensure_ascii=dice.random() < 0.5, indent=dice.choice([None, 1])
            )
        finally:
            sys.set_int_max_str_digits(before)
        roll = dice.random()
        if roll < 0.05 and text.endswith("}") and len(text) > 2:
            return self.doubled(text, value)
        if roll < 0.12:
            return self.raw(text)
        return (
            dice.choice(["", "", "", " ", "\n", "\t"]) + text + dice.choice(["", "", " ", "\r\n"])
        )

    def doubled(self, text: str, value: Any) -> str:
        """*text* with one of its names twice."""
        key = self.dice.choice(list(value)) if isinstance(value, dict) and value else "a"
        return f"{text[:-1]}, {json.dumps(key)}: {json.dumps(self.dice.choice(TEXTS))}}}"

    def raw(self, text: str) -> str:
        """*text* with a number or word in it that JSON may not know."""
        places = [at for at, char in enumerate(text) if char in ":[" and text.isprintable()]
        if not places:
            return self.dice.choice(RAW)
        at = self.dice.choice(places) + 1
        end = next((i for i in range(at, len(text)) if text[i] in ",]}"), len(text))
        return text[:at] + self.dice.choice(RAW) + text[end:]

    def garbled(self, text: str) -> str:
        """*text* cut, doubled, or with a character changed."""
        dice = self.dice
        at = dice.randrange(len(text) + 1)
        return dice.choice([
            text[:at], text[at:], text + text, text[:at] + dice.choice(TEXTS) + text[at:],
            f"```json\n{text}\n```", f"[{text}]", json.dumps(text), f"{text} // done",
            text.replace('"', "'"), "\ufeff" + text, text.replace(":", "="), text + "\x00",
        ])  # fmt: skip

    def anything(self) -> str:
        """Something that never was an instance of a schema."""
        dice = self.dice
        deep = dice.choice([50, 500, 5000, 100000])
        return dice.choice([
            "", " ", "null", "[]", "{}", "true", "5", '"x"', "{", "}", "nonsense", "[" * deep,
            "[" * deep + "]" * deep, '{"a":' * deep + "1" + "}" * deep, self.written(self.value()),
            "".join(chr(dice.randrange(0x20, 0x3000)) for _ in range(dice.randrange(30))),
            json.dumps({dice.choice(EXTRA): self.value()}), dice.choice(RAW), '{"a": "\ud800"}',
        ])  # fmt: skip
