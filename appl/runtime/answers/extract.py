"""Finding the value that an answer in prose gives: JSON, a fenced block of it, a word, a number.

Invariant: whatever the text, the search takes time in proportion to its length, and never raises.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from json import JSONDecodeError, JSONDecoder

_FENCE = re.compile(r"```[\w+-]*[ \t]*\n(.*?)```", re.DOTALL)
_NUMBER = re.compile(r"(?<![\w.,])-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w]|[.,]\d)")
_WORD = re.compile(r"\b(?:true|false|null|none)\b", re.IGNORECASE)
_AROUND = " \t\r\n\"'`*.:;,!"
_BEGUN = re.compile(r'\{\s*["}]|\[\s*(?:[\]\[{"\d-]|true|false|null)')
_OPENED = {"{": "object", "[": "array"}
_YES_OR_NO = {"yes": ["true"], "no": ["false"]}
_decoder = JSONDecoder()


def candidates(text: str, kinds: frozenset[str], options: tuple[str, ...]) -> Iterator[list[str]]:
    """JSON texts that *text* may mean, in groups: the surest group first, in a group the last.

    *kinds* are the JSON types that are wanted, *options* the strings among which one is.
    """
    whole = text.strip()
    yield [whole]
    yield [block.strip() for block in _FENCE.findall(text)]
    if kinds & {"object", "array"}:
        yield list(_containers(text, kinds))
    if "string" in kinds:
        yield [json.dumps(word, ensure_ascii=False) for word in _words(whole, options)]
    if kinds & {"number", "integer"}:
        yield _only(_NUMBER.findall(text))
    if kinds & {"boolean", "null"}:
        yield _YES_OR_NO.get(whole.strip(_AROUND).casefold(), [])
        word_list = _only([word.lower() for word in _WORD.findall(text)])
        yield ["null" if word == "none" else word for word in word_list]


def _containers(text: str, kinds: frozenset[str]) -> Iterator[str]:
    """The objects and arrays in *text*, those within others left out; none after a broken one."""
    at = 0
    while (begun := _BEGUN.search(text, at)) is not None:
        try:
            _, at = _decoder.raw_decode(text, begun.start())
        except (ValueError, RecursionError):
            return
        if _OPENED[begun[0][0]] in kinds:
            yield text[begun.start() : at]


def _words(text: str, options: tuple[str, ...]) -> list[str]:
    """The string that *text* is, or the one of *options* that it names."""
    if not options:
        return [text]
    for same in (
        str,
        lambda word: word.strip(_AROUND),
        lambda word: word.strip(_AROUND).casefold(),
    ):
        named = [option for option in options if same(option) == same(text)]
        if len(named) == 1:
            return named
    return _only([option for option in options if _names(text, option)])


def _names(text: str, option: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(option)}(?!\w)", text, re.IGNORECASE) is not None


def _only(words: list[str]) -> list[str]:
    """The value that was found, any number of times; nothing when several were."""
    return words[:1] if len(set(words)) == 1 else []


def problem(text: str, kinds: frozenset[str]) -> str:
    """The reason for which nothing was found in *text*, in words."""
    if not kinds & {"object", "array"}:
        return "it does not say one value of the form that was asked for, or says several"
    begun = next(
        (opening for opening in _BEGUN.finditer(text) if kinds & {_OPENED[opening[0][0]]}), None
    )
    if begun is None:
        return "it holds no JSON"
    try:
        _decoder.raw_decode(text, begun.start())
    except JSONDecodeError as error:
        return f"the JSON in it cannot be read ({error.msg} at character {error.pos})"
    except RecursionError:
        return "the JSON in it is nested too deeply"
    except ValueError:  # Python's limit on the digits of an integer
        return "the JSON in it holds a number with thousands of digits"
    return "the JSON in it is not of the form that was asked for"


def kinds_of(schema: object, root: object = None, depth: int = 20) -> frozenset[str]:
    """The JSON types that a value of *schema* may have; all of them when it does not say."""
    root = schema if root is None else root
    if not isinstance(schema, dict) or depth <= 0:
        return ALL
    if "$ref" in schema:
        return kinds_of(_target(root, schema["$ref"]), root, depth - 1)
    if "enum" in schema or "const" in schema:
        values = schema["enum"] if "enum" in schema else [schema["const"]]
        return frozenset(map(_kind, values))
    if "type" in schema:
        type_names = schema["type"]
        return frozenset([type_names] if isinstance(type_names, str) else type_names)
    for name in ("anyOf", "oneOf"):
        if name in schema:
            kinds = [kinds_of(part, root, depth - 1) for part in schema[name]]
            return frozenset[str]().union(*kinds)
    return ALL


ALL = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})


def options_of(schema: object, root: object = None, depth: int = 20) -> tuple[str, ...]:
    """The strings that *schema* lists, if it allows no others; else none."""
    root = schema if root is None else root
    if not isinstance(schema, dict) or depth <= 0:
        return ()
    if "$ref" in schema:
        return options_of(_target(root, schema["$ref"]), root, depth - 1)
    listings = [options_of(part, root, depth - 1) for part in schema.get("anyOf", ())]
    if listings:
        texts = ["string" in kinds_of(part, root) for part in schema["anyOf"]]
        free = any(text and not listed for text, listed in zip(texts, listings, strict=True))
        return () if free else tuple(option for listed in listings for option in listed)
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    return tuple(value for value in values if isinstance(value, str))


def _kind(value: object) -> str:
    if value is None:
        return "null"
    kinds = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array"}
    return kinds.get(type(value), "object")


def _target(root: object, reference: str) -> object:
    target = root
    for step in reference.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        target = target.get(name) if isinstance(target, dict) else None
    return target
