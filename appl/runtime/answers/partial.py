"""Partial objects: the value of a typed answer as far as it has come.

Invariant: what is complete is validated as the whole will be; only the last item of each level may
be missing or unfinished. A field that has not come has its default, or ``None``.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Callable, Mapping
from functools import lru_cache
from json import JSONDecoder
from typing import Any, Final

from appl.backend.check import LEVELS, is_deep
from appl.runtime.answers.shape import ByType, Shape

_decoder = JSONDecoder()
_MISSING: Final = object()


def partial_reader(shape: Shape, wrapped: bool = False) -> Callable[[str], object]:
    """The function that reads the beginning of an answer of *shape*; ``None`` is nothing yet.

    *wrapped* says that the value stands in an object, as its property ``value``.
    """

    def read(text: str) -> Any:
        if shape.schema is None:
            return text or None
        value, whole = _json(text, shape, wrapped)
        may_be_deep = text.count("[") + text.count("{") > LEVELS
        if may_be_deep and isinstance(value, dict | list) and is_deep(value):
            return None  # it will be read, or refused, when it is whole
        if wrapped:
            value = value.get("value", _MISSING) if isinstance(value, dict) else _MISSING
        if not whole and value in ({}, []):
            return None
        if value is not _MISSING and isinstance(shape, ByType):
            value = _build(shape.kind, value, whole)
        return None if value is _MISSING else value

    return read


def _json(text: str, shape: Shape, wrapped: bool) -> tuple[Any, bool]:
    """The JSON in *text* as far as it goes, and whether it is complete."""
    kinds = frozenset({"object"}) if wrapped else shape.kinds
    opening = "{" * ("object" in kinds) + "[" * ("array" in kinds)
    start = min((at for at in map(text.find, opening) if at >= 0), default=-1)
    if start < 0:
        # a string as far as it goes; a number or a word may still change, and is nothing yet
        if "string" not in kinds or not (stripped := text.strip()):
            return _MISSING, False
        return (_begun(stripped) if stripped[0] == '"' else stripped) or _MISSING, False
    try:
        return _decoder.raw_decode(text, start)[0], True
    except (ValueError, RecursionError):  # cut, or a number of thousands of digits
        pass
    return _begun(text[start:]), False


def _begun(text: str) -> object:
    import pydantic_core as core  # only typed answers and tools need it

    try:
        value = core.from_json(text.encode("utf-8", "replace"), allow_partial="trailing-strings")
    except ValueError:
        return _MISSING
    return _without_last_number(value) if text[-1].isdigit() else value


def _without_last_number(value: object) -> object:
    """*value* without a number at its very end, which may go on."""
    if isinstance(value, dict) and value:
        last = next(reversed(value))
        return _with_last(dict(value), last, _without_last_number(value[last]))
    if isinstance(value, list) and value:
        return _with_last(list(value), len(value) - 1, _without_last_number(value[-1]))
    return _MISSING if isinstance(value, int | float) and not isinstance(value, bool) else value


def _with_last(items: Any, key: object, last: object) -> object:
    if last is _MISSING:
        del items[key]
    else:
        items[key] = last
    return items


# -- plain data as the type that was asked for


def _build(kind: object, value: object, whole: bool) -> object:
    if whole:
        built = _validated(kind, value)
        if built is not _MISSING:
            return built
    for member in _alternatives(kind):
        if isinstance(value, dict):
            built = _object(member, value, whole)
        elif isinstance(value, list):
            built = _items(member, value, whole)
        else:
            built = value if member is str and isinstance(value, str) else _MISSING
        if built is not _MISSING:
            return built
    return _validated(kind, value)


def _alternatives(kind: object) -> tuple[object, ...]:
    """The members of a union, without what is only remarked about them."""
    while typing.get_origin(kind) is typing.Annotated:
        kind = typing.get_args(kind)[0]
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return tuple(one for member in typing.get_args(kind) for one in _alternatives(member))
    return (kind,)


def _object(kind: object, value: dict[str, object], whole: bool) -> object:
    origin, arguments = typing.get_origin(kind) or kind, typing.get_args(kind)
    if origin is dict or origin is Mapping:
        value_type = arguments[1] if len(arguments) == 2 else Any
        return _members(value, dict.fromkeys(value, value_type), whole)
    if typing.is_typeddict(origin):
        return _members(value, typing.get_type_hints(origin), whole)
    if dataclasses.is_dataclass(origin) and isinstance(origin, type):
        members = _members(value, typing.get_type_hints(origin), whole)
        instance: Any = object.__new__(origin)
        for field in dataclasses.fields(origin):
            missing = None
            if field.default is not dataclasses.MISSING:
                missing = field.default
            elif field.default_factory is not dataclasses.MISSING:
                missing = field.default_factory()
            object.__setattr__(instance, field.name, members.get(field.name, missing))
        return instance
    if hasattr(origin, "model_construct"):
        return _model(origin, value, whole)
    return value if origin in (Any, object) else _MISSING


def _members(value: dict[str, object], kinds: Mapping[str, object], whole: bool) -> dict[str, Any]:
    last = next(reversed(value), None)
    members = {
        name: _build(kinds[name], item, whole or name != last)
        for name, item in value.items()
        if name in kinds
    }
    return {name: item for name, item in members.items() if item is not _MISSING}


def _model(kind: Any, value: dict[str, object], whole: bool) -> object:
    fields = kind.model_fields
    names = {field.alias or name: name for name, field in fields.items()}
    kinds = {alias: fields[name].annotation for alias, name in names.items()}
    members = {names[alias]: item for alias, item in _members(value, kinds, whole).items()}
    required = {name: None for name, field in fields.items() if field.is_required()}
    return kind.model_construct(set(members), **{**required, **members})


def _items(kind: object, value: list[object], whole: bool) -> object:
    origin, arguments = typing.get_origin(kind) or kind, typing.get_args(kind)
    if origin not in (list, tuple, set, frozenset) and origin not in (Any, object):
        return _MISSING
    varied = origin is tuple and arguments[-1:] != (...,)
    kinds = list(arguments) if varied else list(arguments[:1]) * len(value)
    kinds += [Any] * (len(value) - len(kinds))
    last = len(value) - 1
    complete = [] if varied else value if whole else value[:last]
    together: Any = _MISSING
    if complete and kinds:
        together = _validated(list[kinds[0]], complete)  # type: ignore[valid-type]
    # items of one kind at once, which is much faster than one by one, unless any is wrong
    done: list[Any] = [] if together is _MISSING else list(together)
    rest = range(len(done), len(value))
    built = [*done, *(_build(kinds[i], value[i], whole or i != last) for i in rest)]
    items = [item for item in built if item is not _MISSING]
    try:
        return items if origin not in (tuple, set, frozenset) else origin(items)
    except TypeError:  # an item of a set that cannot be in one
        return _MISSING


def _validated(kind: object, value: object) -> Any:
    """*value* as *kind*, if it already is one."""
    try:
        return _shape(kind).object_of(json.dumps(value))
    except Exception:  # validators of the user's see unfinished data here
        return _MISSING


@lru_cache(maxsize=512)
def _shape(kind: object) -> Shape:
    return ByType(kind)
