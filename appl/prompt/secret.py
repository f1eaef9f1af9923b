"""Secrets: values that programs hand on, and that no prompt, trace, log or error may show.

Invariant: only ``reveal`` gives the value; as text a secret is ``***``.
"""

from __future__ import annotations

import os
import re
from typing import NoReturn
from urllib.parse import unquote

from appl.errors import InvalidOption
from appl.prompt.secret_names import is_likely as is_likely

SHORTEST = 4
LONG_ENOUGH = 8  # of a value in the environment: shorter ones are ordinary words
MASK = "***"
UNRECORDED = "[secret]"
"""The placeholder of a secret among the words of a command."""
_PASSWORD = re.compile(r"://[^/\s:@]{0,256}:([^/\s@]{1,1024})@")
_PAIR = re.compile(r"(?:^|,)[^=,]{1,256}=([^,]+)")


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

    def __deepcopy__(self, memo: dict[int, object]) -> Secret:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret cannot be pickled: what is pickled can be read")


def values_in(name: str, value: str) -> dict[str, str]:
    """The secrets in the environment variable *name*, by the names that stand for them.

    They are the value itself if the name suggests a secret, the values of the pairs in variables
    such as ``OTEL_…_HEADERS``, and the password of a URL under any name.
    """
    values = [unquote(quoted) for quoted in _PASSWORD.findall(value)] + _PASSWORD.findall(value)
    if is_likely(name):
        values += [value, *(_PAIR.findall(value) if name.upper().endswith("HEADERS") else ())]
    long = [password for password in dict.fromkeys(values) if len(password) >= LONG_ENOUGH]
    return {name + "'" * number: password for number, password in enumerate(reversed(long))}


CONCEALED: dict[str, str] = {}
"""The values that :func:`conceal` was given, by name; compare or copy it in one step, as other
threads may add to it."""
ENVIRONMENT: dict[bytes, bytes] = vars(os.environ)["_data"]
"""The environment itself, which other threads may change: compare or copy it in one step. The
mapping around it can only be gone through name by name, which fails then, and is ten times as
slow."""


KEY_OF_CALL = "gen(api_key=...)"
"""The name under which keys of calls are masked."""


def conceal(name: str, value: str | None) -> None:
    """Have *value* masked, as ``[secret NAME]``, in all that this process writes or shows.

    For keys that a program gives to a backend. A value of fewer than eight characters, as in
    ``api_key="EMPTY"``, is an ordinary word and stays.
    """
    if value and len(value) >= LONG_ENOUGH and value not in CONCEALED.values():
        while CONCEALED.setdefault(name, value) != value:  # one step: another thread may add, too
            name = f"{name}'"


def of_environment() -> list[str]:
    """The values of secret-looking environment variables, as they are now, and concealed ones."""
    return [
        *CONCEALED.copy().values(),
        *(
            secret
            for name, value in os.environ.items()
            if not value.startswith("/")
            for secret in values_in(name, value).values()
        ),
    ]
