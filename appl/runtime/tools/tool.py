"""Tools: functions that a model may call, with their descriptions.

Invariant: a function is called with arguments that its announced schema allows, and with what was
predefined; the model can neither see nor set what was predefined.
"""

from __future__ import annotations

import functools
import inspect
import json
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from types import FunctionType
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from appl.base import fallback
from appl.compiler.hooks import program_of
from appl.errors import InvalidOption, ToolError
from appl.prompt.secret import Secret
from appl.prompt.secret_forms import Mask
from appl.runtime.tools.arguments import BadArguments, read_object, refuse_unknown
from appl.runtime.tools.signature import NAME, Described, Schema, checker_of, describe, name_of

if TYPE_CHECKING:
    from appl.runtime.waiting.approval import Approval

Effect = Literal["effect", "idempotent", "pure", "program"]
CHOICES = ("auto", "none", "required")


class Reads(Protocol):
    """Reads what a model wrote as the arguments of a call."""

    schema: Schema

    def read(self, text: str) -> dict[str, object]:
        """The arguments by name. Raises ``BadArguments``."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Tool:
    """A function as a model may call it; made by ``as_tool``.

    ``parameters`` is the JSON schema that the model is told. ``effect`` says what running it may
    do: an ``effect`` on the world, one that may be repeated (``idempotent``), nothing at all
    (``pure``), or it is itself a prompt ``program``. Calling a tool calls its function.
    """

    name: str
    description: str
    func: Callable[..., Any] | None = field(repr=False)
    effect: Effect
    reader: Reads = field(repr=False)
    predefined: Mapping[str, Any] = field(default_factory=dict, repr=False)
    positional: tuple[inspect.Parameter, ...] = field(default=(), repr=False)
    mask: Mask = field(default_factory=Mask, repr=False)
    approval: Approval | None = field(default=None, repr=False)
    text: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name) or self.name in CHOICES:
            raise ToolError(
                f"{self.name!r} is no name for a tool: 1 to 64 letters, digits, '_' and '-', and "
                f"none of {', '.join(CHOICES)}; give it one with as_tool(f, name=...)"
            )
        object.__setattr__(self, "text", json.dumps(self.schema(), separators=(",", ":")))

    @property
    def __name__(self) -> str:
        """The tool's name, as a function has one."""
        return self.name

    @property
    def parameters(self) -> Schema:
        """The JSON schema of the arguments."""
        return self.reader.schema

    def schema(self) -> dict[str, Any]:
        """The description for a model: name, description and parameters."""
        return {
            "name": self.name,
            "description": self.description,
            "parameters": self.reader.schema,
        }

    def as_dict(self) -> dict[str, Any]:
        """The tool as OpenAI-compatible servers take it."""
        return {"type": "function", "function": self.schema()}

    def __getattr__(self, name: str) -> Any:
        return fallback.attribute(self, name)

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Call the function, as Python would, with what is predefined."""
        return self.function()(*args, **{**self._revealed(), **kwargs})

    def function(self) -> Callable[..., Any]:
        """The function behind the tool. Raises ``ToolError`` when there is none."""
        if self.func is None:
            raise ToolError(
                f"the tool {self.name!r} has no function: answer its calls yourself with "
                "ToolMessage(text, call.id), leave them out with run_tool_calls(filter=...), or "
                "give it one, SchemaTool(schema, func)"
            )
        return self.func

    def invoke(self, arguments: Mapping[str, object]) -> Any:
        """Call the function with *arguments* that were read."""
        named = {**arguments, **self._revealed()}
        placed: list[Any] = []
        for parameter in self.positional:
            placed.append(named.pop(parameter.name, parameter.default))
        return self.function()(*placed, **named)

    def secrets(self) -> dict[str, str]:
        """The secrets among what is predefined, by name."""
        secrets = {name: _secret(value) for name, value in self.predefined.items()}
        return {
            f"{self.name}.{name}": value for name, value in secrets.items() if value is not None
        }

    def _revealed(self) -> dict[str, object]:
        return {
            name: value.reveal() if isinstance(value, Secret) else value
            for name, value in self.predefined.items()
        }

    def renamed(self, name: str, description: str | None = None) -> Tool:
        """The same tool under another name, and with another description if one is given."""
        return Tool(
            name,
            self.description if description is None else description,
            self.func,
            self.effect,
            self.reader,
            self.predefined,
            self.positional,
            self.mask,
            self.approval,
        )


class SchemaTool(Tool):
    """A tool described by a JSON schema that was written by hand or comes from elsewhere.

    *schema* is ``{"name", "description", "parameters"}``, or OpenAI's form around it. Without
    *func* its calls cannot be run; whoever asked answers them.
    """

    __slots__ = ()

    def __init__(
        self,
        schema: Mapping[str, Any],
        func: Callable[..., Any] | None = None,
        *,
        idempotent: bool = False,
        pure: bool = False,
    ) -> None:
        body = schema.get("function", schema) if isinstance(schema, Mapping) else None
        name = body.get("name") if isinstance(body, Mapping) else None
        if body is None or not isinstance(name, str):
            raise ToolError(
                'a tool\'s schema is {"name": ..., "description": ..., "parameters": {...}}, got '
                f"{schema!r:.120}"
            )
        parameters = body.get("parameters") or {"type": "object", "properties": {}}
        effect = _effect(func, idempotent, pure)
        super().__init__(
            name, body.get("description") or "", func, effect, SchemaReader(name, parameters)
        )


class SchemaReader:
    """Checks arguments against a JSON schema, and passes them on as plain data."""

    def __init__(
        self, name: str, schema: Mapping[str, Any], checked: dict[str, Any] | None = None
    ) -> None:
        """*checked* is the part of the *schema* that arguments are checked against, if not all."""
        self.schema = dict(schema)
        self._checker = checker_of(name, self.schema if checked is None else checked)
        closed = not _OPENING & set(self.schema)
        properties = self.schema.get("properties")
        self._known: list[str] | None = (
            list(properties) if closed and properties is not None else None
        )

    def read(self, text: str) -> dict[str, object]:
        """The arguments by name. Raises ``BadArguments``."""
        value = read_object(text)
        if self._known is not None:
            refuse_unknown(value, self._known)
        problem = self._checker.errors(value)
        if problem is not None:
            raise BadArguments(problem)
        return value


_OPENING = frozenset(
    """
    $dynamicRef $ref additionalProperties allOf anyOf dependentSchemas if oneOf patternProperties
    unevaluatedProperties
