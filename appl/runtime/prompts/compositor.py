"""Compositors: ``with NumberedList():`` formats the items that are said in the block.

Invariant: a compositor object holds settings only, so that it may be entered again, inside itself,
and by several programs at once; each entry is a level of its own, whose numbers start again.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from types import FrameType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from appl.errors import InvalidOption, RunError, UnknownOption, nearest
from appl.prompt import USER, Format, Indexing, Level, Origin, Prompt, RoleName, Voice
from appl.runtime.frame import FRAME, Frame, PromptWriter
from appl.runtime.future_takers import taking_futures
from appl.runtime.prompts.context import PromptRecords
from appl.runtime.prompts.roles import AIRole, Role, Spoken, SystemRole, ToolRole, UserRole

T = TypeVar("T")
Indent = str | int
"""The text of an indentation, or its width in spaces."""


class _Signature:
    """The signature of a class: that of its ``__init__``."""

    def __get__(self, instance: object, kind: type) -> inspect.Signature:
        whole = inspect.signature(kind.__init__)  # type: ignore[misc]
        return whole.replace(parameters=list(whole.parameters.values())[1:])


class Compositor(Spoken):
    """A block with a format: what stands between its items, before each, and before their lines.

    *sep* stands between the items. *indexing* stands before each: an :class:`Indexing`, or its
    method (``"number"``, ``"dash"``, ``"##"``, …). *indent* (text, or a number of spaces) is added
    to the indentation around, and stands before every line of an item; *new_indent* replaces what
    is around. With *is_inline* the block is one item of the block around it. *role* says who
    speaks. What is not given is as the class says, and the separator else as in the block around.

    A subclass is a format with a name: ``class Quoted(LineSeparated, indent="> ")``.
    """

    format: ClassVar[Format] = Format()

    if not TYPE_CHECKING:
        __signature__ = _Signature()

        def __new__(cls, *args, **settings):
            names = _settings_of(cls) if settings else None
            for name in settings if names is not None else ():
                if name not in names:
                    public = [setting for setting in names if not setting.startswith("_")]
                    raise UnknownOption(
                        f"{cls.__name__} has no setting {name!r}{nearest(name, public)} "
                        f"(it has: {', '.join(public)})"
                    )
            return super().__new__(cls)

    def __init_subclass__(
        cls,
        sep: str | None = None,
        indexing: Indexing | str | None = None,
        indent: Indent | None = None,
        new_indent: Indent | None = None,
        is_inline: bool | None = None,
    ) -> None:
        super().__init_subclass__()
        own = sep, indexing, indent, new_indent, is_inline
        cls.format = _changed(cls.format, cls.__name__, *own)

    def __init__(
        self,
        sep: str | None = None,
        indexing: Indexing | str | None = None,
        indent: Indent | None = None,
        new_indent: Indent | None = None,
        is_inline: bool | None = None,
        role: RoleName | Role | None = None,
        *,
        _ctx: PromptWriter | None = None,
    ) -> None:
        super().__init__(_ctx=_ctx)
        name = type(self).__name__
        self._format = _changed(self.format, name, sep, indexing, indent, new_indent, is_inline)
        self._role = _role(role, name)

    def voice(self, around: Voice) -> Voice:
        inside = around if self._role is None else self._role.voice(around)
        return inside._replace(level=Level(around.level, self._format))


def _changed(
    format: Format,
    name: str,
    sep: str | None = None,
    indexing: Indexing | str | None = None,
    indent: Indent | None = None,
    new_indent: Indent | None = None,
    is_inline: bool | None = None,
) -> Format:
    """*format* with the settings that are given; of the two indents, the one given counts."""
    changes: dict[str, Any] = {}
    if sep is not None:
        changes["sep"] = _text(f"{name}(sep=...)", sep)
    if indexing is not None:
        if not isinstance(indexing, Indexing | str):
            raise InvalidOption(
                f'{name}(indexing=...) is a method such as "number", or Indexing(...), got '
                f"{indexing!r:.80}"
            )
        changes["indexing"] = Indexing(indexing) if isinstance(indexing, str) else indexing
    if indent is not None:
        changes |= {"indent": _spaces(indent, name), "new_indent": None}
    if new_indent is not None:
        if indent is not None:
            raise InvalidOption(
                f"{name}(indent={indent!r}, new_indent={new_indent!r}): indent is added to the "
                f"indentation around, new_indent replaces it; give one of them"
            )
        changes |= {"indent": "", "new_indent": _spaces(new_indent, name)}
    if is_inline is not None:
        if not isinstance(is_inline, bool):
            raise InvalidOption(f"{name}(is_inline=...) is True or False, got {is_inline!r:.80}")
        changes["inline"] = is_inline
    return replace(format, **changes) if changes else format


@lru_cache(maxsize=512)
def _settings_of(kind: type[Compositor]) -> tuple[str, ...] | None:
    """The settings that *kind* takes by name; ``None`` when it takes any."""
    parameters = inspect.signature(kind).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return tuple(parameter.name for parameter in parameters)


def _text(where: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidOption(f"{where} is text, got {value!r:.80}")
    return value


def _spaces(indent: Indent, name: str) -> str:
    if isinstance(indent, str):
        return indent
    if isinstance(indent, int) and indent >= 0:
        return " " * indent
    raise InvalidOption(f"{name}: an indent is text or a number of spaces, got {indent!r:.80}")


def _role(role: RoleName | Role | None, name: str) -> Role | None:
    if role is None or isinstance(role, Role):
        return role
    if role in _ROLES:
        return _ROLES[role]()
    raise InvalidOption(f"{name}(role={role!r:.80}): a role is one of {', '.join(_ROLES)}")


_ROLES: dict[RoleName, type[Role]] = {
    role.kind: role for role in (SystemRole, UserRole, AIRole, ToolRole)
}


class ApplStr(Compositor, sep="", is_inline=True):
    """Items that make one text: ``Hello, `` and ``world!`` are ``Hello, world!``."""


class LineSeparated(Compositor, sep="\n"):
    """Items on lines of their own."""


class DoubleLineSeparated(Compositor, sep="\n\n"):
    """Items with an empty line between them."""


class NoIndent(LineSeparated, new_indent=""):
    """Items on lines that are not indented, wherever they are."""


class IndentedList(LineSeparated, indent=4):
    """Items on lines that are indented by four spaces more."""


class NumberedList(LineSeparated, indexing="number"):
    """``1. ``, ``2. ``, ``3. ``"""


class LowerLetterList(LineSeparated, indexing="lower"):
    """``a. ``, ``b. ``, ``c. ``"""


class UpperLetterList(LineSeparated, indexing="upper"):
    """``A. ``, ``B. ``, ``C. ``"""


class LowerRomanList(LineSeparated, indexing="roman"):
    """``i. ``, ``ii. ``, ``iii. ``"""


class UpperRomanList(LineSeparated, indexing="Roman"):
    """``I. ``, ``II. ``, ``III. ``"""


class DashList(LineSeparated, indexing="dash"):
    """``- `` before each item."""


class StarList(LineSeparated, indexing="star"):
    """``* `` before each item."""


class Logged(LineSeparated):
    """A block that begins with the item *prolog* and ends with the item *epilog*.

    *indent* moves all of it, *indent_inside* what is between the two; the other settings are for
    the items between. An exception that leaves the block leaves the epilog out.
    """

    def __init__(
        self,
        sep: str | None = None,
        indexing: Indexing | str | None = None,
        *,
        prolog: str,
        epilog: str,
        indent_inside: Indent | None = None,
        indent: Indent | None = None,
        new_indent: Indent | None = None,
        is_inline: bool | None = None,
        role: RoleName | Role | None = None,
        _ctx: PromptWriter | None = None,
    ) -> None:
        super().__init__(indent=indent, role=role, _ctx=_ctx)
        name, inner = type(self).__name__, replace(self.format, indent="", new_indent=None)
        self.prolog = _text(f"{name}(prolog=...)", prolog)
        self.epilog = _text(f"{name}(epilog=...)", epilog)
        if indent_inside is not None and new_indent is None:
            inner = _changed(inner, name, indent=indent_inside)
        self._inner = _changed(inner, name, sep, indexing, None, new_indent, is_inline)

    def begin(self, writer: PromptWriter) -> None:
        super().begin(writer)
        around = writer.voice
        writer.prompt.say(around, self.prolog, site=_statement())
        writer.voice = around._replace(level=Level(around.level, self._inner))

    def end(self, writer: PromptWriter) -> None:
        inside = writer.voice
        assert inside.level is not None
        outside = inside._replace(level=inside.level.outer)
        writer.prompt.say(outside, self.epilog, site=_statement())


def _statement() -> Origin:
    """The user's statement that runs, such as the ``with`` whose block begins or ends."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("appl."):
        frame = frame.f_back
    return (frame.f_code, frame.f_lasti) if frame is not None else None


