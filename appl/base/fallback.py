"""The modules that answer for names, options and settings which nothing else here knows.

Invariant: this imports nothing. ``appl`` says where the modules are; the first question loads them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Set
from typing import Any, Final, Protocol

MISSING: Final = object()
"""The value of an attribute that does not exist."""

DUMMY = "_dummy"
"""A model that answers what a call says: ``gen("_dummy", mock_response="…")``."""

WORDS_OF_CALL = frozenset({"executor_type"})
"""Arguments of ``call`` that may be meant for ``call`` itself."""


class AlternativeNames(Protocol):
    """Knows other names of attributes and options."""

    def attribute(self, owner: object, value: object, name: str) -> object:
        """The attribute *name* of *owner*, whose value is *value*; or ``MISSING``."""

    def options(
        self,
        fields: dict[str, object],
        extra: dict[str, object],
        parameters: Set[str],
        typed: bool,
        messages: object = None,
    ) -> dict[str, Any]:
        """Put what *extra* says of the sampling into *fields*; return the other options.

        Both are taken out of *extra*. The names in *parameters* are the backend's own, and stay.
        *typed* says that there is a ``response_format``; *messages* are those that were given.
        """

    def instead(self, option: str) -> str:
        """A hint in place of the *option* of ``gen``; an empty string if there is none."""

    def filter_of(self, answer: object, filter: object, options: dict[str, object]) -> Any:
        """The filter that *options* of ``run_tool_calls`` mean. Raises ``UnknownOption``."""

    def arguments(self, f: object, arguments: dict[str, object]) -> dict[str, object]:
        """The *arguments* of ``call`` that are meant for *f*."""

    def decorator(self, options: dict[str, Any], parameters: Collection[str]) -> dict[str, Any]:
        """The *options* of ``ppl`` under the names in *parameters*. Raises ``UnknownOption``."""

    def context(self, ctx: str, contexts: Collection[str]) -> str:
        """The context in *contexts* that ``ppl(ctx=…)`` means; *ctx* itself if there is none."""


class Layouts(Protocol):
    """Knows another layout of the settings, with these ``KEYS`` at its top."""

    KEYS: tuple[str, ...]
    MODEL: tuple[str, str]
    """The model that it means where it names none, and where that is said."""

    def translated(
        self, values: Mapping[str, object], origin: str
    ) -> tuple[Mapping[str, object], list[str]]:
        """*values* in the layout of today, and notes on those that have no meaning."""


names: Callable[[], AlternativeNames]
"""The module that knows other names."""

layouts: Callable[[], Layouts]
"""The module that knows another layout of the settings."""


def attribute(owner: object, name: str) -> object:
    """The attribute *name* that the class of *owner* does not have. Raises ``AttributeError``."""
    special = name.startswith("__")  # Python looks for these in every object
    result = MISSING if special else names().attribute(owner, owner, name)  # noqa: F821 - set by appl
    if result is MISSING:
        kind = type(owner).__name__
        raise AttributeError(f"{kind!r} object has no attribute {name!r}", name=name, obj=owner)
    return result
