"""``typing.TypedDict`` before Python 3.12, which pydantic takes only from ``typing_extensions``.

Invariant: what is no such class, and holds none among its arguments, stays the same object.
"""

from __future__ import annotations

import sys
import types
import typing
from typing import Any


def with_typed_dicts(kind: object) -> object:
    """*kind* with the classes of ``typing.TypedDict`` as pydantic understands them."""
    if sys.version_info >= (3, 12):
        return kind
    return _rebuilt(kind, {})


def _rebuilt(kind: Any, done: dict[object, object]) -> object:
    if typing.is_typeddict(kind) and type(kind).__module__ == "typing":
        return _typed_dict(kind, done)
    arguments = typing.get_args(kind)
    if not arguments or typing.get_origin(kind) is typing.Literal:
        return kind
    if typing.get_origin(kind) is typing.Annotated:
        return typing.Annotated[_rebuilt(arguments[0], done), *kind.__metadata__]
    changed = tuple(_rebuilt(argument, done) for argument in arguments)
    if all(a is b for a, b in zip(changed, arguments, strict=True)):
        return kind
    if isinstance(kind, types.UnionType):
        return typing.Union[changed]  # noqa: UP007 # built from parts
    return kind.copy_with(changed) if hasattr(kind, "copy_with") else kind.__origin__[changed]


def _typed_dict(kind: Any, done: dict[object, object]) -> object:
    if kind in done:
        return done[kind]
    import typing_extensions as extensions  # only typed answers and tools need it

    hints = typing.get_type_hints(kind, include_extras=True)
    fields = {}
    for name, hint in hints.items():
        bare = _rebuilt(hint, done)
        wrapped = extensions.Required if name in kind.__required_keys__ else extensions.NotRequired
        fields[name] = wrapped[bare]
    make: Any = extensions.TypedDict
    copy = done[kind] = make(kind.__name__, fields)
    copy.__doc__, copy.__module__ = kind.__doc__, kind.__module__
    return copy
