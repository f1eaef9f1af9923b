"""Definitions: a class names a concept of the prompt, which other text then refers to.

Invariant: nothing is registered; a definition lives as long as the program holds it.
"""

from __future__ import annotations

import sys
from typing import TypeVar

from appl.errors import InvalidOption

D = TypeVar("D", bound="Definition")


class DefinitionType(type):
    """The metaclass of concepts: in an f-string the class refers to its concept."""

    def __str__(cls) -> str:
        return str(getattr(cls, "fstr", "{}")).format(_named(cls) or cls.__name__)

    def __format__(cls, spec: str) -> str:
        return format(str(cls), spec)

    def __repr__(cls) -> str:
        return _named(cls) or cls.__name__


def _named(kind: type) -> str | None:
    """The class's name for its concept, else the first line of its documentation."""
    name = getattr(kind, "name", None)
    if name:
        return str(name)
    for base in kind.__mro__:
        if base is Definition or base is BracketedDefinition:
            break
        if base.__doc__ and base.__doc__.strip():
            return base.__doc__.strip().splitlines()[0]
    return None


_NO_TEXT = (bool, int, float, complex, bytes, list, tuple, dict, set)


class Definition(metaclass=DefinitionType):
    """A concept with a name. The class stands for it, an instance states what it is::

        class Budget(BracketedDefinition):
            name = "Budget"

        Budget(desc="at most three calls")      # says "Budget: at most three calls"
        f"Stay within the {Budget}."            # says "Stay within the [Budget]."
        f"{Budget!r}"                           # says "Budget"

    The *name* is that of the class (its attribute ``name``, else its docstring) unless it is
    given; *desc* stands behind it, after *sep*; *details* are said as items of their own, and may
    be anything that can be said. *fstr* is how the concept is referred to, by the class and by
    ``str`` of the instance. *var_name* is what a program calls it; the name, if not given.
    """

    fstr: str = "{}"
    name: str | None = None
    desc: str = ""

    def __init__(
        self,
        name: str | None = None,
        desc: str | None = None,
        *,
        sep: str = ": ",
        details: object = None,
        fstr: str | None = None,
        var_name: str | None = None,
    ) -> None:
        if isinstance(name, _NO_TEXT):
            raise InvalidOption(
                f"{type(self).__name__}(name) is the concept's name, a text, got {name!r:.80}; "
                "what states it is desc=..."
            )
        title = name or _named(type(self))
        if not title:
            kind = type(self).__name__
            raise ValueError(
                f'this definition has no name; write {kind}("...", desc="..."), or '
                f'name = "..." in the class {kind}'
            )
        self.name = title
        if desc is not None:
            self.desc = desc
        if fstr is not None:
            self.fstr = fstr
        self.sep, self.details = sep, details
        self.var_name = var_name or title

    def __prompt__(self) -> list[object]:
        """The items that a statement adds: the name with its description, then the details."""
        return [f"{self.name}{self.sep}{self.desc or ''}", self.details]

    def __str__(self) -> str:
        return self.fstr.format(self.name)

    def __repr__(self) -> str:
        text = f"{self.name}{self.sep}{self.desc or ''}"
        return text if self.details is None else f"{text}\n{self.details}"


class BracketedDefinition(Definition):
    """A concept that is referred to in square brackets."""

    fstr = "[{}]"


def define(def_name: str, format_str: str = "{}") -> type[Definition]:
    """A class for the concept *def_name*; *format_str* is how it is referred to.

    A ``class`` statement does the same, and editors then find where the concept is used.
    """
    try:
        str.format(format_str, "")
    except (TypeError, LookupError, ValueError):
        raise InvalidOption(
            "define(format_str=...) is text in which {} stands for the name, got "
            f"{format_str!r:.80}"
        ) from None
    return _defined(Definition, def_name, {"name": def_name, "fstr": format_str})


def define_bracketed(def_name: str) -> type[BracketedDefinition]:
    """A class for the concept *def_name*, referred to in square brackets."""
    return _defined(BracketedDefinition, def_name, {"name": def_name})


def _defined(kind: type[D], name: str, fields: dict[str, object]) -> type[D]:
    """A subclass of *kind* that belongs to the module of whoever defines it."""
    if not isinstance(name, str) or not name.strip():
        raise InvalidOption(f'a concept needs a name, as in define("Goal"), got {name!r:.80}')
    module = sys._getframe(2).f_globals.get("__name__", __name__)
    return DefinitionType(name, (kind,), {**fields, "__module__": module})  # type: ignore[return-value]
