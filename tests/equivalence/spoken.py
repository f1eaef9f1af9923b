"""Roles, compositors and definitions as plain Python sees them: what stands in a block.

The classes are made for one world each, as they speak in the frame that runs there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .layout import Block, Index, Look, Voice

if TYPE_CHECKING:
    from .plain import Plain, Scribe


class Spoken:
    """A ``with`` block that changes the voice of what is said inside."""

    world: Plain

    def __init__(self, *, _ctx: Scribe | None = None) -> None:
        self.ctx = _ctx
        self.entered: list[Scribe] = []

    def inside(self, around: Voice) -> Voice:
        raise NotImplementedError

    def begin(self, scribe: Scribe) -> None:
        scribe.voices[-1] = self.inside(scribe.voice)

    def end(self, scribe: Scribe) -> None:
        """The block has ended well."""

    def __enter__(self) -> Spoken:
        scribe = self.ctx or self.world.frames[-1]
        self.entered.append(scribe)
        scribe.voices.append(scribe.voice)
        self.begin(scribe)
        return self

    def __exit__(self, kind: Any, *error: Any) -> None:
        scribe = self.ctx or self.world.frames[-1]
        if scribe not in self.entered:
            scribe = self.entered[-1]
        self.entered.remove(scribe)
        if kind is None:
            self.end(scribe)
        scribe.voices.pop()


class Role(Spoken):
    kind = ""

    def __init__(self, name: str | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.name = name

    def inside(self, around: Voice) -> Voice:
        return Voice(self.kind, self.name, around.path, around.depth + 1)


class Compositor(Spoken):
    look = Look()

    def __init_subclass__(cls, **settings: Any) -> None:
        cls.look = changed(cls.look, **settings)

    def __init__(
        self, sep: str | None = None, indexing: Any = None, indent: Any = None,
        new_indent: Any = None, is_inline: bool | None = None, role: Any = None, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(**options)
        self.own = changed(self.look, sep, indexing, indent, new_indent, is_inline)
        self.role = role

    def inside(self, around: Voice) -> Voice:
        if isinstance(self.role, Role):
            around = self.role.inside(around)
        elif self.role is not None:
            around = Voice(self.role, None, around.path, around.depth + 1)
        return replace(around, path=(*(around.path or ()), Block(self.own)))


def changed(
    look: Look, sep: str | None = None, indexing: Any = None, indent: Any = None,
    new_indent: Any = None, is_inline: bool | None = None,
) -> Look:  # fmt: skip
    """*look* with what is given; of the two indents the one that is given counts."""
    width = lambda given: given if isinstance(given, str) else " " * given  # noqa: E731
    if sep is not None:
        look = replace(look, sep=sep)
    if indexing is not None:
        look = replace(look, index=Index(indexing) if isinstance(indexing, str) else indexing)
    if indent is not None:
        look = replace(look, indent=width(indent), new_indent=None)
    if new_indent is not None:
        look = replace(look, indent="", new_indent=width(new_indent))
    if is_inline is not None:
        look = replace(look, inline=is_inline)
    return look


class Logged(Compositor, sep="\n"):
    """Begins and ends with an item of its own; what is between is a block inside."""

    def __init__(
        self, sep: str | None = None, indexing: Any = None, *, prolog: str, epilog: str,
        indent_inside: Any = None, indent: Any = None, new_indent: Any = None,
        is_inline: bool | None = None, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(indent=indent, **options)
        self.prolog, self.epilog = prolog, epilog
        self.inner = changed(
            replace(self.look, indent="", new_indent=None), sep, indexing,
            None if new_indent is not None else indent_inside, new_indent, is_inline,
        )  # fmt: skip

    def begin(self, scribe: Scribe) -> None:
        super().begin(scribe)
        scribe.write(self.prolog)
        outer = scribe.voice
        scribe.voices[-1] = replace(outer, path=(*(outer.path or ()), Block(self.inner)))

    def end(self, scribe: Scribe) -> None:
        inner = scribe.voice
        scribe.voices[-1] = replace(inner, path=(inner.path or ())[:-1])
        scribe.write(self.epilog)


class Tagged(Logged):
    def __init__(
        self, tag: str, sep: str | None = None, indexing: Any = None, *, attrs: Any = None,
        **options: Any,
    ) -> None:  # fmt: skip
        shown = "".join(f' {name}="{value}"' for name, value in (attrs or {}).items())
        super().__init__(sep, indexing, prolog=f"<{tag}{shown}>", epilog=f"</{tag}>", **options)


class InlineTagged(Tagged, sep="", is_inline=True):
    pass


LINES = {
    "LineSeparated": {}, "IndentedList": {"indent": 4}, "NoIndent": {"new_indent": ""},
    "NumberedList": {"indexing": "number"}, "LowerLetterList": {"indexing": "lower"},
    "UpperLetterList": {"indexing": "upper"}, "LowerRomanList": {"indexing": "roman"},
    "UpperRomanList": {"indexing": "Roman"}, "DashList": {"indexing": "dash"},
    "StarList": {"indexing": "star"},
}  # fmt: skip
ROLES = {"AIRole": "assistant", "UserRole": "user", "SystemRole": "system"}


def vocabulary(world: Plain) -> dict[str, Any]:
    """The names of roles and compositors, as classes that speak in *world*."""
    made: dict[str, Any] = {
        name: type(name, (Role,), {"kind": kind, "world": world}) for name, kind in ROLES.items()
    }
    for each in (Compositor, Logged, Tagged, InlineTagged):
        made[each.__name__] = type(each.__name__, (each,), {"world": world})
    plain = made["Compositor"]
    made["ApplStr"] = type("ApplStr", (plain,), {}, sep="", is_inline=True)
    made["DoubleLineSeparated"] = type("DoubleLineSeparated", (plain,), {}, sep="\n\n")
    for name, settings in LINES.items():
        made[name] = type(name, (plain,), {}, sep="\n", **settings)
    made["Indexing"] = Index
    return made


def numbered(world: Plain, items: Iterable[Any], compositor: Any = None) -> Iterator[Any]:
    """``appl.iter``: a block around a loop, entered at its first element."""
    block = compositor or vocabulary(world)["NumberedList"]()
    entered: Scribe | None = None
    try:
        for item in items:
            if entered is None:
                block.__enter__()
                entered = world.frames[-1]
            yield item
    finally:
        if entered is not None:
            block.__exit__(None if world.frames[-1] is entered else GeneratorExit, None, None)


class Concept(type):
    """The class of a definition stands for its concept in an f-string."""

    def __format__(cls, spec: str) -> str:
        return format(cls.fstr.format(cls.name), spec)  # type: ignore[attr-defined]


class Definition(metaclass=Concept):
    fstr = "{}"
    name = ""

    def __init__(self, name: str = "", desc: str = "", *, sep: str = ": ", details: Any = None):
        self.name = name or type(self).name
        self.said = [f"{self.name}{sep}{desc}", details]

    def __prompt__(self) -> list[Any]:
        return self.said


class BracketedDefinition(Definition):
    fstr = "[{}]"
