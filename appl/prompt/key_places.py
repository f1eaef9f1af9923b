"""Secrets that are known by where they stand: in a URL, a header, a command, after a telling name.

Invariant: a text in which no pattern of ``QUICK_PLACES`` or ``QUICK_NAMES`` finds anything has no
secret for ``without_told``; these patterns are also valid in the syntax of Rust.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

from appl.prompt.randomness import is_random
from appl.prompt.secret_names import WORDS, is_kind_of_key, is_likely
from appl.prompt.text_search import Instead, Span, places, regex, replaced

OF_URL: Final = "password of a URL"
AFTER_WORD: Final = "key or password"
SHORTEST: Final = 15
"""Characters of a value after a telling name, at least."""


def _cased(words: Iterable[str]) -> tuple[str, ...]:
    """*words* in small letters, in capitals, and with a first capital."""
    return tuple(form for word in words for form in (word, word.title(), word.upper()))


_TELLING: Final = _cased(WORDS)
VALUE = "[A-Za-z0-9+/_=~.:%|@!#^*$-]"
_NAME = "[A-Za-z0-9_.-]"
_LONGEST_NAME = 43
_QUOTES = r"[\\\"']{0,4}"
_CLOSED, _OPENED = r"[\\\"'`\]]{0,6}", r"\s{0,4}[\\\"'`]{0,6}"
_SCHEME = rf"(?:(?:{'|'.join(_cased(['bearer', 'basic', 'token']))})\s{{1,4}})?"
_FOUND = rf"{_SCHEME}(?=({VALUE}{{{SHORTEST},4096}}))"

_IN_URL = r"(://[^/\s:@\"'<>]{0,256}:)([^/\s@\"'<>]{3,1024})(?=@)"
_SPACE, _PLAIN = r"(?:\s|\\[nrt]){1,20}", r"[^\s\\]{1,128}"
_CREDENTIALS: Final = {
    "curl": (
        r"(curl\s(?:(?:[^\n]|\\\n){0,400}?\s)?(?:-u|--user)[ =]?[\\\"']{0,4}[^\s:\"'\\]{1,128}:)"
        r"([^\s\"'\\]{4,256})"
    ),
    "machine": (
        rf"(machine{_SPACE}{_PLAIN}{_SPACE}login{_SPACE}{_PLAIN}{_SPACE}password{_SPACE})"
        r"([^\s\"'\\]{4,256})"
    ),
    ";": r"(;\s?(?:Password|password|PASSWORD|Pwd|pwd|PWD)=)([^;&\s\"'\\]{4,256})",
    "otpauth": r"(otpauth://[^\s\"'<>]{1,512}?[?&;]secret=)([A-Za-z2-7]{8,256})",
}
"""Places where whatever stands is a password, unless it is a placeholder, by a part of each."""
_SIGNATURE = (
    r"((?:[?&;]|amp;|u0026|[ ,-])(?:sig|Signature)=)"
    r"((?:[A-Za-z0-9+/_~-]|%[0-9A-Fa-f]{2}){20,1024}={0,2})"
)
_COOKIES = rf"((?:Cookie|cookie|COOKIE){_QUOTES}\s?:\s?{_QUOTES})([^\r\n\"'\\]{{1,8192}})"
_COOKIE = r"(=)([^=;,\s]{15,4096}=*)"

_SIGN = rf"[:=|>][=>]?{_OPENED}{_FOUND}"
_LOOSE_SIGN = r"[:=]\s{0,4}[\"']?(?!\[secret\]|(?i:bearer|basic)\b)(?=([A-Za-z0-9_.~+/=*-]{6,}))"
_IS = rf" is\s{_OPENED}{_FOUND}"
_SPACES = rf"\s{{1,4}}{_QUOTES}"
_OPTION = rf"--([A-Za-z0-9][A-Za-z0-9_-]{{1,42}}){_SPACES}{_FOUND}"
_VARIABLE = rf"(?:ENV|ARG|SetEnv|setx?)\s{{1,4}}({_NAME}{{1,{_LONGEST_NAME}}}){_SPACES}{_FOUND}"
_SPACED: Final = tuple(
    rf"({word}){_SPACES}{_FOUND}"
    for word in ("ass(?:word|wd|phrase)", "ASS(?:WORD|WD|PHRASE)", "earer", "EARER", "asic", "ASIC")
)
"""Names that a value may follow after a space alone, without their first letter: a pattern that
begins with letters is looked for ten times as fast as one that begins with a choice of them."""

_NAME_BACKWARDS = (
    rf"\s{{0,4}}{_CLOSED}({_NAME}{{1,{_LONGEST_NAME}}})(?: ([A-Za-z]{{1,20}})(?![A-Za-z0-9]))?"
)
_FIELD_BACKWARDS = rf"{_QUOTES}(?:\s|[nrt]\\){{0,40}},?{_QUOTES}({_NAME}{{1,{_LONGEST_NAME}}})()"
"""What stands before a sign, read from right to left; and before a field that is called value."""

AFTER_NAME: Final = (
    rf"{_NAME}{{0,40}}(?:{_CLOSED}(?:\s{{0,4}}(?:[:=|>][=>]?|->)|\s{{1,4}}is\s){_OPENED}"
    rf"|{_QUOTES},?(?:\s|\\[nrt]){{0,40}}{_QUOTES}[Vv]alue{_CLOSED}\s{{0,4}}[:=|>]{_OPENED}){_SCHEME}"
)
"""All that stands between a word of a telling name and a value that a sign says it has."""
BEFORE_VALUE: Final = (
    rf"(?:{'|'.join(_TELLING)}){AFTER_NAME}",
    rf"(?:[Pp]ass(?:word|wd|phrase)|PASS(?:WORD|WD|PHRASE)|[Bb]earer|BEARER|[Bb]asic|BASIC){_SPACES}{_SCHEME}",
    rf"(?:--|(?:ENV|ARG|SetEnv|setx?)\s{{1,4}}){_NAME}{{2,{_LONGEST_NAME}}}{_SPACES}{_SCHEME}",
    rf"(?:-u|--user)[ =]?{_QUOTES}[^\s:\"'\\]{{1,128}}:",
    r"[?&;](?:sig|Signature)=",
    rf"(?:Cookie|cookie|COOKIE){_QUOTES}\s?:[^\r\n\"'\\]{{0,400}}=",
)
"""Patterns of what stands before a value that is or may be a secret."""


QUICK_PLACES: Final = (
    r"://[^/\s:@\"'<>]{0,256}:[^/\s@\"'<>]+@|sig=[A-Za-z0-9+/_~%-]{20}",
    r"curl\s(?:(?:[^\n]|\\\n){0,400}\s)?(?:-u|--user)|machine(?:\s|\\)[\s\S]{0,400}password"
    "|otpauth://",
)
QUICK_NAMES: Final = (
    rf"(?:{'|'.join(_TELLING)})(?:{AFTER_NAME}|{_NAME}{{0,40}}{_SPACES}{_SCHEME})"
    rf"{VALUE}{{{SHORTEST}}}|(?:Cook|cook|COOK)(?:ie|IE){_QUOTES}\s?:"
    "|(?:Pass|pass|PASS)(?:word|WORD)=|(?:Pwd|pwd|PWD)=|Signature="
)
"""Patterns for an engine that is linear in time: one at least finds something in each text in which
something stands where a secret usually stands."""


def without_told(text: str, instead: Instead) -> str:
    """*text* without what stands where a secret usually stands."""

    def password(found: re.Match[str]) -> str:
        return found[0] if is_placeholder(found[2]) else found[1] + instead(OF_URL)

    def credential(found: re.Match[str]) -> str:
        return found[0] if is_placeholder(found[2]) else found[1] + instead(AFTER_WORD)

    def value(found: re.Match[str]) -> str:
        return found[1] + instead(AFTER_WORD) if is_secret(found[2]) else found[0]

    if "://" in text:
        text = regex(_IN_URL).sub(password, text)
    for part, pattern in _CREDENTIALS.items():
        if part in text:
            text = regex(pattern).sub(credential, text)
    if "sig=" in text or "Signature=" in text:
        text = regex(_SIGNATURE).sub(value, text)
    if "ookie" in text or "COOKIE" in text:
        each = regex(_COOKIE)
        text = regex(_COOKIES).sub(lambda found: found[1] + each.sub(value, found[2]), text)
    return replaced(text, _values_in(text), instead)


def without_loosely_told(text: str, instead: Instead) -> str:
    """*text* without whatever stands after a telling name and a sign, random or not."""
    spans = (
        (*found.span(1), AFTER_WORD)
        for found in regex(_LOOSE_SIGN).finditer(text)
        if _tells(*_name_before(text, found.start()))
    )
    return replaced(text, spans, instead)


def _values_in(text: str) -> Iterator[Span]:
    """The spans of *text* that are random values of telling names."""
    for found in regex(_SIGN).finditer(text):
        yield from _value(text, found, *_name_before(text, found.start()))
    for at in places(text, " is"):
        if (found_is := regex(_IS).match(text, at)) is not None:
            yield from _value(text, found_is, *_name_before(text, at))
    for pattern in (_OPTION, _VARIABLE):
        for found in regex(pattern).finditer(text):
            yield from _value(text, found, found[1], "")
    for pattern in _SPACED:
        for found in regex(pattern).finditer(text):
            if (first := text[max(found.start() - 1, 0)]) in "pPbB":
                yield from _value(text, found, first + found[1], "")


def _name_before(text: str, at: int) -> tuple[str, str]:
    """The name that ends *at* a sign in *text*, and another word before it; or empty texts."""
    backwards = text[max(at - 160, 0) : at][::-1]
    found = regex(_NAME_BACKWARDS).match(backwards)
    if found is None:
        return "", ""
    if found[1] in ("eulav", "eulaV"):
        found = regex(_FIELD_BACKWARDS).match(backwards, found.end(1)) or found
    name, before = found[1][::-1], backwards[found.end(1) : found.end(1) + 1]
    if before == ":":  # the end of another name, as in AWS::IAM::AccessKey
        return "", ""
    if name[0] in "nrt" and before == "\\":
        name = name[1:]  # of an escape: the line begins with the name
    return name, (found[2] or "")[::-1]


def _value(text: str, found: re.Match[str], name: str, other: str) -> Iterator[Span]:
    """The span of the value that was *found* after *name*, if it is a secret."""
    if name and _tells(name, other):
        value, start = found[found.re.groups].rstrip(".:!|*#,"), found.start(found.re.groups)
        if len(value) >= SHORTEST and _is_value(text, name, value, start + len(value)):
            yield start, start + len(value), AFTER_WORD


_OF_FILE = re.compile(
    r"\.(?:json|ya?ml|toml|txt|pem|crt|cer|py|[jt]sx?|md|html?|lock|zip|gz|bin)\Z"
)


@lru_cache(maxsize=4096)
def _tells(name: str, other: str) -> bool:
    """True if *name* is that of a secret, or does so together with the *other* word before it."""
    plain = name.strip("-._")
    if _OF_FILE.search(plain) or (len(plain) > 15 and is_random(plain)):
        return False
    if plain.lower() in ("key", "keys") and other and not plain.isupper():
        return is_kind_of_key(f"{other} {plain}")
    is_scheme = plain.lower() in ("bearer", "basic")
    return (is_scheme or is_likely(plain)) and any(word in plain for word in _TELLING)


_OF_CODE = re.compile(r"[A-Za-z_]{2,}(?:\.[A-Za-z_]\w*)+", re.A)


_WEAK = re.compile(
    "(?i)session[_-]?id|webhook|(?:client|request|change|lock|update|creation|action)[_-]?token"
)
"""Names of what is often no more than a number of something."""
_ADDRESS = re.compile("https?:|arn:")


def _is_value(text: str, name: str, value: str, end: int) -> bool:
    """True if *value*, which ends at *end* of *text*, may be the secret that is called *name*."""
    if text[end : end + 1] in ("(", "[") or _OF_CODE.fullmatch(value):
        return False
    if _WEAK.search(name) and not value.isalnum() and not _ADDRESS.match(value):
        return False
    if _ADDRESS.match(value) and "webhook" not in name.lower():
        return False  # what is secret in it is known by other rules
    may_be_basic = re.search("(?i)auth|basic", name) is not None
    return is_secret(value) or (may_be_basic and _holds_password(value))


def is_secret(value: str) -> bool:
    """True if *value* looks random, as a whole or between its dots and colons."""
    if value[0] in "$%" or "EXAMPLE" in value:
        return False
    parts = re.split("[.:|=]|%[0-9A-F]{2}", value)
    return any(len(part) >= SHORTEST and is_random(part, words=_words(part)) for part in parts)


def _words(part: str) -> float:
    """The most pairs of letters of words in *part*: names in source code have no digits."""
    return 0.3 if part.isalpha() else 0.45


def _holds_password(value: str) -> bool:
    """True if *value* is a user and a password in base64, as in basic authentication."""
    try:
        plain = base64.b64decode(value + "=" * (-len(value) % 4), validate=True).decode()
    except (binascii.Error, ValueError):
        return False
    return plain.isprintable() and ":" in plain


_ORDINARY = re.compile(
    r"(?i)(?:your|my|the|some|user(?:name)?|db|api|secret|pass(?:w(?:or)?d)?|pwd|key|token|test|example"
    r"|changeme|admin|root|postgres(?:ql)?|mysql|redis|guest|demo|hidden|redacted|x|\d{1,4}|[-_*.…])+"
)
_IN_CAPITALS = re.compile(r"[A-Z]+(?:_[A-Z]+)+")


def is_placeholder(password: str) -> bool:
    """True if a *password* in a known place is a placeholder, as in an example."""
    return (
        password[0] in "$%&{[<*"
        or _ORDINARY.fullmatch(password) is not None
        or _IN_CAPITALS.fullmatch(password) is not None
    )