class Tagged(Logged):
    """A block between ``<tag>`` and ``</tag>``, each on a line of its own.

    *attrs* are the attributes of the tag; their values are escaped. *tag_begin* gets the tag and
    the attributes, *tag_end* the tag, as ``str.format`` puts them in.
    """

    def __init__(
        self,
        tag: str,
        sep: str | None = None,
        indexing: Indexing | str | None = None,
        *,
        attrs: Mapping[str, Any] | None = None,
        tag_begin: str = "<{}{}>",
        tag_end: str = "</{}>",
        indent_inside: Indent | None = None,
        indent: Indent | None = None,
        new_indent: Indent | None = None,
        is_inline: bool | None = None,
        role: RoleName | Role | None = None,
        _ctx: PromptWriter | None = None,
    ) -> None:
        name = type(self).__name__
        if not isinstance(tag, str) or not tag.strip() or _NO_TAG.search(tag):
            raise InvalidOption(
                f'{name}(tag) is the name alone, as in {name}("note"), got {tag!r:.80}'
            )
        if not isinstance(attrs, Mapping | None):
            raise InvalidOption(f"{name}(attrs=...) takes a dict, got {attrs!r:.80}")
        for attribute in attrs or {}:
            if not isinstance(attribute, str) or _NO_ATTRIBUTE.search(attribute):
                raise InvalidOption(
                    f"{name}(attrs=...): {attribute!r:.80} is no name of an attribute"
                )
        escaped = {name: str(value).translate(_ENTITIES) for name, value in (attrs or {}).items()}
        shown = "".join(f' {name}="{value}"' for name, value in escaped.items())
        super().__init__(
            sep,
            indexing,
            prolog=tag_begin.format(tag, shown),
            epilog=tag_end.format(tag),
            indent_inside=indent_inside,
            indent=indent,
            new_indent=new_indent,
            is_inline=is_inline,
            role=role,
            _ctx=_ctx,
        )


