"""The token ids of an answer and of its prompt, exactly as the server had them.

Invariant: ids are those that were sent and received; nothing here encodes or decodes a text.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from appl.errors import InvalidOption

if TYPE_CHECKING:
    from appl.backend import Request


Kept = Literal["ids", "logprobs"] | None
"""What a backend keeps of the tokens of its answers: ids, log-probabilities as well, or nothing."""


def check_kept(value: object) -> None:
    """Raise ``InvalidOption`` unless *value* says what to keep."""
    if value not in ("ids", "logprobs", None):
        raise InvalidOption(f"tokens is 'ids' or 'logprobs', got {value!r:.80}")


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
    """Log-probabilities as bytes, without a loss: of 4 bytes each where all have room in them.

    The first bytes of all come first, then the second ones: so they are compressed better.
    """
    whole = array("d", logprobs)
    short = array("f", logprobs)
    kept = array("d", short) == whole
    kind = "f" if kept else "d"
    data = struct.pack(f">{len(whole)}{kind}", *whole)
    size = struct.calcsize(kind)
    return kind.encode() + b"".join(data[at::size] for at in range(size))


def unpack_logprobs(data: bytes) -> list[float]:
    """The numbers that ``pack_logprobs`` packed. Raises ``ValueError`` for other bytes."""
    kind = data[:1].decode("latin-1")
    size = {"f": 4, "d": 8}.get(kind, 0)
    if not size or (len(data) - 1) % size:
        raise ValueError("the log-probabilities of tokens are damaged")
    count = (len(data) - 1) // size
    columns = [data[1 + at * count : 1 + (at + 1) * count] for at in range(size)]
    rows = bytes(byte for row in zip(*columns, strict=True) for byte in row)
    return list(struct.unpack(f">{count}{kind}", rows))
