"""A served function: what it takes and returns as JSON, and the reading and writing of both.

Invariant: a function is called with arguments of its annotated types, or the request is refused
with the name of each field that does not fit.
"""

from __future__ import annotations

import inspect
import types
import typing
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pydantic
import pydantic_core

from appl.backend import canonical
from appl.compiler.hooks import program_of
from appl.errors import ApplError, nearest
from appl.parts.serving.journal import read
from appl.prompt import Message
from appl.runtime.answers.stream import TextStream
from appl.runtime.concurrency.promise import Proxy

Schema = dict[str, Any]
_EMPTY = inspect.Parameter.empty
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_MANY = (list, Sequence, Iterable)
_STREAMS = ("Iterator", "Generator", "AsyncIterator", "AsyncGenerator", "Iterable", "TextStream")


class NotServable(ApplError):
    """A function whose arguments or result cannot be described as JSON."""


class WrongArguments(Exception):
    """A request whose arguments do not fit; ``problems`` has one entry for each wrong field."""

    def __init__(self, problems: list[dict[str, Any]]) -> None:
        super().__init__("; ".join(_line(problem) for problem in problems))
        self.problems = problems


def _line(problem: Mapping[str, Any]) -> str:
    where = ".".join(map(str, problem["loc"]))
    return f"{where}: {problem['msg']}" if where else str(problem["msg"])


@dataclass(frozen=True)
class ServedFunction:
    """A function under the *name* of its route, with the JSON schemas of its two sides.

    *place* is its name in *file*.
    ``streams`` is true if it returns or yields a stream. ``chat`` is the parameter that takes a
    conversation, ``takes_messages`` true if it takes all messages of it, not the last text alone.
    ``embeds`` is the parameter that takes texts, if it returns their vectors.
    """

    name: str
    function: Callable[..., Any]
    file: str
    place: str
    parameters: Schema
    returns: Schema
    streams: bool
    chat: str | None
    takes_messages: bool
    embeds: str | None
    _model: type[pydantic.BaseModel] = field(repr=False)
    _adapter: pydantic.TypeAdapter[Any] | None = field(repr=False)

    @property
    def description(self) -> str:
        """The docstring; of a prompt function the first text of its prompt may be one."""
        return inspect.getdoc(self.function) or ""

    def arguments(self, text: str | bytes) -> dict[str, Any]:
        """The arguments in a JSON object, as values of the annotated types.

        Raises ``WrongArguments``.
        """
        try:
            found = self._model.model_validate_json(text or b"{}")
        except pydantic.ValidationError as error:
            raise WrongArguments(self._problems(error)) from None
        return {name: getattr(found, _place(name)) for name in self._given(found)}

    def _given(self, found: pydantic.BaseModel) -> list[str]:
        """The names that were given: what is missing keeps the function's own default."""
        return [
            name for name in self.parameters["properties"] if _place(name) in found.model_fields_set
        ]

    def _problems(self, error: pydantic.ValidationError) -> list[dict[str, Any]]:
        problems = []
        for each in error.errors(include_url=False, include_context=False, include_input=False):
            problem = dict(each)
            problem["loc"] = list(each["loc"])
            if each["type"] == "extra_forbidden":
                known = list(self.parameters["properties"])
                takes = f"it takes {', '.join(known)}" if known else "it takes no arguments"
                given = str(each["loc"][0])
                problem["msg"] = (
                    f"{self.name} has no such argument ({takes}){nearest(given, known)}"
                )
            problems.append(problem)
        return problems

    def result(self, value: object) -> str:
        """The returned *value* as JSON text. Raises ``NotServable``."""
        if isinstance(value, Message):
            value = value.as_dict()
        try:
            if self._adapter is not None and not isinstance(value, str):
                return self._adapter.dump_json(value, warnings=False).decode()
            return pydantic_core.to_json(value, fallback=_list_of).decode()
        except Exception:
            pass
        try:
            return pydantic_core.to_json(value, fallback=_list_of).decode()
        except (ValueError, TypeError) as error:
            raise NotServable(
                f"{self.name} returned a {type(value).__name__}, which is no JSON: return plain "
                "data, a dataclass or a pydantic model"
            ) from error


def _list_of(value: object) -> object:
    """A vector of `appl.embed` as a list. Raises ``TypeError``."""
    if isinstance(value, array):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is no JSON")


def _place(name: str) -> str:
    """The field of the parameter *name*; pydantic takes no name that begins with underscores."""
    return f"p_{name}"


def served_function(
    name: str, function: Callable[..., Any], file: str, place: str = ""
) -> ServedFunction:
    """*function* as it is served under *name*. Raises ``NotServable``.

    *place* is its name in *file*, if that is another one.
    """
    hints = _hints(function, name)
    parameters = _parameters(function, name)
    model = _model(name, parameters, hints)
    returned = hints.get("return", Any)
    streams = _is_stream(function, returned)
    embeds = _embeds(parameters, hints, returned)
    adapter = None if streams else _adapter(list[list[float]] if embeds else returned)
    try:
        taken = model.model_json_schema(by_alias=True)
    except pydantic.PydanticUserError as error:
        raise NotServable(f"{name}: its arguments have no JSON schema: {error}") from None
    taken.setdefault("properties", {})
    taken.pop("title", None)
    returns = {"type": "string"} if streams and _item(returned) in (str, Any) else _schema(adapter)
    if streams and _item(returned) not in (str, Any):
        returns = {"type": "array", "items": _schema(_adapter(_item(returned)))}
    chat, messages = _chat(parameters, hints)
    return ServedFunction(
        name,
        function,
        file,
        place or name,
        taken,
        returns,
        streams,
        chat,
        messages,
        embeds,
        model,
        adapter,
    )


