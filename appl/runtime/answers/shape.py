"""Shapes of typed answers: a Python type or a JSON schema, and the way from text to object.

Invariant: pydantic is loaded only when a shape is made, and a shape is made before any call; what
cannot be one is refused by name.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Mapping
from typing import Any

from appl.base.threads import process_lock
from appl.errors import InvalidOption
from appl.runtime.answers import extract
from appl.runtime.answers.schema import Checker
from appl.runtime.answers.typed_dicts import with_typed_dicts

OBJECT = {"type": "object"}
_MOST_ERRORS = 5


class Mismatch(ValueError):
    """A text that is not of the shape; the message explains it, for the model too."""


class Shape:
    """The form of an answer. ``schema`` describes it as JSON, ``None`` when any text will do.

    ``name`` is how the user would write it. ``calls_code`` is true when reading may run functions
    of the user's, such as validators; ``is_slow`` when reading may take seconds.
    """

    is_slow = False

    def __init__(self, name: str, schema: dict[str, Any] | None, calls_code: bool = False) -> None:
        self.name, self.schema, self.calls_code = name, schema, calls_code
        self.kinds = extract.kinds_of(schema) if schema is not None else frozenset({"string"})
        self.options = extract.options_of(schema) if schema is not None else ()

    def object_of(self, source: str) -> object:
        """The object that the JSON text *source* gives. Raises ``Mismatch``."""
        raise NotImplementedError

    def read(self, text: str) -> tuple[str, Any]:
        """The JSON in *text*, and its object; a plain string stands there without its quotes.

        What surrounds the JSON is left out. Raises ``Mismatch``.
        """
        if self.schema is None:
            return text, text
        wrong: Mismatch | None = None
        tried: set[str] = set()
        for group in extract.candidates(text, self.kinds, self.options):
            for source in reversed(group):
                if source in tried:
                    continue
                tried.add(source)
                try:
                    value = self.object_of(source)
                    return _as_text(source), value
                except Mismatch as error:
                    wrong = error if _is_json(source) else wrong
        raise wrong or Mismatch(extract.problem(text, self.kinds))


class AnyText(Shape):
    """``response_format=str``."""

    def __init__(self) -> None:
        super().__init__("str", None)


class BySchema(Shape):
    """A JSON schema; the object is plain data."""

    def __init__(self, schema: Mapping[str, Any], name: str = "a JSON schema") -> None:
        self._check = Checker(schema)
        super().__init__(name, dict(schema))

    def object_of(self, source: str) -> object:
        try:
            value = json.loads(source, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            raise Mismatch(f"the JSON in it cannot be read ({_reason(error)})") from None
        wrong = self._check.errors(value)
        if wrong is not None:
            raise Mismatch(wrong)
        return value


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON value")


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return "a number has thousands of digits" if "digits" in str(error) else str(error)


class ByType(Shape):
    """A type that pydantic can validate."""

    def __init__(self, kind: object) -> None:
        import pydantic  # only typed answers and tools need it

        self.kind = kind
        self.adapter = _adapter(pydantic, kind)
        try:
            schema = self.adapter.json_schema()
        except pydantic.errors.PydanticInvalidForJsonSchema as error:
            raise _refused(kind, f"it has no JSON form ({error.message})") from None
        core = self.adapter.core_schema
        super().__init__(_shown(kind), schema, _calls_code(core))
        from appl.runtime.answers import nesting  # only typed answers and tools need it

        self._levels: int = nesting.most_levels(nesting.branching(core))
        self.is_slow = self._levels > 0

    def object_of(self, source: str) -> object:
        if self._levels:
            from appl.runtime.answers import nesting  # only typed answers and tools need it

            if refusal := nesting.too_deep(source, self._levels):
                raise Mismatch(refusal)
        try:
            return self.adapter.validate_json(source)
        except ValueError as error:
            raise Mismatch(_in_words(error)) from None
        except ArithmeticError as error:  # of a validator of the user's, for a number beyond floats
            raise Mismatch(f"{type(error).__name__}: {error}") from None
        except RecursionError:
            raise Mismatch("it is nested too deeply") from None


def _adapter(pydantic: Any, kind: object) -> Any:
    if isinstance(kind, pydantic.TypeAdapter):
        return kind
    if isinstance(kind, types.FunctionType | types.MethodType):  # pydantic would call it
        raise _refused(kind, f"a function; for a tool write tools=[{kind.__name__}]")
    if _is_instance(kind):
        raise _refused(kind, "an object and no type")
    try:
        adapter = pydantic.TypeAdapter(with_typed_dicts(kind))
        adapter.rebuild(raise_errors=True)
    except pydantic.errors.PydanticUndefinedAnnotation as error:
        raise _refused(kind, f"the name {error.name!r} in it is not defined yet") from None
    except pydantic.errors.PydanticUserError as error:
        raise _refused(kind, error.message.splitlines()[0]) from None
    except (TypeError, NameError) as error:
        raise _refused(kind, str(error)) from None
    return adapter


def _refused(kind: object, why: str) -> InvalidOption:
    hint = ""
    if _is_instance(kind):
        hint = f"; write response_format={type(kind).__name__}, without the call"
    return InvalidOption(
        f"gen(response_format=...) takes a type (a pydantic model, a dataclass, a TypedDict, "
        f"Literal[...], an Enum, int, float, bool, str, list[...], dict[str, ...]), 'json' or a "
        f"JSON schema, got {_shown(kind):.100}: {why}{hint}"
    )


def _is_instance(kind: object) -> bool:
    """True if *kind* is an object of a type that could have been given in its place."""
    data = hasattr(type(kind), "__pydantic_validator__") or dataclasses.is_dataclass(kind)
    return data and not isinstance(kind, type)


def _shown(kind: object) -> str:
    return kind.__name__ if isinstance(kind, type) else repr(kind).replace("typing.", "")


def _is_json(source: str) -> bool:
    try:
        json.loads(source)
    except (ValueError, RecursionError):
        return False
    return True


def _as_text(source: str) -> str:
    """The text of the answer whose JSON is *source*: itself, or what a plain string says."""
    if source[:1] != '"':
        return source
    content: str = json.loads(source, strict=False)
    return content


def _in_words(error: ValueError) -> str:
    """The problems that pydantic found, in one line."""
    errors = getattr(error, "errors", None)
    if errors is None:
        return str(error)
    every = errors(include_url=False, include_context=False, include_input=False)
    lines = [_line(each) for each in every[:_MOST_ERRORS]]
    return "; ".join(lines)


def _line(error: Mapping[str, Any]) -> str:
    place = ".".join(str(step) for step in error["loc"])
    return f"{place}: {error['msg']}" if place else str(error["msg"])


def _calls_code(core: object) -> bool:
    """True if validating by the pydantic core schema *core* may run Python functions."""
    todo = [core]
    while todo:
        item = todo.pop()
        if isinstance(item, Mapping):
            if str(item.get("type", "")).startswith("function-"):
                return True
            if item.get("post_init") or item.get("custom_init") or "default_factory" in item:
                return True
            todo += item.values()
        elif isinstance(item, list | tuple):
            todo += item
    return False


# -- response_format= as a shape


_made: dict[Any, Shape] = {}
_MOST = 256
_lock = process_lock()


def shape_of(wanted: object) -> Shape:
    """The shape that ``response_format=`` *wanted* means. Raises ``InvalidOption``.

    ``"json"`` is any object. A dict is a JSON schema, also in the form of the OpenAI interface, and
    so is a text that begins with a brace.
    """
    key: Any = json.dumps(wanted, default=repr) if isinstance(wanted, dict) else wanted
    if not isinstance(
        wanted, type
    ):  # Literal[1, "a"] equals Literal["a", 1], and asks in its order
        key = repr(key), key
    try:
        shape = _made.get((type(key), key))
    except TypeError:  # it cannot be hashed, so it is no type that is worth remembering
        return _make(wanted)
    if shape is None:
        shape = _make(wanted)
        with _lock:
            if len(_made) >= _MOST:
                _made.clear()
            _made[type(key), key] = shape
    return shape


def _make(wanted: object) -> Shape:
    if isinstance(wanted, str):
        if wanted == "json":
            return BySchema(OBJECT, "'json'")
        if wanted.lstrip().startswith("{"):
            try:
                schema = json.loads(wanted)
            except (ValueError, RecursionError) as error:
                why = f"the JSON in it cannot be read ({_reason(error)})"
                raise InvalidOption(
                    f"gen(response_format=...) got the text {wanted!r:.100}: {why}; give the "
                    "schema as a dict, or its JSON text"
                ) from None
            assert isinstance(schema, dict), "it begins with a brace"
            return _by_schema(schema)
        raise _refused(wanted, "the only name is 'json'")
    if isinstance(wanted, dict):
        return _by_schema(wanted)
    if wanted is str:
        return AnyText()
    if isinstance(wanted, typing.TypeVar):
        raise _refused(wanted, "a type variable stands for no type here")
    return ByType(wanted)


def _by_schema(wanted: dict[str, Any]) -> Shape:
    if wanted.get("type") == "json_object":
        return BySchema(OBJECT, "'json'")
    if wanted.get("type") == "json_schema" and isinstance(wanted.get("json_schema"), dict):
        wanted = wanted["json_schema"].get("schema", {})
    if not wanted:
        raise _refused(wanted, "an empty schema says nothing; write 'json' for any object")
    if any(isinstance(value, type) for value in wanted.values()):
        raise _refused(wanted, "a dict of types is no schema; write them as a dataclass")
    return BySchema(wanted)
