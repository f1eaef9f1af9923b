"""The token ids of an answer and of its prompt, exactly as the server had them.

Invariant: ids are those that were sent and received; nothing here encodes or decodes a text.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from appl.backend import Request


class PromptTokens(Protocol):
    """Some token ids of a prompt, after those of ``before``; prompts share what they have so."""

    @property
    def before(self) -> PromptTokens | None:
        """The tokens before these; ``None`` at the beginning."""
        ...

    @property
    def ids(self) -> Sequence[int]:
        """The ids, without those of ``before``."""
        ...


@dataclass(frozen=True, slots=True)
class WholePrompt:
    """The ids of a prompt in one piece."""

    ids: Sequence[int]
    before: None = None


@dataclass(frozen=True, slots=True)
class SampleTokens:
    """The ids of a generated answer and of its prompt.

    ``ids`` are all that were generated, also those that ended the answer, such as the end of the
    turn. ``logprobs`` are the natural log-probabilities that the server reports for them, one for
    each, or ``None``. ``request`` is what was asked: secrets are looked for in its texts before
    ids are recorded.
    """

    request: Request = field(repr=False)
    prompt: PromptTokens = field(repr=False)
    ids: Sequence[int]
    logprobs: Sequence[float] | None = field(default=None, repr=False)


def pack_ids(ids: Iterable[int]) -> bytes:
    """Ids as bytes, seven bits in each, the lowest first. Raises ``ValueError``."""
    found = bytearray()
    for number in ids:
        if number < 0:
            raise ValueError(f"a token has no id {number}")
        while number > 0x7F:
            found.append(number & 0x7F | 0x80)
            number >>= 7
        found.append(number)
    return bytes(found)


def unpack_ids(data: bytes) -> list[int]:
    """The ids that ``pack_ids`` packed. Raises ``ValueError`` for other bytes."""
    return list(_numbers(data))


def _numbers(data: bytes) -> Iterator[int]:
    number = shift = 0
    for byte in data:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield number
            number = shift = 0
        elif shift > 63:
            raise ValueError("the ids of tokens are damaged")
    if shift:
        raise ValueError("the ids of tokens are cut off")


def pack_logprobs(logprobs: Sequence[float]) -> bytes:
    """Log-probabilities as bytes, without a loss: of 4 bytes each where all have room in them."""
    whole = array("d", logprobs)
    short = array("f", logprobs)
    kept = array("d", short) == whole
    kind = "f" if kept else "d"
    return kind.encode() + struct.pack(f"<{len(whole)}{kind}", *whole)


def unpack_logprobs(data: bytes) -> list[float]:
    """The numbers that ``pack_logprobs`` packed. Raises ``ValueError`` for other bytes."""
    kind = data[:1].decode("latin-1")
    size = {"f": 4, "d": 8}.get(kind, 0)
    if not size or (len(data) - 1) % size:
        raise ValueError("the log-probabilities of tokens are damaged")
    return list(struct.unpack(f"<{(len(data) - 1) // size}{kind}", data[1:]))
