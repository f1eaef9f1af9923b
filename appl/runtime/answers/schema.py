"""JSON Schema: validation of values, with errors in words that a model understands.

Invariant: a schema that cannot be checked as it is written is refused when its checker is made, and
nothing is ever fetched. A ``pattern`` is matched in time linear in the text, whoever wrote it, and
no value takes a time that grows exponentially with its depth.
"""

from __future__ import annotations

import copy
import functools
import itertools
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from appl.errors import InvalidOption

_MOST = 5
_SHOWN = 200
_ROUNDS = 100  # of mistakes in a stranger's schema, and mistakes in each
_DATA = ("const", "enum", "default", "examples")


class Checker:
    """Checks values of plain JSON data against one schema of draft 2020-12.

    Raises ``InvalidOption`` for what is not a schema, refers to something outside of it, or has a
    pattern that cannot be matched in linear time: one that looks ahead or refers back. ``format``
    is a remark, as the draft has it.
    """

    def __init__(self, schema: Mapping[str, Any] | bool) -> None:
        import jsonschema  # 60 ms that `import appl` must not cost
        import referencing  # only typed answers and tools need it

        kind = jsonschema.Draft202012Validator
        try:
            kind.check_schema(schema, format_checker=jsonschema.FormatChecker(()))
        except jsonschema.SchemaError as error:
            raise InvalidOption(f"this is no JSON schema: {_problem(error)}") from None
        for reference in _references(schema):
            if not _is_known(reference, schema):
                raise InvalidOption(
                    f"the JSON schema refers to {reference!r:.200}, which is not in it: "
                    "it may refer to its own parts only, as in {'$ref': '#/$defs/name'}"
                )
        _check_patterns(schema)
        self._validator = _bounded()(schema, registry=referencing.Registry())

    def errors(self, value: object) -> str | None:
        """The problems of *value*, in one line; ``None`` when it fits."""
        _references_of.found = {}
        try:
            problems = list(itertools.islice(self._validator.iter_errors(value), _MOST))
        except RecursionError:
            return "it is nested too deeply"
        except (ArithmeticError, ValueError):  # `multipleOf`, of a number such as 1e999
            return "a number in it is too large"
        except BaseException as error:
            if type(error).__name__ != "PanicException":  # of Rust, at Python's recursion limit
                raise
            return "it is nested too deeply"
        finally:
            _references_of.found = {}
        return "; ".join(map(_problem, problems)) or None


def checkable(schema: Any) -> tuple[dict[str, Any], list[str]]:
    """The part of a stranger's *schema* that a ``Checker`` takes, and what is left out, in words.

    That are references to what is not in it, patterns that have no linear time, and keywords with
    wrong values. A schema of more than ``LARGEST`` characters allows everything.
    """
    if len(json.dumps(schema)) > LARGEST:
        return {}, [f"a schema of more than {LARGEST >> 10} KiB"]
    omissions: list[str] = []
    reduced = _without_patterns(_without_mistakes(schema, omissions), omissions)
    reduced = _without_references(reduced, reduced, omissions)
    if not isinstance(reduced, dict):
        return {}, ["any part of its schema"]
    try:
        Checker(reduced)
    except (InvalidOption, RecursionError):
        return {}, ["any part of its schema"]
    return reduced, list(dict.fromkeys(omissions))


LARGEST = 256 << 10
"""The most characters of a stranger's schema that is checked: a second's work."""


def _without_mistakes(schema: Any, omissions: list[str]) -> Any:
    """*schema* without keywords whose values are no schema, a few hundred at most."""
    import jsonschema  # only typed answers and tools need it

    kind = jsonschema.Draft202012Validator
    rules = kind(kind.META_SCHEMA)
    reduced = copy.deepcopy(schema)
    for _ in range(_ROUNDS):
        wrong = [
            list(e.absolute_path) for e in itertools.islice(rules.iter_errors(reduced), _ROUNDS)
        ]
        if not all(wrong):
            return {}
        for path in wrong:
            if _removed(reduced, path):
                omissions.append(f"{path[-1]!r:.40}, which is no part of a schema here")
        if not wrong:
            break
    return reduced