""".split()
)
"""Keywords by which a schema may say more of the names that it allows than its properties do."""


# -- making them -------------------------------------------------------------------------------

_described: weakref.WeakKeyDictionary[FunctionType, Described] = weakref.WeakKeyDictionary()


def as_tool(
    f: Callable[..., object],
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    idempotent: bool = False,
    pure: bool = False,
    predefined: Mapping[str, object] | None = None,
    approve: bool | str | Callable[..., object] | None = None,
    expires: float | timedelta | None = None,
    **fixed: object,
) -> Tool:
    """A function as a tool: described by its signature, annotations and docstring.

    Further arguments, or *predefined*, set parameters that the model neither sees nor sets; a
    ``Secret`` among them is kept out of results and errors too. *idempotent* says that running it
    again does no harm, *pure* that it has no effect at all: neither has to wait until the trace
    says that it begins. Raises ``ToolError`` for what cannot be described to a model.

    With *approve* a person is asked before it runs: ``True`` always asks, a text is the question
    (``"Refund {amount} EUR?"``, with the arguments in it), and a function of the arguments says
    whether approval is needed, or returns the question. After *expires* seconds, or a
    ``timedelta``, nobody may approve any more, and the tool is not called. See ``ask_person`` for
    who is asked. The person may refuse with a reason, which the model is told, or change the
    arguments.
    """
    own = {**(predefined or {}), **fixed}
    options_set = {
        "name": name,
        "description": description,
        "idempotent": idempotent,
        "pure": pure,
        "predefined": predefined,
        "approve": approve,
        "expires": expires,
    }
    if isinstance(f, Tool):
        tool = _again(f, name, description, own)
    elif own or any(options_set.values()):
        _check_options(f, [option for option, value in options_set.items() if value])
        tool = _tool(_describe(f, name or name_of(f), own), f, description, idempotent, pure, own)
    else:
        described = _described.get(f) if isinstance(f, FunctionType) else None
        if described is None:
            described = _describe(f, name_of(f), {})
            if isinstance(f, FunctionType):
                _described[f] = described  # while the function lives
        tool = _tool(described, f, description, idempotent, pure, own)
    if approve is None and expires is None:
        return tool
    from appl.runtime.waiting.approval import approval_of  # few tools need approval

    return _with_approval(tool, approval_of(approve, expires))


def _tool(
    description_read: Described,
    f: Callable[..., object],
    description: str | None,
    idempotent: bool,
    pure: bool,
    own: Mapping[str, object],
) -> Tool:
    text = description_read.description if description is None else description
    effect = _effect(f, idempotent, pure)
    mask = Mask(secret for value in own.values() if (secret := _secret(value)) is not None)
    return Tool(
        description_read.name,
        text,
        f,
        effect,
        description_read.reader,
        own,
        description_read.positional,
        mask,
    )


def _with_approval(tool: Tool, approval: Approval | None) -> Tool:
    return Tool(
        tool.name, tool.description, tool.func, tool.effect, tool.reader, tool.predefined,
        tool.positional, tool.mask, approval,
    )  # fmt: skip


def _again(tool: Tool, name: str | None, description: str | None, own: dict[str, object]) -> Tool:
    if own:
        approval = tool.approval
        if isinstance(tool.reader, SchemaReader):
            raise ToolError(
                f"the parameters of {tool.name!r} are given as a schema: write one without "
                f"{next(iter(own))!r}, and a function that adds it"
            )
        tool = as_tool(
            tool.function(),
            name=tool.name,
            description=tool.description,
            idempotent=tool.effect == "idempotent",
            pure=tool.effect == "pure",
            predefined={**tool.predefined, **own},
        )
        tool = _with_approval(tool, approval)
    if name is None and description is None:
        return tool
    return tool.renamed(name or tool.name, description)


def _describe(f: object, name: str, predefined: Mapping[str, object]) -> Described:
    if not callable(f):
        raise ToolError(
            f"a tool is a function, as_tool(function), a SchemaTool or a source of tools, got "
            f"{f!r:.80}"
        )
    kind = getattr(program_of(f), "kind", "")
    if "gen" in kind or inspect.isgeneratorfunction(f) or inspect.isasyncgenfunction(f):
        raise ToolError(f"{name} is a generator: a tool returns its result, a list perhaps")
    if getattr(program_of(f), "ctx", "") == "same":
        raise ToolError(
            f"{name} says its text in its caller's prompt, ctx='same', but a model only gets what "
            "a tool returns: decorate it with ctx='copy', which sees that prompt, or ctx='new'"
        )
    return describe(f, name, predefined)


def _check_options(f: object, options: list[str]) -> None:
    """Refuse an option that *f* also has as a parameter: nobody can tell which is meant."""
    clash = [option for option in options if option in _names(f)]
    if clash:
        raise ToolError(
            f"{name_of(f)} has a parameter {clash[0]!r}, which is also an option of as_tool: "
            f"write predefined={{{clash[0]!r}: ...}} to set the parameter, or "
            f"as_tool({name_of(f)}).renamed(...) for another name or description"
        )


def _names(f: Any) -> Iterable[str]:
    try:
        return inspect.signature(f).parameters
    except (TypeError, ValueError):
        return ()


def _effect(f: object, idempotent: bool, pure: bool) -> Effect:
    if is_program(f):
        return "program"
    return "pure" if pure else "idempotent" if idempotent else "effect"


def is_program(f: object) -> bool:
    """True if *f* is a ``@ppl`` function or method: its own calls are recorded."""
    while isinstance(f, functools.partial):
        f = f.func
    return getattr(program_of(f), "kind", None) in ("sync", "async")


def _secret(value: object) -> str | None:
    if isinstance(value, Secret):
        return value.reveal()
    reveal = getattr(value, "get_secret_value", None)  # pydantic's SecretStr
    if not callable(reveal):
        return None
    secret = reveal()
    return secret.decode("utf-8", "replace") if isinstance(secret, bytes) else str(secret)


class _Described:
    """The ``__doc__`` of a tool is its description, that of the class what it says of itself."""

    def __init__(self, about: str | None) -> None:
        self._about = about

    def __get__(self, tool: Tool | None, owner: type[Tool]) -> str | None:
        return self._about if tool is None else tool.description


Tool.__doc__ = _Described(Tool.__doc__)  # type: ignore[assignment]


class ToolChoice(str):
    """The name of a tool to call. Read as a mapping, it is what OpenAI's interface takes."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return str.__getitem__(self, key)
        return {"type": "function", "function": {"name": str.__str__(self)}}[key]


def as_tool_choice(tool: str | Callable[..., Any] | Tool | Mapping[str, object]) -> str:
    """The value of ``tool_choice`` for *tool*: its name, or one of the known words."""
    if isinstance(tool, str):
        return tool
    if isinstance(tool, Tool):
        return ToolChoice(tool.name)
    if isinstance(tool, Mapping):
        function = tool.get("function", tool)
        name = function.get("name") if isinstance(function, Mapping) else None
        if isinstance(name, str):
            return name
    elif callable(tool):
        return ToolChoice(name_of(tool))
    raise InvalidOption(
        f"tool_choice is {', '.join(map(repr, CHOICES))}, a tool or its name, got {tool!r:.80}"
    )


@runtime_checkable
class ToolSource(Protocol):
    """A source of several tools: an MCP server, or any object with a list of them."""

    @property
    def tools(self) -> Iterable[Any]:
        """The tools that it offers now."""
