"""Attributes that tools of APPL 0.2 have besides those of today, read from their functions.

Invariant: nothing is made, and neither pydantic nor the docstring parser loaded, before a program
uses one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from appl.base.fallback import MISSING
from appl.parts.compat.older import told_once

NAMES = tuple(
    "params returns raises examples short_desc long_desc info to_str openai_schema".split()
)
"""The attributes of APPL's tools that have no other name today."""


def of_tool(tool: object, name: str) -> object:
    """The attribute *name* of *tool*, or ``MISSING``."""
    if name not in NAMES:
        return MISSING
    read: Callable[[object], object] = globals()[f"_{name}"]
    return read(tool)


def _documented(tool: Any) -> Any:
    import docstring_parser as parser  # only tools with a docstring need it

    return parser.parse(getattr(tool.func, "__doc__", None) or tool.description)


def _signature(tool: Any) -> inspect.Signature:
    return inspect.signature(tool.function(), eval_str=True)


def _params(tool: Any) -> object:
    """The parameters that the model sees, as a pydantic model."""
    about = {param.arg_name: param.description for param in _documented(tool).params}
    shown = tool.parameters.get("properties", {})
    fields = {
        name: _field(parameter.annotation, parameter.default, about.get(name))
        for name, parameter in _signature(tool).parameters.items()
        if name in shown
    }
    from pydantic import create_model  # only typed answers and tools need it

    return create_model("parameters", **fields)


def _returns(tool: object) -> object:
    """The return value of the function, as a pydantic model with the field ``returns``."""
    documented = _documented(tool).returns
    empty = inspect.Parameter.empty
    field = _field(
        _signature(tool).return_annotation, empty, documented.description if documented else None
    )
    from pydantic import create_model  # only typed answers and tools need it

    return create_model("returns", returns=field)


def _field(annotation: object, default: object, about: str | None) -> Any:
    import pydantic  # only typed answers and tools need it

    kind = Any if annotation is inspect.Parameter.empty else annotation
    value = ... if default is inspect.Parameter.empty else default
    return kind, pydantic.Field(value, description=about)


def _raises(tool: object) -> list[dict[str, str | None]]:
    """The exceptions that the docstring names."""
    raises = _documented(tool).raises
    return [{"type": documented.type_name, "desc": documented.description} for documented in raises]


def _examples(tool: object) -> list[Any]:
    return list(_documented(tool).examples)


def _short_desc(tool: object) -> str:
    return _documented(tool).short_description or ""


def _long_desc(tool: object) -> str:
    return _documented(tool).long_description or ""


def _openai_schema(tool: Any) -> object:
    told_once("tool.openai_schema", "tool.as_dict()")
    return tool.as_dict()


def _info(tool: object) -> dict[str, object]:
    return {}


def _to_str(tool: Any) -> Callable[[], str]:
    """The head of the function, as text for a prompt."""
    head = f"def {tool.name}{_signature(tool)}:"
    return lambda: f'{head}\n    """{getattr(tool.func, "__doc__", None)}"""'
