"""Secrets kept out of what is written: found by value, masked, and the record marked.

Invariant: no string of a record that ``Masker.filter`` let pass holds a known secret in one of its
forms, or what has the shape of a well-known key. Known are the values of secret-looking environment
variables, those that programs gave to backends, and those given.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from appl.prompt.key_patterns import FIRST
from appl.prompt.key_search import SEVEN_BITS, is_any
from appl.prompt.secret import (
    CONCEALED,
    ENVIRONMENT,
    LONG_ENOUGH as MIN_LENGTH,
    values_in,
)

if TYPE_CHECKING:
    from appl.prompt.secret_forms import SecretForms
    from appl.prompt.text_search import Instead

_AT_ONCE = 48
"""Literals of one pattern; with more of them the engine takes three times as long."""
_LEAST = 64
"""Characters that a text is held back for, while a key may just have begun in it."""
_ESCAPED = 3
"""Characters of an escape for each of the longest form, which is twice as long as its secret."""


def _is_path(value: str) -> bool:
    return value.startswith("/") and os.access(value, os.F_OK)  # false where it may not be read


def _literal(text: str) -> str:
    seven = text.encode("latin-1").translate(SEVEN_BITS).decode("ascii")
    return "".join(c if c.isalnum() else rf"\x{ord(c):02x}" for c in seven)


class Secrets:
    """The secrets that are known at one time, and with *shapes* what looks like a key.

    *names* are given by value. ``values`` are the secrets by name.
    """

    def __init__(self, names: Mapping[str, str], shapes: bool) -> None:
        self._names = names
        self.values = {name: value for value, name in names.items()}
        self._shapes = shapes

    @functools.cached_property
    def secret_forms(self) -> SecretForms:
        from appl.prompt.secret_forms import SecretForms  # for those who have secrets

        return SecretForms(self._names)

    @property
    def forms(self) -> list[tuple[str, str]]:
        """The forms of the known secrets, each with the secret's name, the longest first."""
        return self.secret_forms.forms if self._names else []

    @functools.cached_property
    def tests(self) -> list[str]:
        """Patterns of which one at least finds something in each text with a secret, in bytes."""
        return [*self.exact_tests, *(FIRST if self._shapes else ())]

    @functools.cached_property
    def exact_tests(self) -> list[str]:
        """Patterns of which one at least finds something in each text with a known secret."""
        if not self._names:
            return []
        from appl.prompt.escapes import QUICK

        literals = [_literal(core) for core in self.secret_forms.cores]
        groups = (literals[at : at + _AT_ONCE] for at in range(0, len(literals), _AT_ONCE))
        return [*map("|".join, groups), *([QUICK] if literals else ())]

    @functools.cached_property
    def _cleaners(self) -> list[tuple[Sequence[str], Callable[[str, Instead], str]]]:
        """Functions that take secrets out, each behind patterns for what it finds."""
        cleaners: list[tuple[Sequence[str], Callable[[str, Instead], str]]] = [
            (self.exact_tests, self.secret_forms.without)
        ]
        if self._shapes:
            from appl.prompt.key_masking import CLEANERS  # a text without keys needs no tables

            cleaners += CLEANERS
        return cleaners

    def may_be_in(self, data: bytes) -> bool:
        """True if *data* may hold a secret; never false if it does."""
        return is_any(self.tests, data)

    def cleaned(self, text: str, names: list[str]) -> str:
        """*text*, in bytes, without secrets; their names are added to *names*."""

        def instead(name: str) -> str:
            names.append(name)
            return f"[secret {name}]"

        for tests, without in self._cleaners:
            if is_any(tests, text.encode("latin-1")):
                text = without(text, instead)
        return text

    def masked(self, text: str, names: list[str]) -> str:
        """*text* without secrets; their names are added to *names*."""
        if not self.may_be_in(text.encode("utf-8", "surrogatepass")):
            return text
        from appl.prompt.secret_forms import as_bytes, from_bytes

        return from_bytes(self.cleaned(as_bytes(text), names))

    def masked_bytes(self, data: bytes, names: list[str]) -> bytes:
        """*data* without secrets; their names are added to *names*."""
        if not self.may_be_in(data):
            return data
        return self.cleaned(data.decode("latin-1"), names).encode("latin-1")


