"""Conversations to token ids, kept with the links of the prompt chain; answers keep their own ids.

Invariant: the ids of a prompt are those of its whole text under the model's template, but for two
deviations that are meant: an answer of this model stands in a later prompt with the ids that it was
generated with, whoever says it there, and text in a message that spells a special token is encoded
as text.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import overload

import tokenizers

from appl.errors import ConfigError, Unsupported
from appl.prompt import Message, Messages
from appl_backends.sglang.template import (
    ChatTemplate,
    as_data,
    conversations,
    layout_of,
    tools_as_data,
)

MARK = "\ufdd0"
"""A noncharacter of Unicode that is set into what looks like a special token, for a while."""

_SEGMENTS = 4096
_PIECES = 8192
_PIECE = 512
_TOLD = 128
"""From so many characters on, an answer is kept for whoever hears it."""
_PROOFS = 16
_WORDS = 1 << 16
_VOCABULARY = 1 << 18
_WORD = 64
_ANSWERS = 256
_BLOCK = 16
_HEARD = 1 << 20
"""The most tokens of answers that are kept for whoever hears them."""
_HEAD = 8
_BETWEEN_WORDS = re.compile(r" (?<=[!-~] )(?=[A-Za-z])")
"""The space before a word; a pattern that begins with it takes half the time."""
_SPANS = re.compile("[!-~][ \u0120\u2581]")
"""Signs of a token of several words: vocabularies write a space as it is, as Ġ, or as ▁."""


class TokenRun(Sequence[int]):
    """Some tokens of a prompt after those of *before*; as a sequence, all ids up to here.

    They are kept as ids and as the JSON of their list. ``size`` counts the tokens, ``number`` the
    runs up to here; ``sent`` says that the server has computed them, and perhaps still has them in
    its cache.
    """

    __slots__ = ("_all", "_kept", "before", "ids", "number", "sent", "size", "text")

    def __init__(
        self, before: TokenRun | None, ids: Sequence[int], text: bytes | None = None
    ) -> None:
        self.before, self.ids = before, ids
        self.text = _as_json(ids) if text is None else text
        self.size: int = len(ids) + (before.size if before is not None else 0)
        self.number: int = 1 + (before.number if before is not None else 0)
        self._all: list[int] | None = None
        self._kept: tuple[bytes, TokenRun | None] | None = None
        self.sent = False

    def computed(self, tokens: int) -> None:
        """The server has computed the first *tokens* tokens."""
        run: TokenRun | None = self
        while run is not None and not run.sent:
            run.sent = run.size <= tokens
            run = run.before

    def cold(self) -> int:
        """The number of tokens at the end that the server has not computed yet."""
        run: TokenRun | None = self
        while run is not None and not run.sent:
            run = run.before
        return self.size - (run.size if run is not None else 0)

    def all_ids(self) -> list[int]:
        """All ids up to here; the list belongs to the caller."""
        return [token for run in reversed(self._runs()) for token in run.ids]

    def all_text(self) -> bytes:
        """``1,2,3``: all ids up to here as JSON without the brackets."""
        return b"".join(self.pieces())

    def pieces(self) -> list[bytes]:
        """The pieces of ``all_text``; runs of long ago are joined, so that they are few."""
        run: TokenRun | None = self
        found: list[bytes] = []
        while run is not None:
            piece, run = (run.text, run.before) if run.number % _BLOCK else run._block()
            if piece:  # an empty message with the template `plain` adds nothing
                found.append(piece)
        if found:
            found[0] = found[0][:-1]  # no comma follows the last one
        found.reverse()
        return found

    def _block(self) -> tuple[bytes, TokenRun | None]:
        """The JSON of the block of runs that this one ends, and the run before them; kept."""
        if self._kept is None:
            pieces, run = [self.text], self.before
            while run is not None and run.number % _BLOCK:
                pieces.append(run.text)
                run = run.before
            self._kept = b"".join(reversed(pieces)), run
        return self._kept

    def __len__(self) -> int:
        return self.size

    @overload
    def __getitem__(self, at: int) -> int: ...
    @overload
    def __getitem__(self, at: slice) -> list[int]: ...
    def __getitem__(self, at: int | slice) -> int | list[int]:
        if self._all is None:
            self._all = self.all_ids()
        return self._all[at]

    def __iter__(self) -> Iterator[int]:
        return iter(self[:])

    def _runs(self) -> list[TokenRun]:
        found: list[TokenRun] = []
        run: TokenRun | None = self
        while run is not None:
            found.append(run)
            run = run.before
        return found


def _as_json(ids: Iterable[int]) -> bytes:
    """``1,2,3,``: a comma follows each."""
    return b"".join(map(_numbers.__getitem__, ids))


class _Numbers(dict[int, bytes]):
    """Token ids as JSON, with a comma: to write each anew takes twice as long."""

    def __missing__(self, number: int) -> bytes:
        found = b"%d," % number
        if len(self) >= _VOCABULARY:
            self.clear()
        self[number] = found
        return found


_numbers = _Numbers()


class GeneratedTokens:
    """The tokens that a model has generated, as ids and, once somebody needs it, as JSON."""

    __slots__ = ("_text", "ids")

    def __init__(self, ids: Iterable[int]) -> None:
        self.ids = array("q", ids)
        self._text: bytes | None = None

    @property
    def text(self) -> bytes:
        """The ids as JSON, with a comma after each."""
        if self._text is None:
            self._text = _as_json(self.ids)
        return self._text


class ModelTokenizer:
    """The tokenizer of a model folder."""

    def __init__(self, folder: Path) -> None:
        file = folder / "tokenizer.json"
        if not file.is_file():
            raise ConfigError(
                f"there is no tokenizer in {folder} (no file tokenizer.json); give the backend "
                "tokenizer=<the folder that has it>"
            )
        source = file.read_text("utf-8")
        self.fingerprint = hashlib.blake2b(source.encode(), digest_size=8).hexdigest()
        self._inner = tokenizers.Tokenizer.from_str(source)
        self._blind = tokenizers.Tokenizer.from_str(source)
        self._blind.encode_special_tokens = True
        added = self._inner.get_added_tokens_decoder()
        self._added = frozenset(added)
        self.special = {token.content: at for at, token in added.items() if token.special}
        words = sorted((re.escape(token.content) for token in added.values()), key=len)
        self._words = re.compile("|".join(reversed(words)) or r"(?!)")
        self._segments: dict[str, list[int]] = {}
        self._pieces: dict[tuple[str, str], tuple[list[int], bytes]] = {}
        self._answers: dict[str, GeneratedTokens] = {}
        self._answered = 0
        self._known = _Words(lambda word: self.encode(" " + word))
        self._begun = _Words(self.encode)
        vocabulary = self._inner.get_vocab(with_added_tokens=False)
        self._cuts = _SPANS.search("\n".join(vocabulary)) is None
        self._proofs = 0
        self._guard, self._guarded = "", 0

    def encode(self, text: str) -> list[int]:
        """The ids of *text*, special tokens in it included."""
        if not text:
            return []
        given = self._guard + (text if text.isascii() else clean(text))
        found: list[int] = self._inner.encode(given, add_special_tokens=False).ids
        return found[self._guarded :]

    def encode_said(self, text: str) -> list[int]:
        """The ids of *text* that somebody said: special tokens written in it are text as well."""
        if not self.has_words(text):
            return self._in_words("", text)
        found: list[int] = self._blind.encode(clean(text), add_special_tokens=False).ids
        return found

    def decode(self, ids: Sequence[int]) -> str:
        """The text of *ids*, special tokens left out."""
        found: str = self._inner.decode(list(ids), skip_special_tokens=True)
        return found

    def has_words(self, text: str) -> bool:
        """True if something in *text* would be taken for a special token."""
        return self._words.search(text) is not None

    def marked(self, text: str) -> str:
        """*text* with a mark in everything that would be taken for a special token."""
        return self._words.sub(lambda found: found[0][0] + MARK + found[0][1:], text)

    def encode_marked(self, text: str) -> list[int]:
        """The ids of *text*, encoded from special token to special token; marked ones are text."""
        found: list[int] = []
        begun = 0
        for each in self._words.finditer(text):
            found += self.segment(text[begun : each.start()])
            begun = each.start()
        return found + self.segment(text[begun:])

    def answered(self, text: str, tokens: GeneratedTokens) -> None:
        """Keep that a model has said *text* with *tokens*, which another one may hear."""
        if text in self._answers:
            return
        self._answers[text] = tokens
        self._answered += len(tokens.ids)
        while self._answered > _HEARD:
            self._answered -= len(self._answers.pop(next(iter(self._answers))).ids)

    def _heard(self, join: str, text: str) -> tuple[list[int], bytes] | None:
        """The ids of an answer *text* after *join*; ``None`` if it is none, or must be encoded."""
        tokens = self._answers.get(text)
        if tokens is None or not self._added.isdisjoint(tokens.ids) or self.has_words(text):
            return None  # the ids of what only looks like a special token are no text
        before, head = self.segment(join), text[:_HEAD]  # no token spans what stands between them
        if self.segment(join + head) != before + self.segment(head) or "\ufffd" in text:
            return None
        return [*before, *tokens.ids], _as_json(before) + tokens.text

    def said_after(self, join: str, text: str) -> tuple[list[int], bytes]:
        """The ids of *text* that somebody said, after *join* of the template; and as JSON.

        Long texts are kept piece by piece, so that texts with a common beginning share the work.
        """
        if text in self._answers and (heard := self._heard(join, text)) is not None:
            return heard
        if not self._cuts or len(text) < 2 * _PIECE:
            ids = self._said(join, text)
            return ids, _as_json(ids)
        parts = [self._piece(join if not at else "", piece) for at, piece in enumerate(_cut(text))]
        ids = list(chain.from_iterable(part for part, _ in parts))
        return ids, b"".join([part for _, part in parts])

    def _piece(self, join: str, text: str) -> tuple[list[int], bytes]:
        found = self._pieces.get((join, text))
        if found is None:
            ids = self._said(join, text)
            found = self._pieces[join, text] = ids, _as_json(ids)
            if len(self._pieces) > _PIECES:
                self._pieces.pop(next(iter(self._pieces)), None)
        return found

    def _said(self, join: str, text: str) -> list[int]:
        if self._words.search(text) is not None:
            return self.encode_marked(join + self.marked(text))
        return self._in_words(join, text)

    def _in_words(self, join: str, text: str) -> list[int]:
        """The ids of *text* after *join*, encoded word by word: most words were seen before.

        It is cut at a space that a word follows, if no token of the vocabulary has a space after
        another sign. The first texts are also encoded at once, and unless that is the same, nothing
        is cut any more.
        """
        first, *words = _BETWEEN_WORDS.split(text) if self._cuts else (text,)
        if not words:
            return self.encode(join + first)
        others = chain.from_iterable(map(self._known.__getitem__, words))
        ids = [*self._begun[join + first], *others]
        if self._proofs < _PROOFS:
            self._proofs += 1
            whole = self.encode(join + text)
            self._cuts = self._cuts and whole == ids
            return whole
        return ids

    def guards(self, texts: Sequence[str]) -> bool:
        """See to it that *texts* can be encoded in segments; whether they can."""
        for guard in ("", *self.special):
            self._guard, self._guarded = "", 0
            whole = [self.encode(text) for text in texts]
            self._guarded = len(self.encode(guard))
            self._guard = guard
            for kept in (self._segments, self._known, self._begun):
                kept.clear()
            if all(map(list.__eq__, map(self.encode_marked, texts), whole)):
                return True
        self._guard, self._guarded = "", 0
        return False

    def segment(self, text: str) -> list[int]:
        """The ids of a part of the template, kept: the list belongs to all."""
        found = self._segments.get(text)
        if found is None:
            found = self._segments[text] = self._fresh(text)
            if len(self._segments) > _SEGMENTS:
                self._segments.pop(next(iter(self._segments)), None)
        return found

    def _fresh(self, text: str) -> list[int]:
        if MARK not in text:
            return self.encode(text)
        word = self._words.match(text)
        end = word.end() if word is not None else 0
        return self.encode(text[:end]) + self.encode_said(text[end:].replace(MARK, ""))


class _Words(dict[str, list[int]]):
    """The ids of words that were seen, as *encode* has found them."""

    def __init__(self, encode: Callable[[str], list[int]]) -> None:
        self._encode = encode

    def __missing__(self, word: str) -> list[int]:
        found = self._encode(word)
        if len(word) <= _WORD:
            if len(self) >= _WORDS:
                self.clear()
            self[word] = found
        return found


class Prompts:
    """The ids of prompts under one tokenizer and one template.

    ``incremental`` says whether a prompt costs what is new in it, and not all of it;
    ``segmented`` whether parts of a text can be encoded by themselves, answers among them.
    """

    def __init__(self, tokenizer: ModelTokenizer, template: ChatTemplate) -> None:
        self.tokenizer, self.template = tokenizer, template
        self._layout = layout_of(template)
        self.segmented = tokenizer.guards(_samples(template))
        key = ("sglang", tokenizer.fingerprint, hash(template.source))
        self._asked_key, self._closed_key, self._said_key = (*key, 0), (*key, 1), (*key, 2)
        self._opening, self._opening_text = list[int](), b""
        after = self._layout.joins["assistant", "user"] if self._layout is not None else ""
        self._end = self._ends(after)
        self._turns = self._layout is None or bool(after)  # the template ``plain`` has none
        if self._layout is not None:
            self._opening = tokenizer.encode(self._layout.opening)
            self._opening_text = _as_json(self._opening)
        self.incremental = self.segmented and self._layout is not None and self._adds_up()

    def known(self, messages: Messages | None, tools: tuple[str, ...] = ()) -> TokenRun | None:
        """The prompt, where it has been encoded before."""
        if messages is None:
            return None
        key = (*self._asked_key, tools) if tools else self._asked_key
        return messages.cache.get(key)  # type: ignore[return-value]

    def of(self, messages: Messages | None, tools: tuple[str, ...] = ()) -> TokenRun:
        """The prompt that asks for the next assistant message, or goes on with a begun one.

        Raises ``Unsupported`` for what the template refuses.
        """
        if messages is None:
            return TokenRun(None, self._whole(None, tools))
        key = (*self._asked_key, tools) if tools else self._asked_key
        known = messages.cache.get(key)
        if isinstance(known, TokenRun):
            return known
        made = self._asked(messages) if self.incremental and not tools else None
        if made is None:
            made = TokenRun(None, self._whole(messages, tools))
        messages.cache[key] = made
        return made

    def answered(
        self, messages: Messages | None, text: str, ids: Sequence[int], *, cut: bool = False
    ) -> None:
        """Keep that *ids* are the tokens of *text*, which the model answered to *messages*.

        Of a *cut* text they are more than that: those of what ended it as well.
        """
        if messages is None or not text or not ids or not self.segmented:
            return
        if cut:
            ids = self._fitting(ids, text)
        tokens = GeneratedTokens(ids)
        if len(text) >= _TOLD:
            self.tokenizer.answered(text, tokens)
        place: Messages | None = messages
        if messages.outline.role == "assistant" and begun(messages):
            before, place = messages.message.content, messages.parent
            tokens = GeneratedTokens([*self._answer(place, before), *ids])
            text = before + text
        if place is None:
            return
        answers = _answers(place, self._said_key)
        answers[text] = tokens
        if len(answers) > _ANSWERS:
            del answers[next(iter(answers))]

    def options(
        self,
        messages: Messages | None,
        prompt: TokenRun,
        choices: Sequence[str],
        ends: bool | None = None,
    ) -> tuple[int, list[list[int]]]:
        """The prompt with each of *choices* as its answer, and where these begin to be scored.

        A begun answer is encoded together with each choice, because tokens may span the two: then
        scoring begins where the first of them differs from the prompt. *ends* says whether the end
        of the turn follows each; by default it does where a choice is a turn of its own.
        """
        ids = prompt.all_ids()
        continued = messages is not None and begun(messages)
        end = self._end if (self._turns and not continued if ends is None else ends) else []
        if messages is None or not continued:
            whole = [[*ids, *self.tokenizer.encode_said(each), *end] for each in choices]
            return len(ids), whole
        said = messages.message.content
        trunk = ids[: len(ids) - len(self._answer(messages.parent, said))]
        whole = [[*trunk, *self._answer(messages.parent, said + each), *end] for each in choices]
        return min(_common(ids, each) for each in whole), whole

    def _fitting(self, ids: Sequence[int], text: str) -> list[int]:
        """As many of *ids* as *text* begins with, and the rest of it encoded."""
        for count in range(len(ids), 0, -1):
            said = self.tokenizer.decode(ids[:count])
            if text.startswith(said):
                return [*ids[:count], *self.tokenizer.encode_said(text[len(said) :])]
        return self.tokenizer.encode_said(text)

    def text(self, messages: Messages | None, tools: tuple[str, ...] = ()) -> str:
        """The text that the template makes of the conversation, for servers that encode it."""
        links = messages.links() if messages is not None else []
        return self._rendered(links, [link.message for link in links], tools)

    def _ends(self, after: str) -> list[int]:
        """The special token that ends an answer, where there is one; *after* follows answers."""
        ids = self.tokenizer.encode(after)[:1] or [
            self.tokenizer.special.get(self.template.tokens.get("eos_token", ""), -1)
        ]
        return [each for each in ids if each in self.tokenizer.special.values()]

    # -- message by message

    def _asked(self, messages: Messages) -> TokenRun | None:
        role = messages.outline.role
        if role != "user" and not begun(messages):
            return None
        closed = self._closed(messages)
        if role != "user" or closed is None:
            return closed
        return TokenRun(closed, self._opening, self._opening_text)

    def _closed(self, messages: Messages) -> TokenRun | None:
        """The tokens up to the end of the last message's text; ``None`` if one does not fit."""
        todo: list[Messages] = []
        link: Messages | None = messages
        while link is not None and self._closed_key not in link.cache:
            todo.append(link)
            link = link.parent
        run = link.cache[self._closed_key] if link is not None else None
        for each in reversed(todo):
            if each.parent is None or run is not None:
                run = self._after(run, each)  # type: ignore[arg-type]
            each.cache[self._closed_key] = run
        return run if isinstance(run, TokenRun) else None

    def _after(self, run: TokenRun | None, link: Messages) -> TokenRun | None:
        assert self._layout is not None
        message = link.kept or link.message
        before = link.parent.outline.role if link.parent is not None else None
        join, written = (
            self._layout.joins.get((before, message.role)),
            self._layout.written(message),
        )
        if join is None or written is None:
            return None
        if message.role != "assistant":
            return TokenRun(run, *self.tokenizer.said_after(join, written))
        opening = self.tokenizer.segment(join)
        answer = self._generated(link.parent).get(message.content)
        if answer is not None:
            return TokenRun(run, [*opening, *answer.ids], _as_json(opening) + answer.text)
        return TokenRun(run, opening + self._answer(link.parent, message.content))

    def _generated(self, before: Messages | None) -> dict[str, GeneratedTokens]:
        """The answers to *before* by their texts."""
        return _answers(before, self._said_key) if before is not None else {}

    def _answer(self, before: Messages | None, text: str) -> list[int]:
        """The ids of an assistant's *text*: those of answers to *before* as they were generated."""
        known, ids = "", array("q")
        answers = self._generated(before)
        if text in answers:
            return list(answers[text].ids)
        for each, its in answers.items():
            if len(each) > len(known) and text.startswith(each):
                known, ids = each, its.ids
        if not ids and self._layout is not None and "assistant" in self._layout.trimmed:
            return self.tokenizer.encode_said(text.lstrip())
        return [*ids, *self.tokenizer.encode_said(text[len(known) :])]

    def _adds_up(self) -> bool:
        return all(
            self._asked(chain).all_ids() == self.tokenizer.encode(self._layout.text(messages))  # type: ignore[union-attr]
            for messages in conversations()
            if (chain := Messages.of(messages)) is not None
        )

    # -- all at once

    def _whole(self, messages: Messages | None, tools: tuple[str, ...]) -> list[int]:
        links = messages.links() if messages is not None else []
        said = [self._marked(link.message) for link in links]
        text = self._rendered(links, said, tools)
        if not self.segmented:
            return self.tokenizer.encode(text.replace(MARK, ""))
        ids: list[int] = []
        done = at = 0
        for link, message in zip(links, said, strict=True):
            found = text.find(message.content, at) if message.content else -1
            if found < 0:
                continue
            at = found + len(message.content)
            if self._is_ours(link):
                ids += self.tokenizer.encode_marked(text[done:found])
                ids += self._answer(link.parent, link.message.content)
                done = at
        return ids + self.tokenizer.encode_marked(text[done:])

    def _is_ours(self, link: Messages) -> bool:
        """True if *link* is an answer of ours, or begins with one."""
        if link.outline.role != "assistant" or link.parent is None:
            return False
        text = link.message.content
        return any(map(text.startswith, _answers(link.parent, self._said_key)))

    def _rendered(self, links: list[Messages], said: list[Message], tools: tuple[str, ...]) -> str:
        is_begun = bool(links) and begun(links[-1])
        data = [as_data(each) for each in (said[:-1] if is_begun else said)]
        text = self.template.render(data, tools=tools_as_data(tools))
        return text + said[-1].content if is_begun else text

    def _marked(self, message: Message) -> Message:
        if not self.tokenizer.has_words(message.content) or message.media:
            return message
        return replace(message, content=self.tokenizer.marked(message.content))


def begun(messages: Messages) -> bool:
    """True if the conversation ends with an answer that is to be continued."""
    return messages.outline.role == "assistant" and not messages.outline.tool_calls


def _cut(text: str) -> list[str]:
    """*text* in pieces; those of a common beginning are the same."""
    found, done = [], 0
    while (place := _BETWEEN_WORDS.search(text, done + _PIECE)) is not None:
        found.append(text[done : place.start()])
        done = place.start()
    return [*found, text[done:]]


def clean(text: str) -> str:
    """*text* with lone surrogates replaced by U+FFFD (pairs of them are joined)."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _common(ids: Sequence[int], other: Sequence[int]) -> int:
    """The number of ids that two lists have in common at the beginning."""
    pairs = zip(ids, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(ids), len(other)))


def _answers(place: Messages, key: object) -> dict[str, GeneratedTokens]:
    found = place.cache.get(key)
    if not isinstance(found, dict):
        found = place.cache[key] = {}
    return found


def _samples(template: ChatTemplate) -> list[str]:
    """Texts of the template, as far as it takes the conversations."""
    found = []
    for messages in conversations():
        with contextlib.suppress(Unsupported):
            found.append(template.render([each.as_dict() for each in messages]))
    return found
