"""``typing.TypedDict`` before Python 3.12, which pydantic takes only from ``typing_extensions``.

Invariant: what is no such class, and holds none among its arguments, stays the same object.
"""

from __future__ import annotations

import sys
import types
import typing
from typing import Any


def with_typed_dicts(kind: Any, copies: dict[object, object] | None = None) -> object:
    """*kind* with the classes of ``typing.TypedDict`` as pydantic understands them.

    *copies* are those that were rebuilt already, as a class may hold itself.
    """
    if sys.version_info >= (3, 12):
        return kind
    copies = {} if copies is None else copies
    if typing.is_typeddict(kind) and type(kind).__module__ == "typing":
        if kind in copies:
            return copies[kind]
        import typing_extensions as extensions  # only typed answers and tools need it

        fields = {}
        for name, hint in typing.get_type_hints(kind, include_extras=True).items():
            is_required = name in kind.__required_keys__
            wrapped = extensions.Required if is_required else extensions.NotRequired
            fields[name] = wrapped[with_typed_dicts(hint, copies)]
        make: Any = extensions.TypedDict
        copy = copies[kind] = make(kind.__name__, fields)
        copy.__doc__, copy.__module__ = kind.__doc__, kind.__module__
        return copy
    arguments = typing.get_args(kind)
    if not arguments or typing.get_origin(kind) is typing.Literal:
        return kind
    if typing.get_origin(kind) is typing.Annotated:
        return typing.Annotated[with_typed_dicts(arguments[0], copies), *kind.__metadata__]
    changed = tuple(with_typed_dicts(argument, copies) for argument in arguments)
    if all(a is b for a, b in zip(changed, arguments, strict=True)):
        return kind
    if isinstance(kind, types.UnionType):
        return typing.Union[changed]  # noqa: UP007 # built from parts
    return kind.copy_with(changed) if hasattr(kind, "copy_with") else kind.__origin__[changed]
