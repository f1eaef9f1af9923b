"""The vectors that a recorded run holds, by what they are of.

Invariant: only reads; a program that embeds nothing makes none of this.
"""

from __future__ import annotations

from functools import cached_property

from appl.backend import vector_key
from appl.tracing.reading.trace import RecordedCall, Trace


class RecordedVectors:
    """Finds the vectors of texts that *trace* has an answer for, whichever call asked for them."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def find(self, key: bytes) -> bytes | None:
        """The vector with that *key*: see ``vector_key``."""
        call, place = self._places.get(key, (None, 0))
        if call is None or call.response is None or call.response.vectors is None:
            return None
        return call.response.vectors[place]

    @property
    def size(self) -> int:
        """The length of a recorded vector; 0 if there is none."""
        call, _ = next(iter(self._places.values()), (None, 0))
        response = None if call is None else call.response
        return len(response.vectors[0]) // 4 if response is not None and response.vectors else 0

    @cached_property
    def _places(self) -> dict[bytes, tuple[RecordedCall, int]]:
        places: dict[bytes, tuple[RecordedCall, int]] = {}
        for call in self._trace.calls:
            if call.kind == "embed" and call.outcome == "answered" and not call.lost:
                for place, message in enumerate(call.messages or ()):
                    key = vector_key(call.model, call.sampling, message.content)
                    places.setdefault(key, (call, place))
        return places
