"""Grammars in the EBNF of XGrammar, translated for llguidance.

Invariant: the translation accepts the same texts. Its terminals are single characters, so that the
lexer of llguidance, which prefers the longest match, has nothing to choose.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from appl.errors import Unsupported, nearest

ROOT = "root"
_TOKEN = re.compile(
    r"""(?P<space>\s+|\#[^\n]*)
      | (?P<define>::=)
      | (?P<name>[A-Za-z_][\w.-]*)
      | (?P<text>"(?:\\.|[^"\\])*")
      | (?P<set>\[(?:\\.|[^\]\\])*\])
      | (?P<times>\{\s*[0-9]{1,9}\s*(?:,\s*[0-9]{0,9}\s*)?\})
      | (?P<sign>[|()*+?.])""",
    re.VERBOSE | re.DOTALL,
)
_CHARACTER = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))|(.)", re.DOTALL
)
_ESCAPES = {
    **{sign: sign for sign in "\\\"'[]-^/?"},
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "0": "\0",
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "v": "\v",
    "e": "\x1b",
}
_EMPTY = '""'
_ANY = r"/[\u{0}-\u{10FFFF}]/"
_LAST = 0x10FFFF


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    line: int


def lark_of(grammar: str) -> str:
    """*grammar*, whose first rule to read is ``root``, in llguidance's language.

    Raises ``Unsupported`` with the line of what cannot be read.
    """
    return "\n".join(_GrammarReader(grammar).rules())


def fits(grammar: str, text: str) -> bool | None:
    """True if the whole *text* is one of *grammar*; ``None`` for a grammar that cannot be read."""
    llguidance: Any = importlib.import_module("llguidance")  # 50 ms, for programs with grammars
    try:
        source = llguidance.LLMatcher.grammar_from_lark(lark_of(grammar))
    except Unsupported:
        return None
    matcher = llguidance.LLMatcher(llguidance.LLTokenizer("byte"), source)
    if matcher.is_error():
        return None
    units = list(text.encode("utf-8", "replace"))
    return matcher.try_consume_tokens(units) == len(units) and bool(matcher.is_accepting())


class _GrammarReader:
    """Reads one grammar from left to right."""

    def __init__(self, grammar: str) -> None:
        self._tokens = list(_tokens(grammar))
        self._at = 0
        starts = zip(self._tokens, self._tokens[1:], strict=False)
        heads = [start for start, after in starts if _begins(start, after)]
        self._names = {ROOT: "start"}
        for number, head in enumerate(heads):
            self._names.setdefault(head.text, f"r{number}")
        self._heads = [head.text for head in heads]

    def rules(self) -> Iterator[str]:
        """The rules of the translation."""
        if ROOT not in self._heads:
            raise _wrong(1, "there is no rule root: write root ::= …, in the EBNF of XGrammar")
        for name in self._heads:
            if self._heads.count(name) > 1:
                raise _wrong(self._line(), f"there are two rules {name!r}: join them with |")
        while self._at < len(self._tokens):
            yield self._rule()

    def _rule(self) -> str:
        name = self._take()
        if not _begins(name, self._next()):
            raise _wrong(name.line, f"a rule NAME ::= … is wanted, got {name.text!r}")
        self._take()
        return f"{self._names[name.text]}: {self._alternatives()}"

    def _alternatives(self) -> str:
        found = [self._sequence()]
        while self._is("|"):
            self._take()
            found.append(self._sequence())
        return " | ".join(found)

    def _sequence(self) -> str:
        found: list[str] = []
        while self._goes_on():
            found.append(self._repeated(self._element()))
        return " ".join(found) or _EMPTY

    def _goes_on(self) -> bool:
        token = self._next()
        return token is not None and token.text not in ("|", ")") and not self._is_head()

    def _is_head(self) -> bool:
        pair = self._tokens[self._at : self._at + 2]
        return len(pair) == 2 and _begins(*pair)

    def _element(self) -> str:
        token = self._take()
        if token.kind == "text":
            return f"({' '.join(map(_literal, _characters(token))) or _EMPTY})"
        if token.kind == "set":
            return _class(token)
        if token.kind == "name":
            return self._reference(token)
        if token.text == ".":
            return _ANY
        if token.text == "(":
            return self._group(token)
        raise _wrong(token.line, f"{token.text!r} has nothing before it")

    def _reference(self, token: _Token) -> str:
        if token.text not in self._names:
            hint = nearest(token.text, self._names)
            raise _wrong(token.line, f"there is no rule {token.text!r}{hint}")
        return self._names[token.text]

    def _group(self, opened: _Token) -> str:
        inner = self._alternatives()
        if not self._is(")"):
            raise _wrong(opened.line, "a ( is not closed")
        self._take()
        return f"({inner})"

    def _repeated(self, element: str) -> str:
        token = self._next()
        while token is not None and (token.kind == "times" or token.text in ("*", "+", "?")):
            self._take()
            element = f"({element}{_times(token)})"
            token = self._next()
        return element

    def _is(self, sign: str) -> bool:
        token = self._next()
        return token is not None and token.kind == "sign" and token.text == sign

    def _next(self) -> _Token | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _take(self) -> _Token:
        token = self._tokens[self._at]
        self._at += 1
        return token

    def _line(self) -> int:
        return self._tokens[min(self._at, len(self._tokens) - 1)].line


def _tokens(grammar: str) -> Iterator[_Token]:
    at = 0
    while at < len(grammar):
        found, line = _TOKEN.match(grammar, at), grammar.count("\n", 0, at) + 1
        if found is None:
            raise _wrong(line, f"{grammar[at : at + 20]!r} is not understood")
        kind = str(found.lastgroup)
        if kind != "space":
            yield _Token(kind, found[0], line)
        at = found.end()


def _begins(token: _Token, after: _Token | None) -> bool:
    """True if a rule begins with *token*."""
    return token.kind == "name" and after is not None and after.kind == "define"


def _characters(token: _Token) -> list[str]:
    """The characters of a text or a set, their escapes read."""
    found = [_character(hit, token.line) for hit in _CHARACTER.finditer(token.text[1:-1])]
    return [character for character, _ in found]


def _character(found: re.Match[str], line: int) -> tuple[str, bool]:
    """A character, and whether it was written with a backslash."""
    code = found[1] or found[2] or found[3]
    if code is not None:
        number = int(code, 16)
        if number > _LAST or 0xD800 <= number < 0xE000:
            raise _wrong(line, f"{found[0]} is no character")
        return chr(number), True
    if found[4] is None:
        return found[5], False
    if found[4] not in _ESCAPES:
        raise _wrong(line, f"the escape {found[0]} is not known")
    return _ESCAPES[found[4]], True


def _literal(character: str) -> str:
    return json.dumps(character, ensure_ascii=False)


def _class(token: _Token) -> str:
    """A set of characters, as a regular expression."""
    found = [_character(hit, token.line) for hit in _CHARACTER.finditer(token.text[1:-1])]
    negated = found[:1] == [("^", False)]
    ranges = "".join(_ranges(found[negated:], token.line))
    if not ranges:
        raise _wrong(token.line, f"the set {token.text} is empty")
    return f"/[{'^' if negated else ''}{ranges}]/"


def _ranges(characters: list[tuple[str, bool]], line: int) -> Iterator[str]:
    at = 0
    while at < len(characters):
        first = characters[at][0]
        if characters[at + 1 : at + 2] == [("-", False)] and at + 2 < len(characters):
            last = characters[at + 2][0]
            if last < first:
                raise _wrong(line, f"the range {first}-{last} goes backwards")
            yield f"{_code(first)}-{_code(last)}"
            at += 3
        else:
            yield _code(first)
            at += 1


def _code(character: str) -> str:
    return rf"\u{{{ord(character):X}}}"


def _times(token: _Token) -> str:
    """A repetition: ``*``, ``+``, ``?`` or ``{least,most}``."""
    if token.kind != "times":
        return token.text
    least, comma, most = (part.strip() for part in token.text[1:-1].partition(","))
    if most and int(most) < int(least):
        raise _wrong(token.line, f"{token.text} asks for more than it allows")
    return f"{{{least}{comma}{most}}}"


def _wrong(line: int, problem: str) -> Unsupported:
    return Unsupported(f"gen(grammar=...): line {line}: {problem}")
