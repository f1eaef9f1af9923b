"""Continuations: an answer that the token limit cut is continued, its pieces are joined exactly.

Invariant: nothing that was passed on to a stream is taken back, and the joined text is the same
whether it was streamed or not. White space and half characters at a cut are asked for again: many
models neither continue after white space well nor can end a text with it.

A backend that can continue an assistant's message (``prefill``) is given what was said so far as
the beginning of its answer, and what comes is simply the rest. Any other is asked in words to
repeat the last words and go on; they are left out, and what comes before them too (unless they are
so few that they may stand there by chance). If they are not there, the longest overlap of the end
of one piece with the beginning of the next is left out. One of fewer than twelve characters has to
be whole words, with which the next piece begins at once: else it may be there by chance. If there
is none, the pieces are joined as they are, with a warning; where several are possible, because the
text repeats itself, there is a warning too.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Protocol

from appl.backend import Profile, Sample, Sampling, TokenLogprob
from appl.errors import InvalidOption, PromptTooLong, Unsupported
from appl.prompt import USER, PromptNode
from appl.runtime.answers.call import Call
from appl.runtime.answers.feed import Feed, Kind
from appl.runtime.answers.multi_call import MultiCall, continued, response_of
from appl.runtime.answers.stream import Stream
from appl.runtime.answers.text import Text
from appl.runtime.concurrency.promise import Error, Value

CUT = "length"
CONSTRAINTS = ("regex", "grammar", "schema")
MARKER, LONGEST_MARKER = 40, 400
LEAST_OVERLAP, LEAST_WORDS = 12, 3
HALF = "\ufffd"  # what a server puts in place of half a character
_ASK = (
    "The answer above was cut off by the limit of its length. Write the rest of it. Begin by "
    "repeating its last words exactly as they stand between these two lines, and go on from there; "
    "write nothing else before them.\n-----\n{marker}\n-----"
)

_NOTHING = (
    "the continuation {address} repeats nothing of the text that it continues; the two are joined "
    "as they are"
)
_ONLY = (
    "the continuation {address} only begins to repeat the text that it continues; nothing of it is "
    "taken"
)
_SEVERAL = (
    "the continuation {address} repeats words that the text repeats itself; the longest repetition "
    "is left out, and a part of it may be missing"
)


def check(profile: Profile, sampling: Sampling, n: int, choices: object) -> None:
    """Refuse options with which an answer cannot be continued."""
    if n != 1:
        raise InvalidOption(
            f"gen(n={n}, max_relay_rounds=...): only a single answer is continued; call gen() {n} "
            "times"
        )
    if choices is not None:
        raise InvalidOption(
            "gen(choices=..., max_relay_rounds=...): a choice is not continued; leave out "
            "max_relay_rounds"
        )
    for name in CONSTRAINTS:
        if getattr(sampling, name) is not None and "constrained_prefill" not in profile.features:
            option = "response_format" if name == "schema" else name
            raise Unsupported(
                f"backend {profile.name!r} cannot hold an answer to gen({option}=...) across "
                "a cut; leave out max_relay_rounds and give it enough max_tokens"
            )


class Continuation(MultiCall):
    """The answer of a call and of its continuations, at most *rounds* of them.

    Each has the address of the answer and ``more.`` with its number. Usage, cost and
    log-probabilities are those of all; the finish reason is the last one's.
    """

    __slots__ = ("_asked_at", "_growing", "_joint", "_last", "_logprobs", "_rounds", "_taken")

    def __init__(self, first: Call, rounds: int) -> None:
        super().__init__(first)
        self._rounds = rounds
        self._growing = Growing(first.sampling.stop)
        self._joint: Joint = Straight()
        self._taken = 0  # how much of this round's text went through the joint
        self._asked_at = 0, 0  # how long the text was when more was asked for; and what was firm
        self._last: Sample | None = None
        self._logprobs: list[TokenLogprob] | None = []

    def longer(self, address: str, node: PromptNode) -> Continuation:
        return Continuation(self.call.longer(address, node), self._rounds)

    # -- what is streamed

    def stream_to(self, stream: Stream) -> None:
        self.stream = stream
        self.call.stream_to(self)

    def stream_more(self, sources: Sequence[Call | MultiCall], stream: Stream) -> None:
        sources[0].call.stream_to(self)

    def add(self, feed: Feed, kind: Kind, text: str) -> None:
        """Take a chunk of the present call: pass on the part that certainly is of the answer."""
        self._pass(feed, kind, self._take(text) if kind == "text" else text)

    def _take(self, text: str) -> str:
        self._taken += len(text)
        return self._growing.add(self._joint.feed(text))

    def _pass(self, feed: Feed | None, kind: Kind, text: str) -> None:
        if text and feed is not None and self.stream is not None:
            self.stream.add(feed, kind, text)

    # -- what is asked

    def step(self, round: list[Call | MultiCall]) -> None:
        call = round[0].call
        sample = response_of(call).samples[0]
        rest = self._take(sample.text[self._taken :]) + self._growing.add(self._joint.close())
        self._pass(call.emit, "text", rest)
        if self._joint.doubt:
            self.run.reporter.warn(call.address, self._joint.doubt.format(address=call.address))
        dropped = self._to_drop(sample)
        self._growing.drop(dropped or 0)
        self._note(sample, self._joint.skipped, dropped or 0)
        if dropped is None:
            self._complete()
            return
        text, trunk = self._growing.text, self.call.trunk()
        self._asked_at, self._taken = (len(text), len(firm(text))), 0
        self._joint, node = Straight(), continued(trunk, BegunText(call, text))
        if "prefill" not in self.call.profile.features:
            self._joint = overlap = Overlap(text)
            node = PromptNode(node, USER, _ASK.format(marker=overlap.marker))
            if not overlap.marker and trunk is not None:  # nothing to repeat: the same once more
                node = PromptNode(trunk, trunk.voice, BegunText(call, ""), starts=False)
        more = self.call.longer(f"{self.address}/more.{len(self.sources)}", node)
        more.sampling = self._sampling(text)
        self.ask(more)

    def _to_drop(self, sample: Sample) -> int | None:
        """The number of characters to drop from the end and ask for again; ``None`` at the end.

        White space is kept when a whole round brought nothing else: so there is progress.
        """
        if sample.finish_reason != CUT or sample.tool_calls or self._growing.stopped:
            return None
        if len(self.sources) > self._rounds:
            return None
        text = self._growing.text
        length, visible = self._asked_at
        firm_text = firm(text)
        if len(firm_text) <= visible:
            firm_text = text.rstrip(HALF)
            if len(firm_text) <= length:
                return None
        return len(text) - len(firm_text)

    def _sampling(self, begun: str) -> Sampling:
        """The sampling of a continuation; repeated words do not count as tokens."""
        sampling, joint = self.call.sampling, self._joint
        if isinstance(joint, Overlap) and sampling.max_tokens is not None:
            return dataclasses.replace(sampling, max_tokens=sampling.max_tokens + len(joint.marker))
        if any(getattr(sampling, name) is not None for name in CONSTRAINTS):
            return dataclasses.replace(sampling, begun=begun)
        return sampling

    def failed(self, outcome: Error) -> None:
        if self._last is None or not isinstance(outcome.error, PromptTooLong):
            super().failed(outcome)
            return
        outcome.looked = True  # the model's context is full: the answer ends here
        self.sources = self.sources[:-1]
        self._complete()

    # -- what comes of it

    def _note(self, sample: Sample, skipped: int, dropped: int) -> None:
        self._last = sample
        if sample.logprobs is None or self._logprobs is None:
            self._logprobs = None
        else:
            self._logprobs += within(sample, skipped, len(sample.text) - dropped)

    def _complete(self) -> None:
        assert self._last is not None
        self._pass(self.sources[-1].call.emit, "text", self._growing.close())
        thoughts = [response_of(source).samples[0].reasoning for source in self.sources]
        sample = dataclasses.replace(
            self._last,
            text=self._growing.text,
            finish_reason="stop" if self._growing.stopped else self._last.finish_reason,
            logprobs=None if self._logprobs is None else tuple(self._logprobs),
            reasoning="".join(filter(None, thoughts)) or None,
        )
        self.finish(Value(Text.of(self.address, self.total([sample]), tools=self.call.tools)))


class BegunText:
    """The beginning of an answer as a part of the prompt that asks for the rest."""

    __slots__ = ("_call", "_text")

    def __init__(self, call: Call, text: str) -> None:
        self._call, self._text = call, text

    def prompt_ready(self) -> bool:
        return True

    def prompt_text(self) -> str:
        return self._text

    def prompt_source(self) -> object:
        return self._call


def within(sample: Sample, start: int, end: int) -> list[TokenLogprob]:
    """The tokens of *sample* that begin between two offsets in its text.

    All of them, when they do not make up the text (half characters, say).
    """
    tokens = list(sample.logprobs or ())
    if "".join(token.token for token in tokens) != sample.text:
        return tokens
    inside: list[TokenLogprob] = []
    at = 0
    for token in tokens:
        if start <= at < end:
            inside.append(token)
        at += len(token.token)
    return inside


# -- joining


def firm(text: str) -> str:
    """*text* without the white space and half characters at its end."""
    while text and (text[-1] == HALF or text[-1].isspace()):
        text = text.rstrip().rstrip(HALF)
    return text


class Growing:
    """The joined text: its certain part, and an end that may still be dropped or cut short.

    Held back are the longest beginning of a stop string, and white space and half characters.
    """

    __slots__ = ("_certain", "_stop", "_tail", "stopped")

    def __init__(self, stop: Sequence[str] = ()) -> None:
        self._stop = stop
        self._certain: list[str] = []
        self._tail = ""
        self.stopped = False

    def add(self, piece: str) -> str:
        """Append *piece*; returns the text that has become certain by it."""
        if self.stopped:
            return ""
        text = self._tail + piece
        ends = [(at + len(stop), at) for stop in self._stop if (at := text.find(stop)) >= 0]
        if ends:
            self.stopped, text = True, text[: min(ends)[1]]
            return self._settle(text, len(text))
        return self._settle(text, len(text) - self._held(text))

    def _held(self, text: str) -> int:
        held = len(text) - len(firm(text))
        for stop in self._stop:
            longest = range(min(len(stop) - 1, len(text)), held, -1)
            held = next((size for size in longest if text.endswith(stop[:size])), held)
        return held

    def _settle(self, text: str, certain: int) -> str:
        certain_text, self._tail = text[:certain], text[certain:]
        self._certain.append(certain_text)
        return certain_text

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(self._certain) + self._tail

    def drop(self, count: int) -> None:
        """Take back the last *count* characters, which were held back."""
        self._tail = self._tail[: len(self._tail) - count]

    def close(self) -> str:
        """End the text: its end is certain, too."""
        return self._settle(self._tail, len(self._tail))


class Joint(Protocol):
    """The joint between one piece and the text before it.

    ``skipped`` characters of the piece were left out; ``doubt`` says why that may be wrong, if so.
    """

    skipped: int
    doubt: str

    def feed(self, text: str) -> str:
        """Take more of the piece; returns the part that belongs to the answer, as far as clear."""

    def close(self) -> str:
        """End the piece; returns the rest of it that belongs to the answer."""


class Straight:
    """A piece that begins exactly where the text before it ends."""

    __slots__ = ()
    skipped = 0
    doubt = ""

    def feed(self, text: str) -> str:
        return text

    def close(self) -> str:
        return ""


class Overlap:
    """A piece that was asked to repeat ``marker``, the last words of *text*.

    White space after them may be repeated too; where there are no words, it must be.
    """

    __slots__ = ("_buffer", "_find", "_found", "_said", "_space", "doubt", "marker", "skipped")

    def __init__(self, text: str) -> None:
        self.marker = marker_of(text)
        self._said, self._buffer, self._found = text, "", False
        self._space = text[len(text.rstrip()) :] if self.marker else ""
        pattern = flexible(self.marker)
        if len(self.marker) >= LEAST_OVERLAP:
            self._find = pattern.search
        else:
            beginning = rf"\s*{pattern.pattern}" if self.marker else re.escape(text)
            self._find = re.compile(beginning).match
        self.skipped, self.doubt = 0, ""

    def feed(self, text: str) -> str:
        if self._found:
            return text
        self._buffer += text
        match = self._find(self._buffer)
        if match is None:
            return ""
        after = self._buffer[match.end() :]
        if after.startswith(self._space):
            return self._from(match.end() + len(self._space))
        return "" if self._space.startswith(after) else self._from(match.end())

    def close(self) -> str:
        if self._found:
            return ""
        text = self._buffer
        match = self._find(text)
        if match is not None:  # with half of the white space
            return self._from(len(text))
        body = text.lstrip()
        if self.marker and flexible(body).match(self.marker):  # it was cut while it repeated
            self.doubt = _ONLY if body else ""
            return self._from(len(text))
        longest = min(len(self._said), len(body))
        for size in range(longest, LEAST_OVERLAP - 1, -1):
            if self._said.endswith(body[:size]):
                return self._from(len(text) - len(body) + size)
        most = min(LEAST_OVERLAP - 1, len(text))
        words = [size for size in range(most, 0, -1) if self._repeats(text[:size])]
        self.doubt = _NOTHING if not words else _SEVERAL if len(words) > 1 else ""
        return self._from(words[0] if words else 0)

    def _repeats(self, words: str) -> bool:
        """True if the piece begins with whole *words* with which the text before it ends."""
        text, after = self._said, self._buffer[len(words) :]
        enough = len(words.strip()) >= LEAST_WORDS and words[0] == words.lstrip()[:1]
        if not enough or not text.endswith(words):
            return False
        before = text[: len(text) - len(words)]
        return not (_joined(before[-1:], words[0]) or _joined(words[-1], after[:1]))

    def _from(self, start: int) -> str:
        self._found, self.skipped = True, start
        return self._buffer[start:]


def _joined(before: str, right: str) -> bool:
    """True if two characters side by side are of one word."""
    return before.isalnum() and right.isalnum()


def marker_of(text: str) -> str:
    """The last words of *text*: some forty characters, more if they occur before, and not too many.

    They begin and end with something visible.
    """
    text = text.strip()
    size = MARKER
    while size < min(len(text), LONGEST_MARKER):
        marker = _from_a_word(text, len(text) - size)
        if not flexible(marker).search(text[: len(text) - 1]):
            return marker
        size *= 2
    return _from_a_word(text, max(0, len(text) - LONGEST_MARKER))


def _from_a_word(text: str, start: int) -> str:
    """*text* from the beginning of the word at *start*, or from there if the word is long."""
    space = max(
        text.rfind(space, start - MARKER if start > MARKER else 0, start) for space in " \n\t"
    )
    at = space + 1 if space >= 0 or start <= MARKER else start
    return text[at:].lstrip()


def flexible(text: str) -> re.Pattern[str]:
    """A pattern that matches *text* with whatever white space between its words."""
    return re.compile(r"\s+".join(map(re.escape, text.split())))
