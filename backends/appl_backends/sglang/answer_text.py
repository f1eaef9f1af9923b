"""The raw text of an answer, told apart into reasoning, text and tool calls; as it grows, too.

Invariant: what is shown of an unfinished answer is a beginning of what the finished one says.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from appl.backend import Chunk, Sample
from appl.backend_check import PARTS, TEXT
from appl.backend_http import excerpt, too_long
from appl.errors import MalformedResponse
from appl_backends.sglang import answers
from appl_backends.sglang.tools import CALLED, Offer

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
        reasoning, text = self._apart(raw, ended=False)
        if self.offer is None:
            return reasoning or "", text[: len(text) - _held(text, self.stop)]
        style = self.offer.style
        text = style.content(text)
        text = text[: len(text) - _held(text, [*self.stop, style.mark])]
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
            thought = thought[: len(thought) - _held(thought, [THOUGHT])]
        return thought.strip() or None, text.lstrip()


class GrowingAnswers:
    """The answers of one request while they are streamed.

    *deltas* says whether events hold what is new, or all so far; ``None``: whichever they count.
    """

    def __init__(self, reader: AnswerReader, wanted: int, deltas: bool | None, who: str) -> None:
        self._reader, self._deltas, self._who = reader, deltas, who
        self._raw: list[dict[str, Any] | None] = [None] * wanted
        self._told = [["", ""] for _ in range(wanted)]

    def add(self, event: Any) -> Iterator[Chunk]:
        """The chunks that *event* adds."""
        index = self._index(event)
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

    def _index(self, event: Any) -> int:
        index = event.get("index", 0) if isinstance(event, Mapping) else None
        if type(index) is not int or not 0 <= index < len(self._raw):
            raise self._no_answer(event)
        meta, ids = event.get("meta_info"), event.get("output_ids", [])
        if not isinstance(event.get("text"), str) or not isinstance(meta, dict):
            raise self._no_answer(event)
        lists = [meta.get(name) or [] for name in _LISTS]
        if not all(isinstance(each, list) for each in (ids, *lists)):
            raise self._no_answer(event)
        if type(meta.get("completion_tokens", 0)) not in (int, type(None)):
            raise self._no_answer(event)
        return index

    def _no_answer(self, event: Any) -> MalformedResponse:
        shown = excerpt(json.dumps(event))
        return MalformedResponse(f"{self._who} streamed what is no answer: {shown}")

    def _joined(self, before: dict[str, Any] | None, event: dict[str, Any]) -> dict[str, Any]:
        if before is None or not (_adds(event) if self._deltas is None else self._deltas):
            return event
        meta = {**event["meta_info"]}
        for name in _LISTS:
            if name in meta:
                meta[name] = [*(before["meta_info"].get(name) or ()), *(meta[name] or ())]
        ids = [*before.get("output_ids", ()), *event.get("output_ids", ())]
        if len(before["text"]) + len(event["text"]) > TEXT or len(ids) > PARTS:
            raise too_long(self._who)
        return {
            **event,
            "text": before["text"] + event["text"],
            "output_ids": ids,
            "meta_info": meta,
        }


def _adds(event: Mapping[str, Any]) -> bool:
    """True if *event* holds fewer tokens than there are."""
    counted = event["meta_info"].get("completion_tokens")
    return counted is not None and len(event.get("output_ids", ())) < counted


_LISTS = ("output_token_logprobs", "output_top_logprobs")


def _held(text: str, marks: Sequence[str]) -> int:
    """The length of the longest end of *text* that may be the beginning of one of *marks*."""
    held = 0
    for mark in marks:
        for size in range(min(len(mark) - 1, len(text)), held, -1):
            if text.endswith(mark[:size]):
                held = size
                break
    return held
