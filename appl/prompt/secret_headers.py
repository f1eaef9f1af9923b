"""The secrets in the headers of requests, which are masked from the time they are given.

Invariant: a header is never changed.
"""

from __future__ import annotations

import base64
import contextlib
import re
from collections.abc import Mapping

from appl.prompt.randomness import is_random
from appl.prompt.secret import conceal
from appl.prompt.secret_names import is_likely


def conceal_headers(where: str, headers: Mapping[str, str], *, every: bool = False) -> None:
    """Have the secrets in the values of *headers* masked as :func:`conceal` does.

    They are those of headers with a telling name and those that look random, or *every* one; of
    ``Bearer X`` that is ``X``, of basic authentication its password, of cookies the value of each.
    *where* is the setting that holds them.
    """
    for name, value in headers.items():
        for secret in _credentials(name, value):
            looks = len(secret) >= _RANDOM and is_random(secret) and name.lower() not in _NUMBERS
            if every or is_likely(name) or looks:
                conceal(f"{where}.{name}", secret)


_RANDOM = 15
"""Characters of a value that is known by its randomness, at least."""
_NUMBERS = frozenset(["openai-organization", "openai-project", "traceparent", "x-request-id"])
"""Headers with numbers that are no secrets."""
_WITH_SCHEME = re.compile(r"(bearer|basic|token|apikey|api-key|key)\s+(\S.*)", re.I)


def _credentials(name: str, value: str) -> list[str]:
    """The parts of a header's value that may be secrets."""
    if "cookie" in name.lower():
        return [pair.partition("=")[2].strip() for pair in value.split(";")]
    match = _WITH_SCHEME.fullmatch(value.strip())
    if match is None:
        return [value]
    if match[1].lower() == "basic":
        with contextlib.suppress(ValueError):
            plain = base64.b64decode(match[2], validate=True).decode()
            return [match[2], plain.partition(":")[2]]
    return [match[2]]