def _removed(schema: Any, path: list[Any]) -> bool:
    """Take what *path* leads to out of *schema*; false if it is gone with something around it."""
    try:
        for step in path[:-1]:
            schema = schema[step]
        del schema[path[-1]]
    except (LookupError, TypeError):
        return False
    return True


def _without_patterns(schema: Any, omissions: list[str]) -> Any:
    """*schema* without patterns that have no linear time, and what would go wrong without them."""
    if isinstance(schema, list):
        return [_without_patterns(item, omissions) for item in schema]
    if not isinstance(schema, dict):
        return schema
    reduced = {k: v if k in _DATA else _without_patterns(v, omissions) for k, v in schema.items()}
    if isinstance(reduced.get("pattern"), str) and not _is_linear(reduced["pattern"]):
        omissions.append(f"the pattern {reduced.pop('pattern')!r:.80}")
    by = reduced.get("patternProperties")
    if isinstance(by, dict):
        hard = [pattern for pattern in by if not _is_linear(pattern)]
        omissions += [f"the pattern {pattern!r:.80}" for pattern in hard]
        reduced["patternProperties"] = {p: v for p, v in by.items() if p not in hard}
        if hard:  # a name that it allows would be one too many
            reduced.pop("additionalProperties", None)
        if reduced.pop("unevaluatedProperties", None) is not None:
            omissions.append("unevaluatedProperties")
    return reduced


def _is_linear(pattern: str) -> bool:
    try:
        _compiled(pattern)
    except InvalidOption:
        return False
    return True


def _without_references(schema: Any, root: Any, omissions: list[str]) -> Any:
    """*schema* without references to what is not in *root*."""
    if isinstance(schema, list):
        return [_without_references(item, root, omissions) for item in schema]
    if not isinstance(schema, dict):
        return schema
    reduced = dict(schema)
    for name in _REFERENCES:
        if isinstance(reduced.get(name), str) and not _is_known(reduced[name], root):
            omissions.append(f"the reference {reduced.pop(name)!r:.80}")
    return {
        k: v if k in _DATA else _without_references(v, root, omissions) for k, v in reduced.items()
    }


def _is_known(reference: str, root: Any) -> bool:
    """True if *reference* leads to a schema in *root*; nothing is fetched."""
    import referencing.jsonschema  # only typed answers and tools need it

    try:
        resource = referencing.jsonschema.DRAFT202012.create_resource(root)
        target = referencing.Registry().resolver_with_root(resource).lookup(reference).contents
    except Exception:  # of a pointer into what is no schema, or an address that is none
        return False
    return isinstance(target, dict | bool)


def _problem(error: Any) -> str:
    place = error.json_path.removeprefix("$").removeprefix(".")
    what = error.message if len(error.message) <= _SHOWN else error.message[: _SHOWN - 1] + "…"
    return f"{place}: {what}" if place else what


def _references(schema: object) -> Iterator[str]:
    for part in _parts(schema):
        references = (part.get(name) for name in ("$ref", "$dynamicRef"))
        yield from (reference for reference in references if isinstance(reference, str))


# -- patterns, by an engine whose time is linear in the text


@functools.lru_cache(512)
def _compiled(pattern: str) -> Any:
    """A validator for *pattern*. Raises ``InvalidOption``."""
    import pydantic_core as core  # its engine is Rust's, which never backtracks

    try:
        return core.SchemaValidator(core.core_schema.str_schema(pattern=pattern))
    except core.SchemaError as error:
        raise InvalidOption(
            f"the pattern {pattern!r:.200} of a JSON schema cannot be checked: "
            f"{str(error).strip().splitlines()[-1].strip().removeprefix('error: ')}"
        ) from None


def _is_in(pattern: str, text: str) -> bool:
    """True if *pattern* matches somewhere in *text*."""
    return bool(_compiled(pattern).isinstance_python(text))


