"""Parameters of a function, as a JSON schema for a model and as a check of its arguments.

From signature, annotations and docstring (Google, NumPy and Sphinx styles); pydantic makes schema
and check from one type. Invariant: what ``Reader.read`` returns fits the schema beside it, and no
name in it is one that the model was not told of.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from appl.compiler.trees import expression_tree
from appl.errors import InvalidOption, ToolError
from appl.runtime.answers.schema import Checker
from appl.runtime.tools.arguments import BadArguments, read_object, refuse_unknown, shown

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MOST = 5
_EMPTY = inspect.Parameter.empty
_NOT_BY_NAME = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Described:
    """A function as a model is told of it; *reader* checks the arguments of a call."""

    name: str
    description: str
    reader: Reader
    positional: tuple[inspect.Parameter, ...] = ()


def describe(f: Callable[..., object], name: str, predefined: Mapping[str, object]) -> Described:
    """Describe *f* under *name*, leaving out what is *predefined*. Raises ``ToolError``.

    What a partial has bound is predefined too. ``positional`` are the parameters that have to be
    given by position.
    """
    every = _parameters(f, name)
    for parameter_name in predefined:
        if parameter_name not in every:
            takes = ", ".join(every) or "none"
            raise ToolError(
                f"{name} has no parameter {parameter_name!r} to predefine (it has: {takes})"
            )
    doc = _documented(f)
    closed = {*predefined, *_bound(f)}
    open_ones = {key: every[key] for key in every if key not in closed}
    hints = _hints(f, name, open_ones)
    for key in open_ones:
        if key not in hints and key in doc.types:
            hints[key] = doc.types[key]
    positional = [
        parameter for parameter in every.values() if parameter.kind is parameter.POSITIONAL_ONLY
    ]
    reader = Reader(name, open_ones, hints, doc.about)
    return Described(name, doc.text, reader, tuple(positional))


def name_of(f: object) -> str:
    """The name of a function, or of what a callable object or a partial stands for."""
    while isinstance(f, functools.partial):
        f = f.func
    return str(getattr(f, "__name__", type(f).__name__))


# -- the signature -----------------------------------------------------------------------------


def _parameters(f: Callable[..., object], name: str) -> dict[str, inspect.Parameter]:
    try:
        signature = inspect.signature(f)
    except (TypeError, ValueError) as error:
        raise ToolError(
            f"{name} has no signature that can be read ({error}); write a function around it"
        ) from None
    for parameter in signature.parameters.values():
        if parameter.kind in _NOT_BY_NAME:
            stars = "*" if parameter.kind is inspect.Parameter.VAR_POSITIONAL else "**"
            raise ToolError(
                f"{name} takes {stars}{parameter.name}, which cannot be described to a model; "
                "write a function around it that names its parameters"
            )
    parameters = dict(signature.parameters)
    first = next(iter(parameters), None)
    if first in ("self", "cls") and "." in getattr(f, "__qualname__", "").rpartition(">.")[2]:
        raise ToolError(f"{name} is a method without its object: give the bound method, obj.{name}")
    return parameters


def _bound(f: object) -> Iterator[str]:
    """The names that partials have bound."""
    while isinstance(f, functools.partial):
        yield from f.keywords
        f = f.func


def _source(f: object) -> tuple[Any, dict[str, object], dict[str, object]]:
    """The function behind *f*, with the names that are known where it is defined."""
    while True:
        if isinstance(f, functools.partial):
            f = f.func
        elif inspect.ismethod(f):
            f = f.__func__
        elif hasattr(f, "__wrapped__"):
            f = f.__wrapped__
        else:
            break
    if isinstance(f, type):
        return f, vars(sys.modules[f.__module__]), {f.__name__: f}
    if not inspect.isfunction(f) and hasattr(type(f), "__call__"):  # noqa: B004 - its code is wanted
        f = getattr(type(f).__call__, "__wrapped__", type(f).__call__)
    cells = zip(
        getattr(getattr(f, "__code__", None), "co_freevars", ()),
        getattr(f, "__closure__", None) or (),
        strict=False,
    )
    return (
        f,
        getattr(f, "__globals__", {}),
        {name: c.cell_contents for name, c in cells if _full(c)},
    )


def place_of(f: object) -> tuple[str | None, int | None]:
    """The file and line where a function is defined, as far as that can be told."""
    code = getattr(_source(f)[0], "__code__", None)
    return (None, None) if code is None else (code.co_filename, code.co_firstlineno)


def _full(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:  # not bound yet
        return False


def _hints(f: object, name: str, parameters: Mapping[str, inspect.Parameter]) -> dict[str, object]:
    """The annotations of *parameters*, with the names in them looked up where *f* is defined."""
    _, globals_of_f, local = _source(f)

    def shim() -> None: ...

    hints: dict[str, object] = {}
    for key, parameter in parameters.items():
        if parameter.annotation is _EMPTY:
            continue
        shim.__annotations__ = {"it": parameter.annotation}
        try:
            hints[key] = typing.get_type_hints(shim, globals_of_f, local, include_extras=True)["it"]
        except NameError as error:
            raise ToolError(
                f"{name}: the annotation of {key!r} names {error.name!r}, which is not known where "
                f"{name} is defined; define it in the module, or where {name} refers to it"
            ) from None
        except Exception as error:
            raise ToolError(f"{name}: the annotation of {key!r} cannot be read: {error}") from None
    return hints


# -- the docstring -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Doc:
    """A parsed docstring: a description, and texts and types of parameters."""

    text: str
    about: dict[str, str]
    types: dict[str, Any]


def _documented(f: object) -> _Doc:
    while isinstance(f, functools.partial):
        f = f.func
    is_plain = not callable(f) or inspect.isroutine(f) or isinstance(f, type)
    text = (None if is_plain else inspect.getdoc(type(f).__call__)) or inspect.getdoc(f)
    if not text:
        return _Doc("", {}, {})
    import docstring_parser as parser  # only tools with a docstring need it

    try:
        parsed = parser.parse(text)
    except parser.ParseError:
        return _Doc(text, {}, {})
    parts = [part for part in (parsed.short_description, parsed.long_description) if part]
    about = {p.arg_name: " ".join(p.description.split()) for p in parsed.params if p.description}
    kinds = {p.arg_name: _type_named(p.type_name) for p in parsed.params if p.type_name}
    return _Doc("\n\n".join(parts), about, {k: v for k, v in kinds.items() if v is not None})


_NAMES_OF: tuple[tuple[object, str], ...] = (
    *((int, "int integer"), (float, "float number"), (str, "str string"), (bool, "bool boolean")),
    *((list, "list List"), (dict, "dict Dict"), (None, "None"), (Any, "any Any")),
)
_TYPES: dict[str, Any] = {name: kind for kind, names in _NAMES_OF for name in names.split()}


def _type_named(text: str) -> object:
    """The type that a docstring names, when it is made of plain builtin ones."""
    text = re.sub(r",?\s*(optional|default.*)$", "", text.strip(), flags=re.IGNORECASE)
    text = re.sub(r"\blist of (\w+)", r"list[\1]", text)
    try:
        return _type_of(expression_tree(re.sub(r"\s+or\s+", " | ", text)))
    except (SyntaxError, KeyError, TypeError, ValueError):
        return None


def _type_of(node: ast.expr) -> object:
    match node:
        case ast.Name(name):
            return _TYPES[name]
        case ast.Constant(None):
            return None
        case ast.BinOp(first, ast.BitOr(), right):
            return typing.Union[_type_of(first), _type_of(right)]  # noqa: UP007 - made at run time
        case ast.Subscript(ast.Name("Optional"), inner):
            return typing.Optional[_type_of(inner)]  # noqa: UP045
        case ast.Subscript(ast.Name(name), ast.Tuple(parts)):
            return types.GenericAlias(_TYPES[name], tuple(map(_type_of, parts)))
        case ast.Subscript(ast.Name(name), inner):
            return types.GenericAlias(_TYPES[name], (_type_of(inner),))
    raise ValueError(f"not a plain type: {ast.unparse(node)}")


# -- schema and check --------------------------------------------------------------------------


class Reader:
    """The parameters of a function that a model may set: their schema, and the check of a call."""

    def __init__(
        self,
        name: str,
        parameters: Mapping[str, inspect.Parameter],
        hints: Mapping[str, Any],
        about: Mapping[str, str],
    ) -> None:
        self._names = list(parameters)
        self._adapter = _adapter(name, parameters, hints, about)
        from appl.runtime.answers import nesting  # only typed answers and tools need it

        self._levels: int = nesting.most_levels(nesting.branching(self._adapter.core_schema))
        self.schema = _finished(self._adapter.json_schema(), parameters)
        self._checker = checker_of(name, self.schema)

    def read(self, text: str) -> dict[str, Any]:
        """The arguments in the JSON *text*, as values of the annotated types.

        What the function has a default for may be missing. Raises ``BadArguments``, also for what
        pydantic would take although the schema that the model was told does not allow it.
        """
        data = read_object(text)
        refuse_unknown(data, self._names)
        if self._levels:
            from appl.runtime.answers import nesting  # only typed answers and tools need it

            if refusal := nesting.too_deep(text, self._levels, around=1):
                raise BadArguments(refusal)
        from pydantic import ValidationError as errors  # only typed answers and tools need it

        try:
            arguments = dict(self._adapter.validate_json((text.strip() or "{}").encode()))
        except UnicodeEncodeError:
            raise BadArguments("the arguments hold half of a surrogate pair") from None
        except errors as error:
            raise BadArguments("; ".join(_problems(error))) from None
        problem = self._checker.errors(data)
        if problem is not None:
            raise BadArguments(problem)
        return arguments


def checker_of(name: str, schema: Schema) -> Checker:
    """A checker of arguments of the tool *name*. Raises ``ToolError`` for a wrong *schema*."""
    try:
        return Checker(schema)
    except InvalidOption as error:
        raise ToolError(f"the parameters of {name}: {error}") from None


def _adapter(
    name: str,
    parameters: Mapping[str, inspect.Parameter],
    hints: Mapping[str, object],
    about: Mapping[str, str],
) -> Any:
    fields = {
        key: _field(hints.get(key, Any), about.get(key), parameter.default is _EMPTY)
        for key, parameter in parameters.items()
    }
    from pydantic import errors  # only typed answers and tools need it

    refused = (errors.PydanticSchemaGenerationError, errors.PydanticInvalidForJsonSchema)
    try:
        adapter = _strict(name, fields)
        adapter.json_schema()
        return adapter
    except (*refused, errors.PydanticUserError) as error:
        for key, field in fields.items():
            try:
                _strict("one", {key: field}).json_schema()
            except refused:
                hint = hints[key]
                shown = hint.__name__ if isinstance(hint, type) else str(hint)
                kind = shown.replace("typing.", "")
                raise ToolError(
                    f"{name}: no model can write a {kind}, which its parameter {key!r} takes; set "
                    f"it yourself, as_tool({name}, {key}=...), or annotate it with a type of plain "
                    "data"
                ) from None
        raise ToolError(f"{name} cannot be described to a model: {error}") from error


def _strict(name: str, fields: dict[str, object]) -> Any:
    """An adapter for objects with *fields*: nothing else in them, and no type guessed."""
    import pydantic  # only typed answers and tools need it
    from typing_extensions import TypedDict  # only typed answers and tools need it

    make: Any = TypedDict
    kind = make(name, fields)
    kind.__pydantic_config__ = pydantic.ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
    return pydantic.TypeAdapter(kind)


def _field(hint: object, about: str | None, required: bool) -> object:
    own = about if about and not _described(hint) else _remark(hint)
    if own:
        from pydantic import Field as field  # only typed answers and tools need it

        hint = typing.Annotated[hint, field(description=own)]
    from typing import NotRequired  # only typed answers and tools need it

    return hint if required else NotRequired[hint]


def _metadata(hint: object) -> tuple[object, ...]:
    return getattr(hint, "__metadata__", ()) if typing.get_origin(hint) is typing.Annotated else ()


def _described(hint: object) -> bool:
    """True if the annotation itself describes the parameter."""
    return any(getattr(note, "description", None) for note in _metadata(hint)) or bool(
        _remark(hint)
    )


def _remark(hint: object) -> str | None:
    """The text in ``Annotated[int, "text"]`` or ``Annotated[int, Doc("text")]``."""
    for note in _metadata(hint):
        text = note if isinstance(note, str) else getattr(note, "documentation", None)
        if isinstance(text, str):
            return text
    return None


def _problems(error: Any) -> Iterator[str]:
    """The problems, a line each, in words that a model can act on."""
    errors = error.errors(include_url=False, include_context=False)
    for problem in errors[:_MOST]:
        place = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in problem["loc"])[1:]
        if problem["type"] in ("missing", "missing_argument", "missing_keyword_only_argument"):
            yield f"{place} is missing"
        elif problem["type"] == "json_invalid":
            yield f"the arguments are not valid JSON: {problem['msg']}"
        else:
            yield f"{place}: {problem['msg']}, got {shown(problem['input'])}"
    if len(errors) > _MOST:
        yield f"and {len(errors) - _MOST} more"


# -- the schema as it is announced -------------------------------------------------------------

_FIRST = ("type", "description", "enum", "const", "properties", "required", "items")
_NESTED = ("items", "additionalProperties", "not", "contains", "propertyNames")
_LISTS = ("anyOf", "allOf", "oneOf", "prefixItems")
_MAPS = ("properties", "patternProperties", "$defs")


def _finished(schema: Schema, parameters: Mapping[str, inspect.Parameter]) -> Schema:
    """The schema of the parameters in their order, with the defaults of the function."""
    finished = _tidy(schema)
    finished.pop("additionalProperties", None)
    properties = finished.get("properties", {})
    for key, parameter in parameters.items():
        default = _plain(parameter.default)
        if default is not _EMPTY and "default" not in properties[key]:
            properties[key]["default"] = default
    rest = {key: finished[key] for key in finished if key not in ("type", "properties", "required")}
    required = {"required": finished["required"]} if "required" in finished else {}
    return {"type": "object", "properties": properties, **required, **rest}


def _tidy(schema: object) -> Any:
    """*schema* without titles and ``additionalProperties: false``, which tell a model nothing.

    ``uniqueItems`` goes too: a set takes an element twice, and has it once.
    """
    if not isinstance(schema, dict):
        return schema
    dropped = {"title", "uniqueItems"}
    if schema.get("additionalProperties") is False:
        dropped.add("additionalProperties")
    keys = [key for key in schema if key not in dropped]
    order = sorted(keys, key=lambda key: _FIRST.index(key) if key in _FIRST else len(_FIRST))
    tidied: dict[str, Any] = {}
    for key in order:
        value = schema[key]
        if key in _NESTED:
            value = _tidy(value)
        elif key in _LISTS:
            value = [_tidy(item) for item in value]
        elif key in _MAPS:
            value = {name: _tidy(item) for name, item in value.items()}
        tidied[key] = value
    return tidied


def _plain(default: object) -> Any:
    """A default as JSON data, or ``empty`` when it cannot be told."""
    if default is _EMPTY or hasattr(default, "get_secret_value") or hasattr(default, "reveal"):
        return _EMPTY
    import pydantic_core as core  # only typed answers and tools need it

    try:
        value = core.to_jsonable_python(default)
        core.to_json(value, inf_nan_mode="constants")
    except Exception:
        return _EMPTY
    return _EMPTY if value != value else value