class Masker:
    """Knows the secrets of this process and takes them out of records.

    Without *shapes* it leaves what only looks like a key. In fields that a provider wants back,
    texts without words lose known secrets alone.
    """

    def __init__(
        self, values: Mapping[str, str] | Iterable[str] = (), *, shapes: bool = True
    ) -> None:
        self._shapes = shapes
        named = values if isinstance(values, Mapping) else _numbered(values)
        self._explicit = {value: name for name, value in named.items() if len(value) >= MIN_LENGTH}
        self._sources: tuple[Any, object, object] = (None, None, None)
        self._secrets = Secrets({}, shapes)
        self.refresh()

    def add(self, secrets: Mapping[str, str]) -> None:
        """Know *secrets*, by name, too, however short they are."""
        if not {*secrets.values()} <= self._explicit.keys():
            self._explicit = {value: name for name, value in secrets.items()} | self._explicit

    def refresh(self) -> Secrets:
        """The secrets that are known now: the environment may have changed."""
        if self._sources != (self._explicit, CONCEALED, ENVIRONMENT):
            sources = self._explicit, CONCEALED.copy(), ENVIRONMENT.copy()
            self._secrets = _shared_secrets(*sources, self._shapes)
            self._sources = (
                sources  # last: another thread that finds it the same goes by the secrets
            )
        return self._secrets

    def forms(self) -> list[tuple[str, str]]:
        """Every form in which a secret may stand in text, and the name of the secret."""
        return self.refresh().forms

    def filter(self, items: list[bytes]) -> list[bytes]:
        """*items*, those with secrets replaced by what may be written."""
        tests = self.refresh().tests
        for at, item in enumerate(items):
            if is_any(tests, item):
                items[at] = self._item(item)
        return items

    @property
    def longest(self) -> int:
        """The length of the longest form of a secret, in characters; at least that of a key."""
        forms = self._secrets.forms
        return max(_ESCAPED * len(forms[0][0]) if forms else 0, _LEAST)

    def secret_names_in(self, data: bytes) -> list[str]:
        """The names of the secrets in *data*."""
        secrets, names = self.refresh(), list[str]()
        if secrets.may_be_in(data):
            secrets.cleaned(data.decode("latin-1"), names)
        return names

    def finds(self, data: bytes) -> bool:
        """True if there is a secret in *data*."""
        return bool(self.secret_names_in(data))

    def straddles(self, before: Callable[[int], str], after: str) -> bool:
        """True if a secret begins in the text whose last characters *before* gives, and ends in
        *after*."""
        from appl.prompt.key_masking import LONGEST, may_go_on  # few messages are added to

        size = LONGEST if may_go_on(before(_LEAST), after[:_LEAST]) else self.longest
        seam = before(size) + after[:size]
        return self.finds(seam.encode("utf-8", "surrogatepass"))

    def open_from(self, text: str) -> int:
        """The start of the first secret that may go on after the end of *text*, else its length."""
        from appl.prompt.key_masking import key_goes_on_from  # an answer in pieces needs it

        secrets, start = self.refresh(), len(text)
        if secrets.forms:
            start = secrets.secret_forms.open_from(text)
        return min(start, key_goes_on_from(text)) if self._shapes else start

    def _item(self, item: bytes) -> bytes:
        from appl.tracing.recording.record_masking import masked_item  # few records hold a secret

        return masked_item(self.refresh(), item)

    def cleaned(self, value: object) -> object:
        """Plain data without the secrets."""
        from appl.tracing.recording.record_masking import masked_data

        return masked_data(self.refresh(), value, [])

    def text(self, text: str, names: list[str]) -> str:
        """*text* without the secrets; their names are added to *names*."""
        return self.refresh().masked(text, names)


def _numbered(secrets: Iterable[str]) -> dict[str, str]:
    return {f"secret{number}": secret for number, secret in enumerate(secrets)}


_last: tuple[Any, Secrets] | None = None
"""The secrets that a masker of this process found last, behind what they were found in."""


def _shared_secrets(
    explicit: dict[str, str], hidden: dict[str, str], environment: dict[bytes, bytes], shapes: bool
) -> Secrets:
    """The secrets in these places, which the maskers of all runs share while they are the same."""
    global _last
    last, places = _last, (explicit, hidden, environment, shapes)
    if last is None or last[0] != places:
        secrets = [*((name, value) for value, name in explicit.items()), *hidden.items()]
        for name, encoded in environment.items():  # before its secrets, names that stand for them
            if not _is_path(text := os.fsdecode(encoded)):
                secrets += values_in(os.fsdecode(name), text).items()
        names = {value: name for name, value in reversed(secrets) if not _is_path(value)}
        last = _last = places, Secrets(names, shapes)
    return last[1]
