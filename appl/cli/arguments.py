"""``--name value`` for the parameters of a function: its signature is its command line.

Invariant: what the user wrote is converted by the parameter's annotation or refused with a
sentence; a parameter that is not given keeps the function's own default.
"""

from __future__ import annotations

import argparse
import inspect
import json
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Union, get_args, get_origin

from appl.cli.target import UsageError
from appl.config import switch
from appl.errors import nearest

_MANY = (list, tuple, set, frozenset, Sequence, Iterable)
_SIMPLE: dict[Any, Callable[[str], Any]] = {str: str, int: int, float: float, bool: switch}
_UNKNOWN = inspect.Parameter.empty


def bind(
    function: Callable[..., Any],
    argv: list[str],
    common: argparse.ArgumentParser,
    prog: str,
    *,
    partly: bool = False,
) -> tuple[dict[str, Any], argparse.Namespace]:
    """Keyword arguments for *function* out of *argv*, and the options of *common* among them.

    A parameter wins over a common option of the same name; with *partly*, required ones may be
    left out. Exits as argparse does on ``--help``
    and on wrong usage.
    """
    parameters = _parameters(function)
    parser = _parser(function, parameters, common, prog)
    wrong = _stray(argv)
    if wrong is not None:
        parser.error(f"give arguments by name, as --name value; got {wrong!r}")
    given, unknown = parser.parse_known_args(argv)
    if unknown:
        known = [f"--{name.replace('_', '-')}" for name in parameters]
        parser.error(
            f"{function.__name__} has no parameter {unknown[0]}{nearest(unknown[0], known)}"
        )
    written = {name: getattr(given, _dest(name)) for name in parameters}
    absent = [
        f"--{name.replace('_', '-')}"
        for name, (_, default) in parameters.items()
        if default is _UNKNOWN and written[name] is None
    ]
    if absent and not partly:
        parser.error(f"{function.__name__} needs {', '.join(absent)}; --help shows all parameters")
    values = {
        name: _convert(name, parameters[name][0], raw)
        for name, raw in written.items()
        if raw is not None
    }
    return values, given


def _dest(name: str) -> str:
    return f"param {name}"  # a space: no common option can have this name


def _stray(argv: list[str]) -> str | None:
    return argv[0] if argv and not argv[0].startswith("-") else None


def _parameters(function: Callable[..., Any]) -> dict[str, tuple[Any, Any]]:
    """Annotation and default of each parameter that can be given by name."""
    target = inspect.unwrap(function)
    try:
        hints = typing.get_type_hints(target, include_extras=True)
    except Exception:  # an annotation that names what is not there is no reason to refuse
        hints = {}
    found: dict[str, tuple[Any, Any]] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.POSITIONAL_ONLY and parameter.default is _UNKNOWN:
            raise UsageError(f"parameter {name!r} cannot be given by name; remove the '/' after it")
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            found[name] = (hints.get(name, _guess(parameter)), parameter.default)
    return found


def _guess(parameter: inspect.Parameter) -> Any:
    """The type of a parameter without annotation: its default's, or text."""
    kind = type(parameter.default)
    return kind if kind in (*_SIMPLE, list, dict) else str


def _parser(
    function: Callable[..., Any],
    parameters: Mapping[str, tuple[Any, Any]],
    common: argparse.ArgumentParser,
    prog: str,
) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=prog,
        description=inspect.getdoc(function) or f"Run {function.__name__}.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[common],
        conflict_handler="resolve",
        allow_abbrev=False,
    )
    group = parser.add_argument_group("parameters of the function")
    for name, (annotation, default) in parameters.items():
        _option(group, name, annotation, default)
    return parser


def _option(group: argparse._ArgumentGroup, name: str, annotation: Any, default: Any) -> None:
    dest, dashed = _dest(name), name.replace("_", "-")
    shown = "required" if default is _UNKNOWN else f"default: {default!r}".replace("%", "%%")
    flags = list(dict.fromkeys((f"--{dashed}", f"--{name}")))
    if annotation is bool:
        group.add_argument(
            *flags,
            dest=dest,
            nargs="?",
            const="on",
            metavar="on|off",
            help=f"{shown}; or --no-{dashed}",
        )
        group.add_argument(
            f"--no-{dashed}", dest=dest, action="store_const", const="off", help=argparse.SUPPRESS
        )
        return
    many = _is_many(annotation)
    metavar = _type_name(_element(annotation) if many else annotation).replace("%", "%%")
    action = "append" if many else "store"
    shown = f"may be repeated; {shown}" if many else shown
    group.add_argument(*flags, dest=dest, action=action, metavar=metavar, help=shown)


def _type_name(annotation: Any) -> str:
    if _is_many(annotation):
        return f"{_type_name(_element(annotation))} (may be repeated)"
    if get_origin(annotation) is Literal:
        return "|".join(map(str, get_args(annotation)))
    return getattr(annotation, "__name__", None) or str(annotation).replace("typing.", "")


def _is_many(annotation: Any) -> bool:
    return annotation in _MANY or get_origin(annotation) in _MANY


def _element(annotation: Any) -> Any:
    inner = [arg for arg in get_args(annotation) if arg is not Ellipsis]
    return inner[0] if len(inner) == 1 else str


def _convert(name: str, annotation: Any, raw: str | list[str]) -> Any:
    try:
        if isinstance(raw, list):
            return _many(annotation, raw)
        return _one(annotation, raw)
    except ValueError as error:
        shown = raw if isinstance(raw, str) else " ".join(raw)
        raise UsageError(
            f"--{name} needs {_type_name(annotation)}, got {shown!r}{_reason(error)}"
        ) from None


def _reason(error: ValueError) -> str:
    """What pydantic has against a value, in its words; other messages only repeat the value."""
    errors = getattr(error, "errors", None)
    return f" ({errors()[0]['msg']})" if callable(errors) else ""


def _one(annotation: Any, raw: str) -> Any:
    simple = _SIMPLE.get(annotation)
    if simple is not None:
        return simple(raw)
    if annotation is Any or (_is_optional(annotation) and str in get_args(annotation)):
        return raw
    return _checked(annotation, raw)


def _is_optional(annotation: Any) -> bool:
    return get_origin(annotation) in (Union, types.UnionType)


def _many(annotation: Any, raw: list[str]) -> Any:
    if len(raw) == 1 and raw[0].lstrip().startswith("["):
        return _checked(annotation, raw[0])
    items = [_one(_element(annotation), item) for item in raw]
    make = get_origin(annotation) or annotation
    return make(items) if make in (tuple, set, frozenset) else items


def _checked(annotation: Any, raw: str) -> Any:
    """JSON where it looks like JSON, else the word itself, made an *annotation* by pydantic."""
    from pydantic import TypeAdapter  # noqa: PLC0415  (heavy, and most parameters need none)

    adapter: Any = TypeAdapter(annotation)
    if raw.lstrip()[:1] in ("{", "["):
        return adapter.validate_json(raw)
    try:
        return adapter.validate_strings(raw)
    except ValueError:
        return adapter.validate_python(_json_or_text(raw))


def _json_or_text(raw: str) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        return raw
