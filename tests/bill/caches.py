"""The caches of two providers, from their published rules alone, and the least that they allow.

A token is a character here, so that parts of a text have as many tokens as the text. Sources, read
on 2026-11-27: OpenAI, https://developers.openai.com/api/docs/guides/prompt-caching, and the
docstrings of ``prompt_cache_options`` in the types of the package openai 2.54; Anthropic,
https://platform.claude.com/docs/en/build-with-claude/prompt-caching, and the docstring of
``cache_control`` in the types of the package anthropic 2.14. What is in dispute is a rule of its own.

Nothing here knows anything of appl: a request is the JSON that goes over the wire.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

LEAST = 4096
"""The least tokens that are kept: 1,024, of four characters each."""
READ, WRITTEN, UNCACHED = Fraction(1, 10), Fraction(5, 4), Fraction(1)


@dataclass(frozen=True)
class Block:
    """A part of a prompt: all of the prompt up to its end, and whether it is marked there."""

    before: str
    marked: bool
    ends_message: bool


@dataclass(frozen=True)
class Counts:
    """What one request is billed for, in tokens of its prompt."""

    read: int
    written: int
    uncached: int

    @property
    def price(self) -> Fraction:
        """The price in that of a plain token."""
        return self.read * READ + self.written * WRITTEN + self.uncached * UNCACHED


def blocks(messages: Iterable[Mapping[str, Any]], mark: str) -> list[Block]:
    """The blocks of chat *messages*; a field *mark* in a part marks it, and so in a message."""
    found, before = list[Block](), ""
    for message in messages:
        before += f"<{message['role']}>"
        content = message.get("content") or ""
        parts = [{"text": content}] if isinstance(content, str) else content
        for number, part in enumerate(parts):
            before += part["text"]
            last = number == len(parts) - 1
            marked = mark in part or (last and mark in message)
            found.append(Block(before, marked, last))
    return found


@dataclass
class Cache:
    """Entries, each with the time at which it can be read, and until when it is kept.

    With *dispute* the other reading of the rule holds.
    """

    dispute: bool = False
    ttl: float = 1800.0
    entries: dict[str, tuple[float, float]] = field(default_factory=dict)

    def read(self, places: Iterable[str], now: float) -> int:
        """The length of the longest of *places* that can be read *now*; its time begins anew."""
        for place in sorted(places, key=len, reverse=True):
            begins, until = self.entries.get(place, (0.0, -1.0))
            if begins < now <= until and len(place) >= LEAST:
                self.entries[place] = begins, now + self.ttl
                return len(place)
        return 0

    def write(self, places: Iterable[str], begins: float) -> None:
        """Keep *places*, from the time *begins* on."""
        for place in places:
            if len(place) >= LEAST and self.entries.get(place, (0.0, -1.0))[1] < begins:
                self.entries[place] = begins, begins + self.ttl


class OpenAICache(Cache):
    """GPT-5.6 and later. In dispute: ends of earlier messages are entries, too."""

    def bill(self, body: Mapping[str, Any], now: float, begins: float) -> Counts:
        """The counts of a request at *now*, whose answer begins at the time *begins*."""
        parts = blocks(body["messages"], "prompt_cache_breakpoint")
        explicit = (body.get("prompt_cache_options") or {}).get("mode") == "explicit"
        whole = len(parts[-1].before)
        marked = [part.before for part in parts if part.marked]
        ends = [part.before for part in parts if part.ends_message]
        places = marked[-80:] if explicit else [*marked, *ends][-80:]
        kept = marked[-4:] if explicit else [*marked[-3:], ends[-1]]
        read = self.read(places, now)
        written = max((len(place) for place in kept if len(place) >= LEAST), default=0)
        if self.dispute and not explicit:
            kept = [*kept, *ends]
        self.write(kept, begins)
        written = max(written - read, 0)
        return Counts(read, written, whole - read - written)


class OldOpenAICache(Cache):
    """Models before GPT-5.6: beginnings in steps of 128 tokens are kept, and writing is free."""

    STEP = 512

    def bill(self, body: Mapping[str, Any], now: float, begins: float) -> Counts:
        """The counts of a request at *now*, whose answer begins at the time *begins*."""
        parts = blocks(body["messages"], "prompt_cache_breakpoint")
        assert not any(part.marked for part in parts), "these models know no marks"
        whole = parts[-1].before
        places = [whole[:end] for end in range(LEAST, len(whole) + 1, self.STEP)]
        read = self.read(places, now)
        self.write(places, begins)
        return Counts(read, 0, len(whole) - read)


class AnthropicCache(Cache):
    """Claude. In dispute: each block before a mark is an entry, too."""

    LOOK_BACK = 20

    def bill(self, body: Mapping[str, Any], now: float, begins: float) -> Counts:
        """The counts of a request at *now*, whose answer begins at the time *begins*."""
        parts = blocks(body["messages"], "cache_control")
        marks = [at for at, part in enumerate(parts) if part.marked]
        assert len(marks) <= 4, "a request has at most four marks"
        whole = len(parts[-1].before)
        near = {i for at in marks for i in range(max(at - self.LOOK_BACK, 0), at + 1)}
        read = self.read([parts[at].before for at in near], now)
        kept = [parts[at].before for at in marks]
        if self.dispute and marks:
            kept = [part.before for part in parts[: marks[-1] + 1]]
        last = len(parts[marks[-1]].before) if marks else 0
        written = max(last - read, 0) if last >= LEAST else 0
        self.write(kept, begins)
        return Counts(read, written, whole - read - written)


def least(
    prompts: Sequence[Sequence[str]],
    written: Fraction = WRITTEN,
    step: int = 1,
    surprises: Sequence[str] = (),
) -> Fraction:
    """The least that *prompts* can cost together, for one who knows all of them before.

    Each is given as the texts up to each of its borders. A piece of text between two borders that
    several prompts begin with is written once and read by the others, or is paid for each time.
    Nothing is kept that is too short, and all of it in steps of *step* tokens. No rule of a provider
    allows less. What is said in one of *surprises* comes again without a sign of it, so that nobody
    can have it kept when it comes for the first time.
    """
    uses: dict[str, int] = {}
    pieces: dict[str, int] = {}
    for prompt in prompts:
        whole = prompt[-1]
        cut = [place[: len(place) // step * step] for place in prompt]
        long = dict.fromkeys([*(place for place in cut if len(place) >= LEAST), whole])
        for before, place in zip(["", *long], long, strict=False):
            uses[place] = uses.get(place, 0) + 1
            pieces[place] = len(place) - len(before)
    total = Fraction(0)
    for place, times in uses.items():
        once = kept = UNCACHED * times
        if len(place) >= LEAST and len(place) % step == 0:
            first = any(text in place for text in surprises) and times > 1
            kept = UNCACHED * first + written + READ * (times - 1 - first)
        total += pieces[place] * min(once, kept)
    return total