def _parameters(function: Callable[..., Any], name: str) -> dict[str, inspect.Parameter]:
    found = dict(inspect.signature(function).parameters)
    for parameter in found.values():
        if parameter.kind not in _NAMED:
            raise NotServable(
                f"{name} cannot be served: its parameter {parameter} cannot be given by name; "
                "write a function around it that names its parameters"
            )
    return found


def _hints(function: Callable[..., Any], name: str) -> dict[str, Any]:
    try:
        return typing.get_type_hints(inspect.unwrap(function), include_extras=True)
    except Exception as error:
        raise NotServable(
            f"{name} cannot be served: its annotations cannot be read: {error}"
        ) from None


def _model(
    name: str, parameters: Mapping[str, inspect.Parameter], hints: Mapping[str, Any]
) -> type[pydantic.BaseModel]:
    fields: dict[str, Any] = {}
    for key, parameter in parameters.items():
        default = ... if parameter.default is _EMPTY else parameter.default
        kind = hints.get(key, _guess(parameter.default))
        fields[_place(key)] = (kind, pydantic.Field(default, alias=key))
    config = pydantic.ConfigDict(extra="forbid", protected_namespaces=())
    try:
        return pydantic.create_model(f"{name}_arguments", __config__=config, **fields)
    except pydantic.PydanticUserError as error:
        raise NotServable(
            f"{name} cannot be served: its arguments cannot be read from JSON ({error}); annotate "
            "them with types of plain data"
        ) from None


def _guess(default: object) -> Any:
    """The type of a parameter without annotation: text, or that of its default."""
    if default is _EMPTY:
        return str
    return type(default) if isinstance(default, str | bool | int | float | list | dict) else Any


def _adapter(returned: Any) -> pydantic.TypeAdapter[Any] | None:
    """The writer of results of the type *returned*; ``None`` if it is known when it is there."""
    origin = typing.get_origin(returned) or returned
    if returned is Any or (isinstance(origin, type) and issubclass(origin, Proxy)):
        return None
    try:
        adapter: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(returned)
        adapter.json_schema(mode="serialization")
    except pydantic.PydanticUserError:
        return None
    return adapter


def _schema(adapter: pydantic.TypeAdapter[Any] | None) -> Schema:
    return {} if adapter is None else adapter.json_schema(mode="serialization")


def _is_stream(function: Callable[..., Any], returned: Any) -> bool:
    inner = inspect.unwrap(function)
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        return True
    origin = typing.get_origin(returned) or returned
    return origin is TextStream or getattr(origin, "__name__", "") in _STREAMS


def _item(returned: Any) -> Any:
    """The type of the items of a stream."""
    return next(iter(typing.get_args(returned)), str)


def _chat(
    parameters: Mapping[str, inspect.Parameter], hints: Mapping[str, Any]
) -> tuple[str | None, bool]:
    """The parameter that takes a conversation, if the others need not be given."""
    name = _only(parameters)
    if name is None:
        return None, False
    kind = hints.get(name, _guess(parameters[name].default))
    if kind is str or (
        typing.get_origin(kind) in (typing.Union, types.UnionType) and str in typing.get_args(kind)
    ):
        return name, False
    is_many = (typing.get_origin(kind) or kind) in _MANY
    item = next(iter(typing.get_args(kind)), Any)
    if is_many and (
        (typing.get_origin(item) or item) in (dict, Mapping, Any) or name == "messages"
    ):
        return name, True
    return None, False


def _embeds(
    parameters: Mapping[str, inspect.Parameter], hints: Mapping[str, Any], returned: Any
) -> str | None:
    """The parameter that takes texts, of a function that returns a vector for each."""
    name = _only(parameters)
    if name is None or not _is_many(hints.get(name), lambda item: item is str):
        return None
    if isinstance(origin := typing.get_origin(returned), type) and issubclass(origin, Proxy):
        (returned,) = typing.get_args(returned)  # a future of the vectors
    return name if _is_many(returned, _is_vector) else None


def _is_vector(kind: Any) -> bool:
    return (typing.get_origin(kind) or kind) is array or _is_many(kind, lambda item: item is float)


def _is_many(kind: Any, fits: Callable[[Any], bool]) -> bool:
    return typing.get_origin(kind) in _MANY and fits(next(iter(typing.get_args(kind)), Any))


def _only(parameters: Mapping[str, inspect.Parameter]) -> str | None:
    """The one parameter that must be given, or the first if none must be; none of several."""
    needed = [key for key, each in parameters.items() if each.default is _EMPTY]
    if len(needed) > 1:
        return None
    return needed[0] if needed else next(iter(parameters), None)


def functions_of(module: types.ModuleType) -> dict[str, Callable[..., Any]]:
    """The prompt functions that *module* defines, without those that begin with ``_``."""
    return {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_")
        and callable(value)
        and getattr(value, "__module__", None) == module.__name__
        and program_of(value) is not None
        and not isinstance(value, type)
    }


def words_of(arguments: str) -> tuple[str, ...]:
    """The JSON object *arguments* as words of ``appl run``, for the record of the run."""
    return tuple(f"--{name}={_word(value)}" for name, value in read(arguments).items())


def _word(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "on" if value else "off"
    return canonical(value)
