"""Secrets that are known by where they stand: in a URL, a header, a command, after a telling name.

Invariant: a text in which no pattern of ``QUICK_PLACES`` or ``QUICK_NAMES`` finds anything has no
secret for ``without_secret_values``; these patterns are also valid in the syntax of Rust.
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
_BEFORE_DIGIT = 47
"""The most characters of such a value before its first digit."""


def _cased(words: Iterable[str]) -> tuple[str, ...]:
    """*words* in small letters, in capitals, and with a first capital."""
    return tuple(form for word in words for form in (word, word.title(), word.upper()))


_TELLING: Final = _cased(WORDS)
_VALUE = "[A-Za-z0-9+/_=~.:%|@!#^*$-]"
_NAME = "[A-Za-z0-9_.-]"
_LONGEST_NAME = 43
_QUOTES = r"[\\\"']{0,4}"
_CLOSED, _OPENED = r"[\\\"'`\]]{0,6}", r"\s{0,4}[\\\"'`]{0,6}"
_SCHEME = rf"(?:(?:{'|'.join(_cased(['bearer', 'basic', 'token']))})\s{{1,4}})?"
_SCHEME_AND_VALUE = rf"{_SCHEME}({_VALUE}{{{SHORTEST},256}})"
_MORE = rf"{_VALUE}*"

_IN_URL = r"(://[^/\s:@\"'<>]{0,256}:)([^/\s@\"'<>]{3,1024})(?=@)"
_SPACE, _PLAIN = r"(?:\s|\\[nrt]){1,20}", r"[^\s\\]{1,128}"
_CREDENTIALS: Final = {
    "curl": (
        r"(curl\s(?:(?:[^\n]|\\\n){0,300}?\s)?(?:-u|--user)[ =]?[\\\"']{0,4}[^\s:\"'\\]{1,128}:)"
        r"([^\s\"'`,;)\\]{4,256})"
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

_ANY_SIGN = r"(?<=[A-Za-z0-9_.\-\"'`\]\\ ])[:=|>]"
_SIGN = rf"{_ANY_SIGN}(?=[=>]?{_OPENED}{_SCHEME}{_VALUE}{{{SHORTEST}}})"
_AFTER_SIGN = rf"[:=|>][=>]?{_OPENED}{_SCHEME_AND_VALUE}"
_AFTER_LOOSE_SIGN = r"[:=]\s{0,4}[\"']?(?!\[secret\]|(?i:bearer|basic)\b)([A-Za-z0-9_.~+/=*-]{6,})"
_IS = rf" is\s{_OPENED}{_SCHEME_AND_VALUE}"
_SPACES = rf"\s{{1,4}}{_QUOTES}"
_OPTION = rf"--([A-Za-z0-9][A-Za-z0-9_-]{{1,42}}){_SPACES}{_SCHEME_AND_VALUE}"
_VARIABLE = (
    rf"(?:ENV|ARG|SetEnv|setx?)\s{{1,4}}({_NAME}{{1,{_LONGEST_NAME}}}){_SPACES}{_SCHEME_AND_VALUE}"
)
_SPACED: Final = tuple(
    rf"({word}){_SPACES}{_SCHEME_AND_VALUE}"
    for word in ("ass(?:word|wd|phrase)", "ASS(?:WORD|WD|PHRASE)", "earer", "EARER", "asic", "ASIC")
)
"""Names that a value may follow after a space alone, without their first letter: a pattern that
begins with letters is looked for ten times as fast as one that begins with a choice of them."""

_NAME_BACKWARDS = (
    rf"\s{{0,4}}{_CLOSED}({_NAME}{{1,{_LONGEST_NAME}}})(?: ([A-Za-z]{{1,20}})(?![A-Za-z0-9]))?"
)
_FIELD_BACKWARDS = rf"{_QUOTES}(?:\s|[nrt]\\){{0,40}},?{_QUOTES}({_NAME}{{1,{_LONGEST_NAME}}})()"
"""A name before a sign, read from right to left; and one before a field that is called value."""

_AFTER_NAME: Final = (
    rf"{_NAME}{{0,40}}(?:{_CLOSED}(?:\s{{0,4}}(?:[:=|>][=>]?|->)|\s{{1,4}}is\s){_OPENED}"
    rf"|{_QUOTES},?(?:\s|\\[nrt]){{0,40}}{_QUOTES}[Vv]alue{_CLOSED}\s{{0,4}}[:=|>]{_OPENED}){_SCHEME}"
)
"""All that may stand between a word of a telling name and a value that a sign says it has."""
QUICK_PLACES: Final = (
    r"://[^/\s:@\"'<>]{0,256}:[^/\s@\"'<>]+@|sig=[A-Za-z0-9+/_~%-]{20}",
    r"curl\s(?:(?:[^\n]|\\\n){0,300}\s)?(?:-u|--user)|machine(?:\s|\\)[\s\S]{0,400}password"
    "|otpauth://",
)
_WITH_DIGIT = "|".join(
    f"{_VALUE}{{{before}}}[0-9]{_VALUE}{{{SHORTEST - 1 - before}}}" for before in range(SHORTEST)
)
"""A value whose first characters hold a digit. Names in source code have none, and they stand where
values do: without this, texts of code would be looked through again and again."""
QUICK_NAMES: Final = (
    rf"(?:{'|'.join(_TELLING)})(?:{_AFTER_NAME}|{_NAME}{{0,40}}{_SPACES}{_SCHEME})"
    rf"(?:{_WITH_DIGIT}|{_VALUE}{{{SHORTEST},{_BEFORE_DIGIT}}}[0-9])|(?:Cook|cook|COOK)(?:ie|IE){_QUOTES}\s?:"
    "|(?:Pass|pass|PASS)(?:word|WORD)=|(?:Pwd|pwd|PWD)=|Signature="
)
"""Patterns for an engine that is linear in time: one at least finds something in each text in which
something stands where a secret usually stands."""


def without_secret_values(text: str, instead: Instead) -> str:
    """*text* without what stands where a secret usually stands."""

    def password(match: re.Match[str], kind: str = AFTER_WORD) -> str:
        secret = match[2]
        is_placeholder = (  # as in an example
            secret[0] in "$%&{[<*" or _ORDINARY.fullmatch(secret) or _IN_CAPITALS.fullmatch(secret)
        )
        return match[0] if is_placeholder else match[1] + instead(kind)

    def value(match: re.Match[str]) -> str:
        return match[1] + instead(AFTER_WORD) if is_secret(match[2]) else match[0]

    if "://" in text:
        text = regex(_IN_URL).sub(lambda match: password(match, OF_URL), text)
    for part, pattern in _CREDENTIALS.items():
        if part in text:
            text = regex(pattern).sub(password, text)
    if "sig=" in text or "Signature=" in text:
        text = regex(_SIGNATURE).sub(value, text)
    if "ookie" in text or "COOKIE" in text:
        cookie = regex(_COOKIE)
        text = regex(_COOKIES).sub(lambda match: match[1] + cookie.sub(value, match[2]), text)
    return replaced(text, _values_in(text), instead)


def without_loose_values(text: str, instead: Instead) -> str:
    """*text* without whatever stands after a telling name and a sign, random or not."""
    spans, done, after = list[Span](), 0, regex(_AFTER_LOOSE_SIGN)
    for sign in regex(_ANY_SIGN).finditer(text):
        if sign.start() >= done and _tells(*_name_before(text, sign.start())):
            match = after.match(text, sign.start())
            if match is not None:
                spans.append((*match.span(1), AFTER_WORD))
                done = match.end()
    return replaced(text, spans, instead)


def _values_in(text: str) -> Iterator[Span]:
    """The spans of *text* that are random values of telling names."""
    for named in _named_values(text):
        done = 0  # a value that goes on and on is looked at once
        for match, name in named:
            start, last = match.span(match.re.groups)
            value = match[match.re.groups].rstrip(".:!|*#,")
            if start >= done and len(value) >= SHORTEST and _is_value(name, value):
                end = start + len(value)
                if end == last and (more := regex(_MORE).match(text, end)) is not None:
                    end = more.end()
                if text[end : end + 1] not in ("(", "["):  # a call, or a place of a list, in code
                    yield start, end, AFTER_WORD
                    done = end


_Named = Iterator[tuple[re.Match[str], str]]
"""Values, as the last groups of matches, and the telling names before them."""


def _named_values(text: str) -> Iterator[_Named]:
    """The values after signs, those after ``is``, and those that follow after a space alone."""
    yield (
        (match, name[0])
        for sign in regex(_SIGN).finditer(text)
        if _tells(*(name := _name_before(text, sign.start())))
        and (match := regex(_AFTER_SIGN).match(text, sign.start())) is not None
    )
    yield (
        (match, name[0])
        for at in places(text, " is")
        if (match := regex(_IS).match(text, at)) is not None
        and _tells(*(name := _name_before(text, at)))
    )
    for pattern in (_OPTION, _VARIABLE):
        matches = regex(pattern).finditer(text)
        yield ((match, match[1]) for match in matches if _tells(match[1], ""))
    for pattern in _SPACED:
        yield (
            (match, first + match[1])
            for match in regex(pattern).finditer(text)
            if (first := text[max(match.start() - 1, 0)]) in "pPbB"
        )


def _name_before(text: str, at: int) -> tuple[str, str]:
    """The name that ends *at* a sign in *text*, and another word before it; or empty texts."""
    backwards = text[max(at - 160, 0) : at][::-1]
    match = regex(_NAME_BACKWARDS).match(backwards)
    if match is None:
        return "", ""
    if match[1] in ("eulav", "eulaV"):
        match = regex(_FIELD_BACKWARDS).match(backwards, match.end(1)) or match
    name, before = match[1][::-1], backwards[match.end(1) : match.end(1) + 1]
    if before == ":":  # the end of another name, as in AWS::IAM::AccessKey
        return "", ""
    if name[0] in "nrt" and before == "\\":
        name = name[1:]  # of an escape: the line begins with the name
    return name, (match[2] or "")[::-1]


_OPEN = rf"{_SCHEME}({_VALUE}*)\Z"
_OPEN_SIGN = rf"[:=|>][=>]?{_OPENED}{_OPEN}"
_OPEN_IS = rf" is\s{_OPENED}{_OPEN}"
_OPEN_OPTION = rf"--([A-Za-z0-9][A-Za-z0-9_-]{{1,42}}){_SPACES}{_OPEN}"
_OPEN_PLACES: Final = (
    r"://[^/\s:@\"'<>]{0,256}:([^/\s@\"'<>]*)\Z",
    *(
        rf"{word}{_SPACES}{_OPEN}"
        for word in ("ass(?:word|wd|phrase)", "ASS(?:WORD|WD|PHRASE)", "earer", "EARER", "asic")
    ),
    rf"(?:ENV|ARG|SetEnv|setx?)\s{{1,4}}{_NAME}{{2,{_LONGEST_NAME}}}{_SPACES}{_OPEN}",
    rf"-(?:u|-user)[ =]?{_QUOTES}[^\s:\"'\\]{{1,128}}:([^\s\"'\\]*)\Z",
    r"sig=([A-Za-z0-9+/_~%-]*)\Z",
    r"ignature=([A-Za-z0-9+/_~%-]*)\Z",
    rf"ookie{_QUOTES}\s?:[^\r\n\"'\\]{{0,400}}=([^=;,\s]*)\Z",
)
"""Signs before a value that may go on after the end of a text; the value is the last group.
Each pattern begins with letters, which are looked for at once."""


def open_value_from(text: str) -> int:
    """The beginning of a value in a known place that may go on after the end of *text*."""
    starts = [
        match.start(match.re.groups)
        for pattern in _OPEN_PLACES
        if (match := regex(pattern).search(text)) is not None
    ]
    for sign in regex(_ANY_SIGN).finditer(text):
        if _tells(*_name_before(text, sign.start())):
            match = regex(_OPEN_SIGN).match(text, sign.start())
            if match is not None:
                starts.append(match.start(1))
                break
    for pattern, named in ((_OPEN_IS, False), (_OPEN_OPTION, True)):
        match = regex(pattern).search(text)
        if match is not None:
            name = (match[1], "") if named else _name_before(text, match.start())
            starts += [match.start(match.re.groups)] if _tells(*name) else []
    return min(starts, default=len(text))


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


_DIGIT = re.compile("[0-9]")
_WEAK = re.compile(
    "(?i)session[_-]?id|webhook|(?:client|request|change|lock|update|creation|action)[_-]?token"
)
"""Names of what is often no more than a number of something."""
_ADDRESS = re.compile("https?:|arn:")


def _is_value(name: str, value: str) -> bool:
    """True if *value* may be the secret that is called *name*."""
    if _OF_CODE.fullmatch(value):
        return False
    if _WEAK.search(name) and not value.isalnum() and not _ADDRESS.match(value):
        return False
    if _ADDRESS.match(value) and "webhook" not in name.lower():
        return False  # what is secret in it is known by other rules
    if is_secret(value):
        return True
    if re.search("(?i)auth|basic", name) is None:
        return False
    try:  # a user and a password in base64, as in basic authentication
        plain = base64.b64decode(value + "=" * (-len(value) % 4), validate=True).decode()
    except (binascii.Error, ValueError):
        return False
    return plain.isprintable() and ":" in plain


def is_secret(value: str) -> bool:
    """True if *value* looks random, as a whole or between its dots and colons."""
    if value[0] in "$%" or "EXAMPLE" in value or not _DIGIT.search(value, 0, _BEFORE_DIGIT + 1):
        return False
    parts = re.split("[.:|=]|%[0-9A-F]{2}", value)
    return any(len(part) >= SHORTEST and is_random(part) for part in parts)


_ORDINARY = re.compile(
    r"(?i)(?:your|my|the|some|user(?:name)?|db|api|secret|pass(?:w(?:or)?d)?|pwd|key|token|test|example"
    r"|changeme|admin|root|postgres(?:ql)?|mysql|redis|guest|demo|hidden|redacted|x|\d{1,4}|[-_*.…])+"
)
_IN_CAPITALS = re.compile(r"[A-Z]+(?:_[A-Z]+)+")
