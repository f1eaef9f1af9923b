"""The raw text of an answer, told apart into reasoning, text and tool calls; as it grows, too.

Invariant: what is shown of an unfinished answer is a beginning of what the finished one says.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from appl.backend import Chunk, Sample
from appl.backend.check import PARTS, TEXT, count_of
from appl.backend.http import excerpt, too_long
from appl.errors import MalformedResponse
from appl_backends.sglang import answers
from appl_backends.sglang.tools import CALLED, Offer
from appl_backends.stops import first_stop, held

THINK, THOUGHT = "<think>", "</think>"

Thinking = Literal["begun", "written"] | None
"""Whether answers may begin with reasoning, and whether the template has opened it already."""


@dataclass(frozen=True, slots=True)
class AnswerReader:
    """Reads the answers to one request.

    *number* is that of the first sample; *stop* are the strings that end an answer.
    """

    number: int
    stop: Sequence[str]
    offer: Offer | None
    thinking: Thinking

    @property
    def plain(self) -> bool:
        """True if an answer is its raw text."""
        return self.offer is None and self.thinking is None

    def sample(self, answer: Mapping[str, Any], index: int) -> Sample:
        """The sample in a complete *answer*."""
        found = answers.sample(answer)
        if self.plain:
            return found
        reasoning, text = self._apart(found.text, ended=True)
        if self.offer is None:
            return replace(found, text=text, reasoning=reasoning)
        said, calls = self.offer.read(self.offer.opening() + text, self.number + index)
        if not calls:
            return replace(found, text=text, reasoning=reasoning)
        return replace(
            found, text=said, reasoning=reasoning, tool_calls=calls, finish_reason=CALLED
        )

    def shown(self, raw: str) -> tuple[str, str]:
        """Reasoning and text that an answer certainly has which has begun with *raw*."""
        if self.offer is not None and self.offer.must:
            return "", ""
        raw = raw[: first_stop(raw, self.stop)]
        reasoning, text = self._apart(raw[: len(raw) - held(raw, self.stop)], ended=False)
        if self.offer is None:
            return reasoning or "", text
        style = self.offer.style
        text = style.content(text)
        text = text[: len(text) - held(text, [style.mark])]
        return reasoning or "", text.rstrip()  # before a call it is left out

    def _apart(self, raw: str, *, ended: bool) -> tuple[str | None, str]:
        if self.thinking is None:
            return None, raw
        inner = raw
        if self.thinking == "written":
            start = raw.lstrip()
            if not start.startswith(THINK):
                waits = not ended and THINK.startswith(start)
                return None, "" if waits else raw
            inner = start[len(THINK) :]
        thought, found, text = inner.partition(THOUGHT)
        if not found and not ended:
            thought = thought[: len(thought) - held(thought, [THOUGHT])]
        return thought.strip() or None, text.lstrip()


class GrowingAnswers:
    """The answers of one request while they are streamed.

    *deltas* says whether events hold what is new, or all so far; ``None``: whichever they count.
    """

    def __init__(self, reader: AnswerReader, wanted: int, deltas: bool | None, who: str) -> None:
        self._reader, self._deltas, self._who = reader, deltas, who
        self._raw: list[dict[str, Any] | None] = [None] * wanted
        self._told = [["", ""] for _ in range(wanted)]

    def begin(self, deltas: bool | None) -> None:
        """Await the answers from their beginning, from a server that streams such *deltas*."""
        self._deltas, self._raw = deltas, [None] * len(self._raw)

    def told(self) -> bool:
        """True if a part of an answer was told."""
        return any(map(any, self._told))

    def add(self, event: Any) -> Iterator[Chunk]:
        """The chunks that *event* adds. Raises ``BackendError`` for one that is no answer."""
        if not isinstance(event, dict) or type(event.get("text")) is not str:
            shown = excerpt(json.dumps(event))
            raise MalformedResponse(f"{self._who} streamed what is no answer: {shown}")
        index = self._index(event.get("index"))
        raw = self._raw[index] = self._joined(self._raw[index], event)
        if raw["meta_info"].get("finish_reason") is not None:
            return
        reasoning, text = self._reader.shown(raw["text"])
        told = self._told[index]
        for at, (now, kind) in enumerate(((reasoning, "reasoning"), (text, "text"))):
            if len(now) > len(told[at]) and now.startswith(told[at]):
                yield Chunk(self._reader.number + index, now[len(told[at]) :], kind)  # type: ignore[arg-type]
                told[at] = now

    def complete(self) -> list[Mapping[str, Any]]:
        """The answers, each complete. Raises ``MalformedResponse``."""
        found = [each for each in self._raw if each is not None]
        return answers.answers(found, len(self._raw), self._who)

    def _index(self, index: Any) -> int:
        """The number of the answer of an event, of which a single one is the first."""
        if type(index) is int and 0 <= index < len(self._raw):
            return index
        if len(self._raw) > 1 and index is not None:
            raise MalformedResponse(f"{self._who} streamed an answer of number {index!r:.40}")
        return 0

    def _joined(self, before: dict[str, Any] | None, event: dict[str, Any]) -> dict[str, Any]:
        meta = event.get("meta_info")
        meta = dict(meta) if isinstance(meta, dict) else {}
        ids = listed(event.get("output_ids"))
        adds = _adds(meta, ids) if self._deltas is None else self._deltas
        if before is None or not adds:
            return {"text": event["text"], "output_ids": ids, "meta_info": meta}
        for name in _LISTS:
            if name in meta:
                meta[name] = [*listed(before["meta_info"].get(name)), *listed(meta[name])]
        text, ids = before["text"] + event["text"], [*before["output_ids"], *ids]
        if len(text) > TEXT or len(ids) > PARTS:
            raise too_long(self._who)
        return {"text": text, "output_ids": ids, "meta_info": meta}


def _adds(meta: Mapping[str, Any], ids: Sequence[Any]) -> bool:
    """True if an event holds fewer tokens than there are."""
    counted = count_of(meta.get("completion_tokens"))
    return counted is not None and len(ids) < counted


def listed(value: Any) -> list[Any]:
    """*value* if it is a list, else none."""
    return value if isinstance(value, list) else []


_LISTS = ("output_token_logprobs", "output_top_logprobs")
