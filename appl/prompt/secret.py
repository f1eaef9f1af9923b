"""Secrets: values that programs hand on, and that no prompt, trace, log or error may show.

Invariant: only ``reveal`` gives the value; as text a secret is ``***``.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterable
from typing import Any, NoReturn
from urllib.parse import quote, quote_plus, unquote

from appl.errors import InvalidOption

SHORTEST = 4
LONG_ENOUGH = 8  # of a value in the environment: shorter ones are ordinary words
MASK = "***"
UNRECORDED = "[secret]"
"""What stands for a secret among the words of a command."""
_LIKELY = re.compile(
    r"KEY|TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|_PWD$|_PAT$|_DSN$|PASS$|PRIVATE|PEM$|SIGNING"
    r"|COOKIE|JWT|(?:^|_)AUTH(?:_|$)|AUTHORIZATION|SESSION_?ID|WEBHOOK|CONN(?:ECTION)?_?STR|HEADERS$",
    re.I,
)
_PASSWORD = re.compile(r"://[^/\s:@]{0,256}:([^/\s@]{1,1024})@")
_PAIR = re.compile(r"(?:^|,)[^=,]{1,256}=([^,]+)")
_SHAPES = re.compile(
    r"\b(?:sk|pk|rk|gsk|xai|nvapi|pplx|glpat|pypi|npm|hf|r8|xox[abeoprs]|gh[oprsu]|github_pat)[-_]"
    r"[A-Za-z0-9_-]{16,512}"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bAIza[A-Za-z0-9_-]{30,64}|\bya29\.[A-Za-z0-9_-]{16,2048}"
    r"|\beyJ[A-Za-z0-9_-]{8,4096}\.[A-Za-z0-9_-]{8,8192}\.[A-Za-z0-9_-]{0,4096}"
)
"""Keys by their documented beginnings, as of November 2026: those of model providers, and of GitHub
(github.blog/changelog/2021-03-31-authentication-token-format-updates-are-generally-available),
GitLab, Slack, AWS, Google and package registries
(docs.github.com/code-security/secret-scanning/secret-scanning-patterns)."""
_OPTION = re.compile(r"--?([A-Za-z0-9_-]{1,128})(?:=(.*))?", re.S)


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


def values_in(name: str, value: str) -> dict[str, str]:
    """The secrets in the environment variable *name*, by the names that stand for them.

    That is the value where the name says so, what stands in it as in ``OTEL_…_HEADERS``, and the
    password of a URL under any name.
    """
    found = [unquote(each) for each in _PASSWORD.findall(value)] + _PASSWORD.findall(value)
    if is_likely(name):
        found += [value, *(_PAIR.findall(value) if name.upper().endswith("HEADERS") else ())]
    long = [each for each in dict.fromkeys(found) if len(each) >= LONG_ENOUGH]
    return {name + "'" * number: each for number, each in enumerate(reversed(long))}


def without_keys(text: str) -> str:
    """*text* without what has the shape of a well-known key, and without passwords in URLs."""
    text = _PASSWORD.sub(lambda m: m[0].replace(f":{m[1]}@", f":{UNRECORDED}@"), text)
    return _SHAPES.sub(UNRECORDED, text)


def shown_words(words: Iterable[str]) -> list[str]:
    """The *words* of a command line, without the values of options that are named like secrets."""
    shown, hidden = list[str](), False
    for word in words:
        option = _OPTION.fullmatch(word)
        secret = option is not None and is_likely(option[1])
        if option is not None and secret and option[2] is not None:
            shown.append(f"{word[: option.start(2)]}{UNRECORDED}")
        else:
            shown.append(UNRECORDED if hidden and option is None else without_keys(word))
        hidden = option is not None and secret and option[2] is None
    return shown


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
        each
        for name, value in os.environ.items()
        if not value.startswith("/")
        for each in values_in(name, value).values()
    ]


def forms(secret: str) -> set[str]:
    """*secret* as it may stand in text: plain, as in source code, JSON- and URL-encoded, in
    base64 and hexadecimal where it is long enough."""
    data = secret.encode("utf-8", "surrogatepass")
    urls = {quote(data, safe=""), quote(data), quote_plus(data)}
    lower = {re.sub("%..", lambda m: m[0].lower(), url) for url in urls}
    strings = {json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
    slashes = {text.replace("/", "\\/") for text in strings}
    coded = _coded(data) if len(data) >= _CODED else set[str]()
    return {secret, repr(secret)[1:-1], *urls, *lower, *strings, *slashes, *coded}


_CODED = 8


def _coded(data: bytes) -> set[str]:
    """*data* in base64 and hexadecimal; in base64 at each of three places, as in basic auth."""
    found = {data.hex(), data.hex().upper()}
    for before in range(3):
        text = base64.b64encode(bytes(before) + data).decode()
        left = (before + len(data)) % 3  # the last characters hang on what follows
        found |= {each := text[(0, 2, 3)[before] : _known(text, left)], _url_safe(each)}
    return found


def _known(text: str, left: int) -> int:
    """Where the characters of base64 end that hold nothing but the secret."""
    return len(text) - (0, 3, 2)[left]


def _url_safe(text: str) -> str:
    return text.replace("+", "-").replace("/", "_")


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
