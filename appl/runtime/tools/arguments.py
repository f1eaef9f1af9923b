"""The arguments of a tool call: JSON text that a model wrote, read without mercy.

Invariant: what is read is one JSON object in the strict sense, no name twice, every number finite
where it is used; everything else raises ``BadArguments``, whose text is meant for the model.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from appl.errors import nearest

_SHOWN = 80


class BadArguments(ValueError):
    """The arguments of a call are not what the tool takes; says what is wrong with them."""


def read_object(text: str) -> dict[str, object]:
    """The JSON object in *text*; an empty text is an object without members."""
    if not text.strip():
        return {}
    try:
        value = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_once)
    except RecursionError:
        raise BadArguments("the arguments are nested too deeply") from None
    except BadArguments:
        raise
    except json.JSONDecodeError as error:
        raise BadArguments(f"the arguments are not valid JSON: {error}") from None
    except ValueError:
        raise BadArguments("the arguments hold a number with thousands of digits") from None
    if not isinstance(value, dict):
        raise BadArguments(f"the arguments must be one JSON object, got {shown(value)}")
    return value


def _no_constant(name: str) -> object:
    raise BadArguments(f"the arguments are not valid JSON: {name} is no JSON value")


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    arguments = dict(pairs)
    if len(arguments) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise BadArguments(f"the name {shown(twice)} stands twice in one object")
    return arguments


def refuse_unknown(names: Iterable[str], parameters: Iterable[str]) -> None:
    """Refuse the names that a tool does not take."""
    takes = list(parameters)
    for name in names:
        if name not in takes:
            has = f"it takes {', '.join(takes)}" if takes else "it takes none"
            raise BadArguments(f"unknown argument {shown(name)} ({has}){nearest(name, takes)}")


def shown(value: object) -> str:
    """*value* as JSON, cut to a readable length."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = object.__repr__(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