def _check_patterns(schema: object) -> None:
    keywords: set[str] = set()
    for part in _parts(schema):
        keywords.update(part)
        if isinstance(part.get("pattern"), str):
            _compiled(part["pattern"])
        if isinstance(part.get("patternProperties"), Mapping):
            for pattern in part["patternProperties"]:
                _compiled(pattern)
    if {"patternProperties", "unevaluatedProperties"} <= keywords:
        raise InvalidOption(
            "a JSON schema with patternProperties and unevaluatedProperties cannot be checked: "
            "write additionalProperties"
        )


def _parts(schema: object) -> Iterator[Mapping[str, Any]]:
    """Every map in *schema* that is no plain data."""
    if isinstance(schema, Mapping):
        yield schema
        for name, inner in schema.items():
            if name not in _DATA:
                yield from _parts(inner)
    elif isinstance(schema, list | tuple):
        for inner in schema:
            yield from _parts(inner)


# -- keywords whose time is bounded


class _Found(threading.local):
    """The errors that a thread's present check has found, by reference and value."""

    def __init__(self) -> None:
        self.found: dict[tuple[int, str, int], list[Any]] = {}


_references_of = _Found()


@functools.lru_cache(1)
def _bounded() -> Any:
    """The validator of draft 2020-12 with the keywords of this module."""
    import jsonschema  # only typed answers and tools need it

    kind, wrong = jsonschema.Draft202012Validator, jsonschema.ValidationError
    additional = kind.VALIDATORS["additionalProperties"]

    def unique_items(validator: object, on: object, value: Any, schema: object) -> Iterator[object]:
        if on and isinstance(value, list) and len({_same(item) for item in value}) < len(value):
            yield wrong(f"{value!r} has non-unique elements")

    def pattern(validator: object, wanted: str, value: object, schema: object) -> Iterator[object]:
        if isinstance(value, str) and not _is_in(wanted, value):
            yield wrong(f"{value!r} does not match {wanted!r}")

    def pattern_properties(validator: Any, by: Any, value: Any, schema: Any) -> Iterator[object]:
        for wanted, inner in by.items() if isinstance(value, dict) else ():
            for name in (key for key in value if _is_in(wanted, key)):
                yield from validator.descend(value[name], inner, path=name, schema_path=wanted)

    def additional_properties(
        validator: object, rule: object, value: object, schema: Any
    ) -> Iterator[object]:
        if not isinstance(value, dict):
            return
        by = schema.get("patternProperties", {})
        matched = [name for name in value if any(_is_in(wanted, name) for wanted in by)]
        properties = {**schema.get("properties", {}), **dict.fromkeys(matched, True)}
        yield from additional(validator, rule, value, {"properties": properties})

    # Their time is linear: patterns are matched by this module's engine, and elements are hashed.
    keywords: dict[str, Any] = {
        "uniqueItems": unique_items,
        "pattern": pattern,
        "patternProperties": pattern_properties,
        "additionalProperties": additional_properties,
    }
    for name in _REFERENCES:
        keywords[name] = _once(kind.VALIDATORS[name], name, wrong)
    return jsonschema.validators.extend(kind, keywords)


_REFERENCES = ("$ref", "$dynamicRef")


def _once(keyword: Callable[..., Iterator[Any]], name: str, wrong: Any) -> Any:
    """*keyword*, a reference, followed only once for each value.

    Otherwise a schema whose alternatives refer to itself takes twice the time for each level of the
    value. The errors are copied, because those who pass them on write their path into them.
    """

    def reference(validator: object, to: str, value: object, schema: object) -> Iterator[Any]:
        key = id(schema), name, id(value)
        errors = _references_of.found.get(key)
        if errors is None:
            every = itertools.islice(keyword(validator, to, value, schema), _MOST)
            errors = _references_of.found[key] = [wrong.create_from(error) for error in every]
        yield from map(wrong.create_from, errors)

    return reference


def _same(value: object) -> object:
    """A key that two values share exactly if they are equal as JSON."""
    if isinstance(value, bool):
        return bool, value  # True is no 1
    if isinstance(value, list):
        return list, *map(_same, value)
    if isinstance(value, dict):
        return dict, frozenset((name, _same(item)) for name, item in value.items())
    return value
