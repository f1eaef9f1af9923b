"""The check of the tables of backends in the settings, by the backends' own signatures.

Invariant: a table or a setting that would have no effect is refused, with the nearest that has one.
"""

from __future__ import annotations

import contextlib
import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Union, get_args, get_origin

from appl.backend import installed, named
from appl.config import SecretSetting
from appl.errors import ConfigError, nearest
from appl.session.backend_setup import TYPE, UNINSTALLED

_NUMBERS: dict[object, tuple[type, ...]] = {float: (int, float), int: (int,)}
_MODULE = re.compile(r"(?:typing|collections\.abc)\.")
_CLOSE = 0.75  # how near a foreign backend's name must be to one that is installed to be a slip


def checked(tables: Mapping[str, Mapping[str, Any]], backend: str) -> tuple[str, bool]:
    """The name of the factory of *backend*, and True if it takes the name of its table.

    Raises ``ConfigError`` if one of *tables* has a wrong name, or *backend*'s a wrong setting.
    """
    check_names(tables)
    table = tables.get(backend, {})
    check_settings(backend, table)
    name = str(table.get(TYPE, backend))
    if name == backend or (factory := _factory(name)) is None:
        return name, False
    with contextlib.suppress(TypeError, ValueError):  # one without a signature
        return name, "name" in inspect.signature(factory).parameters
    return name, False


def check_names(backends: Mapping[str, Mapping[str, object]]) -> None:
    """Refuse a table whose name is close to that of an installed backend.

    A table with a ``type`` may have any name, but that type must exist.
    """
    names = {*installed(), *UNINSTALLED}
    for name, table in backends.items():
        kind = table.get(TYPE)
        if kind is not None:
            if not isinstance(kind, str) or (kind not in names and ":" not in kind):
                raise ConfigError(
                    f"[backends.{name}] type must be a backend, got {kind!r}"
                    f"{nearest(str(kind), names)} (installed: {', '.join(sorted(names))}; or write "
                    "module:attribute)"
                )
            if name in names and name != kind:
                raise ConfigError(
                    f"[backends.{name}] is always the backend {name!r}; for type = {kind!r} choose "
                    f"another name, as in [backends.my-{name}]"
                )
        elif name not in names and ":" not in name and (hint := nearest(name, names, _CLOSE)):
            raise ConfigError(f"[backends.{name}]: there is no backend {name!r}{hint}")


def check_settings(name: str, table: Mapping[str, Any]) -> None:
    """Refuse settings that the backend *name* does not take, by its own signature."""
    check_names({name: table})
    factory = _factory(table.get(TYPE, name))
    table = {key: value for key, value in table.items() if key != TYPE}
    if factory is None:
        return
    try:
        parameters = inspect.signature(factory).parameters
    except (TypeError, ValueError):  # one without a signature
        return
    named = {
        key: parameter
        for key, parameter in parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }
    open_ended = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    kinds = _kinds(factory)
    for key, value in table.items():
        if key in named:
            _check_value(f"[backends.{name}] {key}", value, kinds.get(key, Any))
        elif not open_ended:
            names = ", ".join(named) or "none"
            raise ConfigError(
                f"[backends.{name}] has no setting {key!r}{nearest(key, named)} (it has: {names})"
            )
    absent = [
        key
        for key, parameter in named.items()
        if parameter.default is parameter.empty and key not in table
    ]
    if absent:
        raise ConfigError(
            f"the backend {name!r} needs the setting {absent[0]!r}: write [backends.{name}] "
            f"{absent[0]} = … into appl.toml"
        )


def _factory(name: str) -> Callable[..., object] | None:
    """The factory of the backend *name*; ``None`` if making it will say what is wrong."""
    point = installed().get(name)
    try:
        if point is not None:
            factory = point.load()
        else:
            written = UNINSTALLED.get(name, name)
            factory = named(written) if ":" in written else None
    except (ImportError, AttributeError):
        return None
    return factory if callable(factory) else None


def _kinds(factory: Callable[..., object]) -> dict[str, object]:
    """The annotations of *factory*, as far as they can be evaluated."""
    annotated: object = factory.__init__ if isinstance(factory, type) else factory  # type: ignore[misc]
    try:
        return typing.get_type_hints(annotated)
    except Exception:  # an annotation that names what is not there is no reason to refuse
        return {}


def _check_value(where: str, value: object, kind: object) -> None:
    if not _fits(value, kind):
        wanted = kind.__name__ if isinstance(kind, type) else _MODULE.sub("", str(kind))
        raise ConfigError(f"{where} must be {wanted}, got {value!r:.80}")


def _fits(value: object, kind: object) -> bool:
    """True if *value* is of *kind*, as far as a simple check can tell."""
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if get_origin(kind) in (Union, types.UnionType):
        return any(_fits(value, option) for option in get_args(kind))
    if isinstance(value, SecretSetting):
        return True
    if get_origin(kind) is Mapping:
        *_, inner = get_args(kind)
        return isinstance(value, Mapping) and all(_fits(item, inner) for item in value.values())
    if get_origin(kind) is Sequence:
        (inner,) = get_args(kind)
        return isinstance(value, list | tuple) and all(_fits(item, inner) for item in value)
    if kind in _NUMBERS:
        return isinstance(value, _NUMBERS[kind]) and not isinstance(value, bool)
    return kind not in (str, bool, types.NoneType) or isinstance(value, kind)
