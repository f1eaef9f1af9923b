"""The chunks of a streamed answer as a record holds them: their lengths, beside the whole texts.

Invariant: no text is cut in a trace, so that a secret in it is found and masked as in any other;
a record whose lengths do not add up to its texts is not valid.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

from appl.backend import Chunk, Response
from appl.tracing.format.record import checked

Kind = Literal["text", "reasoning"]
KINDS: tuple[Kind, ...] = ("text", "reasoning")
Texts = dict[tuple[int, int], str]
"""Whole texts by sample and kind."""


def lengths(chunks: Iterable[Chunk]) -> list[object]:
    """For each chunk its length; with sample and kind where it is not text of sample 0."""
    return [
        len(chunk.text)
        if chunk.sample == 0 and chunk.kind == "text"
        else (chunk.sample, KINDS.index(chunk.kind), len(chunk.text))
        for chunk in chunks
    ]


def texts(chunks: Iterable[Chunk]) -> Texts:
    """The texts that *chunks* add up to."""
    pieces_by_key: dict[tuple[int, int], list[str]] = {}
    for chunk in chunks:
        pieces_by_key.setdefault((chunk.sample, KINDS.index(chunk.kind)), []).append(chunk.text)
    return {key: "".join(pieces) for key, pieces in pieces_by_key.items()}


def texts_of(response: Response, first: int) -> Texts:
    """The whole texts of an answer whose first sample has the number *first*."""
    whole: Texts = {}
    for number, sample in enumerate(response.samples, first):
        whole[number, 0], whole[number, 1] = sample.text, sample.reasoning or ""
    return whole


def check(cuts: object, whole: Texts) -> None:
    """Refuse lengths that do not add up to *whole*. Raises ``ValueError`` or ``TypeError``."""
    sums = dict.fromkeys(whole, 0)
    for cut in checked(list, cuts):
        sample, kind, length = _cut(cut)
        if checked(int, length) < 1 or (sample, kind) not in sums:
            raise ValueError(f"{cut!r:.40} is no chunk of this answer")
        sums[sample, kind] += length
    if any(total != len(whole[key]) for key, total in sums.items()):
        raise ValueError("the chunks do not add up to the text")


def rebuilt(cuts: Sequence[object], whole: Texts) -> Iterator[Chunk]:
    """The chunks that ``lengths`` described, of checked lengths."""
    at = dict.fromkeys(whole, 0)
    for cut in cuts:
        sample, kind, length = _cut(cut)
        start = at[sample, kind]
        at[sample, kind] = start + length
        yield Chunk(sample, whole[sample, kind][start : start + length], KINDS[kind])


def _cut(cut: Any) -> tuple[int, int, int]:
    sample, kind, length = (0, 0, cut) if type(cut) is int else cut
    return sample, kind, length
