"""Secrets: values that programs hand on, and that no prompt, trace, log or error may show.

Invariant: only ``reveal`` gives the value; as text a secret is ``***``.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from typing import Any, NoReturn
from urllib.parse import quote, quote_plus

from appl.errors import InvalidOption

SHORTEST = 4
LONG_ENOUGH = 8  # of a value in the environment: shorter ones are ordinary words
MASK = "***"
_LIKELY = re.compile(r"KEY|TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|_PWD$|_PAT$|_DSN$", re.I)


class Secret:
    """A text that a program may use and that nobody is shown: a key, a password.

    ``as_tool(f, api_key=Secret(key))`` gives it to a tool behind the model's back. It has at least
    four characters: less cannot be told from ordinary text when it is to be masked. Raises
    ``InvalidOption``.
    """

    __slots__ = ("__weakref__", "_value")

    def __init__(self, value: str) -> None:
        if not isinstance(value, str) or len(value) < SHORTEST:
            kind = f"a text of {len(value)}" if isinstance(value, str) else type(value).__name__
            raise InvalidOption(
                f"Secret(...) takes a text of at least {SHORTEST} characters, got {kind}"
            )
        self._value = str.__str__(value)

    def reveal(self) -> str:
        """The value itself."""
        return self._value

    def __str__(self) -> str:
        return MASK

    def __repr__(self) -> str:
        return f"Secret({MASK})"

    def __format__(self, spec: str) -> str:
        return MASK

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Secret:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret cannot be pickled: what is pickled can be read")


def is_likely(name: str) -> bool:
    """Whether an environment variable of this *name* looks as if it held a secret."""
    return _LIKELY.search(name) is not None


_concealed: dict[str, str] = {}


def conceal(name: str, value: str | None) -> None:
    """Have *value* masked, as ``[secret NAME]``, in all that this process writes or shows.

    For keys that a program gives to a backend. A value of fewer than eight characters, as in
    ``api_key="EMPTY"``, is an ordinary word and stays.
    """
    global _concealed
    if value and len(value) >= LONG_ENOUGH and value not in _concealed.values():
        while name in _concealed:
            name = f"{name}'"
        _concealed = {**_concealed, name: value}  # a new one: other threads may go through the old


def concealed() -> dict[str, str]:
    """The values that :func:`conceal` was given, by name. It is not changed later."""
    return _concealed


def of_environment() -> list[str]:
    """The values of secret-looking environment variables, as they are now, and concealed ones."""
    return [*_concealed.values(), *_environment()]


def _environment() -> list[str]:
    return [
        value
        for name, value in os.environ.items()
        if len(value) >= LONG_ENOUGH and is_likely(name) and not value.startswith("/")
    ]


def forms(secret: str) -> set[str]:
    """*secret* as it may stand in text: plain, as in source code, JSON- and URL-encoded."""
    data = secret.encode("utf-8", "surrogatepass")
    urls = {quote(data, safe=""), quote(data), quote_plus(data)}
    lower = {re.sub("%..", lambda m: m[0].lower(), url) for url in urls}
    strings = {json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
    slashes = {text.replace("/", "\\/") for text in strings}
    return {secret, repr(secret)[1:-1], *urls, *lower, *strings, *slashes}


class Mask:
    """Takes the given secrets out of texts."""

    __slots__ = ("_forms",)

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        every = {form for secret in secrets for form in forms(secret)}
        self._forms = sorted(every, key=lambda form: (-len(form), form))

    def __call__(self, text: str) -> str:
        for form in self._forms:
            text = text.replace(form, MASK)
        return text

    def __bool__(self) -> bool:
        return bool(self._forms)
