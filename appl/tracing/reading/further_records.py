"""What most runs do not hold: tools, observations, long texts, failures, batches, and streams.

It is loaded by the first such record of a process. Each function takes in a record of its kind.

Invariant: that of ``reader``, whose ``Reader`` calls these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from appl.tracing.format import record, table
from appl.tracing.format.allowance import RECORD
from appl.tracing.format.failures import Failure, error_key
from appl.tracing.format.record import checked, optional, word
from appl.tracing.reading.batches import RecordedBatch
from appl.tracing.reading.process_records import ProcessRecords
from appl.tracing.reading.tooluse import ToolUse
from appl.tracing.reading.trace import Attempt, Observation

if TYPE_CHECKING:
    from appl.tracing.reading.reader import Reader

_MANY = 1 << 31
_EDGE = 128
_RECENT = 64  # attempts of one call that may be under way at once
_CALL = 2 * RECORD + 512  # bytes of a call, besides its address
_OUTCOMES = {record.FAILED: "failed", record.CANCELLED: "cancelled"}
_SIMPLE = (type(None), bool, int, float)


class StoredObservation(Observation):
    """An observation whose value is read when somebody asks for it."""

    __slots__ = ("place", "process")
    place: int
    process: ProcessRecords

    def __getattr__(self, name: str) -> Any:
        if name == "value":
            return self.process.observed(self.place)
        raise AttributeError(f"an observation has no {name!r}", name=name, obj=self)


class StoredToolUse(ToolUse):
    """A call of a tool whose result, the message at the place ``said``, is read when asked for."""

    __slots__ = ("message_number", "process")
    process: ProcessRecords
    message_number: int | None

    def __getattr__(self, name: str) -> Any:
        if name == "message":
            number = self.message_number
            return None if number is None else self.process.result(number)
        raise AttributeError(f"a call of a tool has no {name!r}", name=name, obj=self)

    def stored_in(self, process: ProcessRecords) -> None:
        """Leave the result in the records of *process*."""
        self.process, self.message_number = process, None
        del self.message


def _failure(reader: Reader, failed: table.FailureRecord) -> None:
    address, of = checked(str, failed.address), checked(str, failed.of)
    reader.allowance.spend(RECORD + 4 * (len(address) + len(of)))
    items, at = checked(int, failed.items), checked(int, failed.at)
    if not 0 <= items < _MANY:
        raise ValueError(f"a map has {items} items")
    error = reader.error_of(failed.error)
    key = error_key(type(error).__name__, str(error))
    failure = Failure(address, word(failed.kind), of, items, at, error, key)
    reader.add_failure(failure)


def _batch(reader: Reader, changed: table.BatchRecord) -> None:
    reader.count(changed.facts)
    reader.allowance.spend(RECORD + _EDGE * len(changed.calls))
    key = checked(str, changed.key)
    batch = reader.trace.batches.setdefault(key, RecordedBatch(key))
    batch.state, batch.at = checked(str, changed.state), checked(int, changed.at)
    batch.incarnation = reader.incarnation
    batch.facts.update(checked(dict, changed.facts))
    batch.calls = tuple(map(reader.address_of, changed.calls)) or batch.calls
    parts = [checked(int, part) for part in checked(list, batch.facts.get("parts") or [])]
    if len(parts) not in (0, 2 * len(batch.calls)):
        raise ValueError(f"{len(parts)} parts are those of {len(batch.calls)} calls")


def _warning(reader: Reader, warning: table.WarningRecord) -> None:
    message = checked(str, warning.message)
    reader.warnings.append((checked(str, warning.address), message))


def _piece(reader: Reader, piece: table.PieceRecord) -> None:
    places = reader.process.pieces.setdefault(checked(int, piece.id), [])
    if piece.place != len(places):
        raise ValueError(f"piece {piece.place} of a long text follows piece {len(places) - 1}")
    checked(bytes, piece.data)
    places.append(reader.place)


def _medium(reader: Reader, medium: table.MediumRecord) -> None:
    reader.process.media.add(medium.id, reader.place)
    reader.stored.mask(reader.place, reader.masks)


def _longer(reader: Reader, longer: table.LongerRecord) -> None:
    process, place = reader.process, reader.place
    on = process.longer if longer.message in process.longer else process.messages
    masks = reader.stored.marks(on.before(place, longer.message))
    process.longer.add(longer.id, place)
    reader.stored.mask(place, masks + reader.masks + masks_of_media(reader, longer.more))


def masks_of_media(reader: Reader, more: Any) -> tuple[str, ...]:
    """The names of secrets that were taken out of the media that stand in a message."""
    placed = () if more is None else more.get("media", ())
    return reader.stored.marks(*(reader.process.media.before(reader.place, at) for _, at in placed))


def _retry(reader: Reader, retry: table.RetryRecord) -> None:
    attempts, number = reader.call_of(retry.call).attempts, retry.attempt
    recent = reversed(attempts[-_RECENT:])
    attempt_now = next((attempt for attempt in recent if attempt.number == number), None)
    if attempt_now is None:
        reader.allowance.spend(RECORD)
        attempt_now = Attempt(checked(int, number), checked(int, retry.at))
        attempts.append(attempt_now)
    attempt_now.error, attempt_now.wait = reader.error_of(retry.error), checked(int, retry.wait)


def _chunks(reader: Reader, delivered: table.ChunksRecord) -> None:
    count = checked(int, delivered.chunks)
    if not 0 < count < _MANY:
        raise ValueError(f"{count} chunks were delivered")
    reader.call_of(delivered.call).shown.append((reader.deliveries, count))
    reader.deliveries += 1


def _tool(reader: Reader, tool: table.ToolStartRecord) -> None:
    address = f"{reader.scope_of(tool.scope)}/{checked(str, tool.leaf)}"
    arguments = checked(str, reader.process.long(tool.arguments))
    reader.allowance.spend(_CALL + 4 * len(address))
    used = StoredToolUse(
        address=address,
        name=checked(str, tool.name),
        arguments=arguments,
        effect=checked(str, tool.effect),
        file=reader.file_of(tool.file),
        line=optional(int, tool.line),
        position=reader.positions,
        started=checked(int, tool.at),
        masked=reader.masks,
        incarnation=reader.incarnation,
    )
    used.stored_in(reader.process)
    reader.positions += 1
    reader.uses[checked(int, tool.id)] = used
    reader.add_tool(used)


def _result(reader: Reader, result: table.ToolEndRecord) -> None:
    used = reader.use_of(result.call)
    if used is None:
        raise ValueError(f"a result is that of no tool call: {result.call!r}")
    if result.status == record.ANSWERED:
        used.message_number = reader.process.messages.before(reader.place, result.value)
        used.process = reader.process
        used.outcome, used.lost = "answered", reader.stored.marks(used.message_number)
    else:
        used.outcome = outcome_of(result.status)
        used.error = reader.error_of(result.value)
    used.ended, used.end_position = checked(int, result.at), reader.ends
    used.lost += reader.masks
    used.masked += used.lost
    reader.ends += 1


def outcome_of(status: int) -> Any:
    """The name of a recorded outcome that is no answer. Raises ``ValueError``."""
    if status not in _OUTCOMES:
        raise ValueError(f"unknown outcome {status!r}")
    return _OUTCOMES[status]


def _observation(reader: Reader, record: table.ObservationRecord) -> None:
    observation = StoredObservation(
        checked(str, record.address),
        checked(int, record.ordinal),
        checked(str, record.kind),
        record.value,
        checked(int, record.at),
        reader.deliveries,
        reader.masks,
        reader.incarnation,
    )
    if type(record.value) not in _SIMPLE:
        # Not as an attribute is deleted otherwise: an observation cannot be changed.
        object.__delattr__(observation, "value")
        object.__setattr__(observation, "place", reader.place)
        object.__setattr__(observation, "process", reader.process)
    reader.observations.append(observation)
    reader.deliveries += 1


HANDLERS: dict[table.Kind, Callable[[Reader, Any], None]] = {
    table.PieceRecord: _piece,
    table.MediumRecord: _medium,
    table.LongerRecord: _longer,
    table.RetryRecord: _retry,
    table.ChunksRecord: _chunks,
    table.ToolStartRecord: _tool,
    table.ToolEndRecord: _result,
    table.FailureRecord: _failure,
    table.ObservationRecord: _observation,
    table.BatchRecord: _batch,
    table.WarningRecord: _warning,
}
"""The functions for the kinds of records that ``Reader`` does not read itself."""