_NO_TAG = re.compile(r"[<>\n]")
_NO_ATTRIBUTE = re.compile(r"[<>\s\"'=]|^$")


_ENTITIES = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\n": "&#10;", "\t": "&#9;"}
)


class InlineTagged(Tagged, sep="", is_inline=True):
    """A block between ``<tag>`` and ``</tag>`` within one line, or one item of a list."""


def compositor_of(value: object, where: str) -> Compositor | None:
    """*value* as a compositor; a class is itself with its defaults. Raises ``TypeError``."""
    if value is None or isinstance(value, Compositor):
        return value
    if isinstance(value, type) and issubclass(value, Compositor):
        return value()
    raise TypeError(f"{where} takes a compositor such as NumberedList(), got {value!r:.80}")


@taking_futures
def iter(lst: Iterable[T], compositor: Compositor | type[Compositor] | None = None) -> Iterator[T]:
    """The elements of *lst*, with *compositor* (a numbered list, if none is given) around them.

    It is entered at the first element and left when the loop ends, however it ends::

        for question in appl.iter(questions):
            question
    """
    if not isinstance(lst, Iterable):
        raise InvalidOption(f"appl.iter() takes a list of items, got {lst!r:.80}")
    layout = compositor_of(compositor, "iter(compositor=...)") or NumberedList()
    entered: Frame | None = None
    try:
        for element in lst:
            if entered is None:
                if not layout.has_prompt:
                    raise RunError(
                        "appl.iter() has no prompt here: use it in a @ppl function; Python's own "
                        "is builtins.iter()"
                    )
                layout.__enter__()
                entered = FRAME.get()
            yield element
    finally:
        if entered is not None:  # a forgotten loop may be collected while another program runs
            kind = None if FRAME.get() is entered else GeneratorExit
            layout.__exit__(kind, None, None)


def empty_line(num_lines: int = 1) -> PromptRecords:
    """Empty lines, as a value to say: without index or indent, whatever compositor is around."""
    if type(num_lines) is not int or num_lines < 0:
        raise InvalidOption(f"empty_line(num_lines) is how many, at least 0, got {num_lines!r:.80}")
    writer = PromptWriter("", Prompt())
    voice = USER._replace(level=Level(None, NoIndent.format))
    for _ in range(num_lines):
        writer.prompt.say(voice, "")
    return PromptRecords(writer)
