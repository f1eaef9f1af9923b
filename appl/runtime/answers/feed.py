"""``Feed``: the chunks of one call, as its backend emits them, checked and kept.

Invariant: an answer that is made once more begins with what stands of it, or the difference is
told.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Literal, Protocol

from appl.backend import Chunk, Response
from appl.backend.check import check_chunk
from appl.runtime.event import ChunkArrived
from appl.runtime.reporter import Reporter

Kind = Literal["text", "reasoning"]


class Sink(Protocol):
    """The receiver of the chunks of a call."""

    def add(self, feed: Feed, kind: Kind, text: str) -> None:
        """Add more text, which came through *feed*; on the I/O loop."""


class Feed:
    """Takes the chunks that the backend of one call emits, keeps them and passes them on to a sink.

    Only chunks of the call's first sample are passed on. Where an answer is begun ``anew``, what
    came before stands: the new one has to begin with it, and is passed on from there.
    """

    __slots__ = (
        "_closed", "_otherwise", "_reporter", "_resent", "_standing", "_stood", "address", "chunks",
        "first", "sink",
    )  # fmt: skip

    def __init__(self, address: str, reporter: Reporter, sink: Sink, first: int = 0) -> None:
        self.address, self.first = address, first
        self.chunks: list[Chunk] = []
        self._reporter, self.sink, self._closed = reporter, sink, False
        self._stood = 0
        self._standing: dict[tuple[int, Kind], str] = {}
        self._resent: dict[tuple[int, Kind], int] = {}  # how much of what stands has come again
        self._otherwise: Callable[[str], None] = lambda _: None  # nothing stands to differ from

    def __call__(self, chunk: Chunk) -> None:
        """Take *chunk*, unless it comes too late; on the I/O loop."""
        check_chunk(chunk)
        if self._resent:
            chunk = replace(chunk, text=self._beyond(chunk))
        if self._closed or not chunk.text:
            return
        self.chunks.append(chunk)
        if (watcher := self._reporter.watcher) is not None:
            watcher.on_event(ChunkArrived(self.address, chunk, time.monotonic_ns()))
        if chunk.sample == self.first:
            self.sink.add(self, chunk.kind, chunk.text)

    def anew(self, otherwise: Callable[[str], None]) -> None:
        """Have the answer, of which a part came from a record, made from its beginning.

        *otherwise* is told, in words, when it does not begin with that part.
        """
        self._stood, self._otherwise = len(self.chunks), otherwise
        self._standing = {key: "".join(texts) for key, texts in self._texts().items()}
        self._resent = dict.fromkeys(self._standing, 0)

    def begin(self, samples: range) -> None:
        """Begin anew: a backend is asked for *samples*, and sends them from the beginning."""
        for key in self._standing:
            if key[0] in samples:
                self._resent[key] = 0

    def fresh(self) -> list[Chunk]:
        """The chunks of the present answer, without those of the answer that stood before."""
        return self.chunks[self._stood :]

    def _beyond(self, chunk: Chunk) -> str:
        """The text of *chunk* beyond the answer that stands; nothing if it differs from that."""
        key = chunk.sample, chunk.kind
        at = self._resent.pop(key, None)
        if at is None:
            return chunk.text
        standing = self._standing[key]
        end = min(at + len(chunk.text), len(standing))
        if standing[at:end] != chunk.text[: end - at]:
            self._differs(key, standing[:at] + chunk.text)
            return ""
        if end < len(standing):
            self._resent[key] = end
        return chunk.text[end - at :]

    def _differs(self, key: tuple[int, Kind], text: str) -> None:
        read = _short(self._standing[key])
        self._otherwise(f"its {key[1]} began with {read}, and begins with {_short(text)} now")

    def _texts(self) -> dict[tuple[int, Kind], list[str]]:
        """The texts of the chunks so far, by sample and kind."""
        texts: dict[tuple[int, Kind], list[str]] = defaultdict(list)
        for chunk in self.chunks:
            texts[chunk.sample, chunk.kind].append(chunk.text)
        return texts

    def complete(self, response: Response) -> str | None:
        """Emit what the backend has not; returns the problem if the chunks differ from *response*.

        A backend that cannot stream has emitted nothing, and its answer is one chunk. Where it does
        not begin with what stands, that is told elsewhere.
        """
        texts = self._texts()
        self._resent.clear()
        for number, sample in enumerate(response.samples, self.first):
            wholes: tuple[tuple[Kind, str], ...]
            wholes = ("reasoning", sample.reasoning or ""), ("text", sample.text)
            for kind, whole in wholes:
                begun = "".join(texts.pop((number, kind), ()))
                if not whole.startswith(self._standing.get((number, kind), "")):
                    self._differs((number, kind), whole)
                    return None
                if not whole.startswith(begun):
                    return f"its {kind} is {_short(whole)}, but it streamed {_short(begun)}"
                self(Chunk(number, whole[len(begun) :], kind))
        if texts:
            return f"it streamed sample {min(texts)[0]}, which is not in its answer"
        return None

    def close(self) -> None:
        """Take no more chunks: the call has ended."""
        self._closed = True


def _short(text: str) -> str:
    return repr(text) if len(text) <= 60 else f"{text[:28]!r}…{text[-28:]!r}"
