"""The events that most runs do not have: what failed, tools, observations, batches, and streams.

It is loaded by the first such event of a process. Each function makes the records of its event.

Invariant: that of ``encoder``, whose ``EventEncoder`` calls these.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from appl.backend import Response
from appl.errors import CallCancelled
from appl.prompt import Message, ToolCall
from appl.runtime.event import (
    AttemptFailed,
    BatchChanged,
    CallEnded,
    ChunksDelivered,
    Failed,
    Observed,
    ToolEnded,
    ToolStarted,
    Warned,
)
from appl.tracing.format import chunks, codec, record, table
from appl.tracing.format.failures import Failure, error_key, forget_retried
from appl.tracing.format.recorded_errors import error_with
from appl.tracing.recording.encoder import CANCELLED, Begun, WithError, masked

if TYPE_CHECKING:
    from appl.tracing.recording.encoder import EventEncoder

_retry_row = table.row(table.RetryRecord)
_chunks_row = table.row(table.ChunksRecord)
_tool_start_row = table.row(table.ToolStartRecord)
_tool_end_row = table.row(table.ToolEndRecord)
_failure_row = table.row(table.FailureRecord)
_observation_row = table.row(table.ObservationRecord)
_batch_row = table.row(table.BatchRecord)
_warning_row = table.row(table.WarningRecord)


def with_error(encoder: EventEncoder, item: WithError) -> None:
    """Make the records of an event that has an error, other than the end of a function."""
    event = item.event
    masks: list[str] = []
    if isinstance(event, Failed):
        _has_failed(encoder, event, item.error, masks)
        return
    error = error_with(item.error, partial(encoder.long, masks=masks))
    if isinstance(event, CallEnded):
        _call_failed(encoder, event, error, masks)
    elif isinstance(event, ToolEnded):
        cancelled = isinstance(event.error or CANCELLED, CallCancelled)
        status = record.CANCELLED if cancelled else record.FAILED
        if not cancelled:
            encoder.failures.tools.add(event.address)
        _tool_result(encoder, event, status, error, masks)
    else:
        assert isinstance(event, AttemptFailed)
        wait, at = round(event.wait_s * 1e6), encoder.at(event.at)
        fields = _retry_row(encoder.call_of(event.address), event.attempt, error, at, wait)
        encoder.records.append(masked(fields, masks))
        encoder.totals.of(event.address).attempts_failed += 1


def _call_failed(encoder: EventEncoder, event: CallEnded, error: object, masks: list[str]) -> None:
    """Record the failure of a call with its text so far, as no answer will hold that."""
    status, why = record.FAILED, event.error or CANCELLED
    totals = encoder.totals.end(event.address, encoder.at(event.at))
    if isinstance(why, CallCancelled):
        totals.cancelled += 1
        # from outside: the program does not cancel it again in a replay, but hears of it again
        status = record.FAILED if why.outside else record.CANCELLED
    elif event.source is not None:
        totals.recall(None)
    else:
        totals.failed += 1
    texts = None
    if event.chunks:
        texts = [
            (sample, kind, encoder.answer(text, masks))
            for (sample, kind), text in chunks.texts(event.chunks).items()
        ]
    encoder.end(event, status, error, texts, masks)


def _has_failed(
    encoder: EventEncoder, event: Failed, error: tuple[Any, ...], masks: list[str]
) -> None:
    if encoder.redact is not None:  # it shows what the model said
        actual, nearest, message, *_ = error
        message = encoder.redacted(Message("assistant", message), masks).content
        error = actual, nearest, message, [message]
    at, items = encoder.at(event.at), event.items
    fields = _failure_row(event.address, event.kind, error, event.of, items, at)
    encoder.records.append(masked(fields, masks))
    key = error_key(error[1], error[2])
    failure = Failure(event.address, event.kind, event.of, items, error_key=key)
    encoder.failures.known[event.address] = failure


def _chunks_delivered(encoder: EventEncoder, event: ChunksDelivered) -> None:
    fields = _chunks_row(encoder.call_of(event.address), event.count, encoder.at(event.at))
    encoder.records.append(fields)


def _tool_started(encoder: EventEncoder, event: ToolStarted) -> None:
    masks: list[str] = []
    if "failures" in vars(encoder):
        encoder.failures.tools.discard(event.address)
    scope, _, leaf = event.address.rpartition("/")
    file = None
    if event.file is not None:
        file = encoder.written.files.find(event.file) or encoder.new_file(event.file)
    number = next(encoder.ids)
    arguments = encoder.long(_arguments(encoder, event, masks), masks)
    fields = _tool_start_row(
        number,
        encoder.written.scopes.find(scope) or scope,
        leaf,
        event.name,
        arguments,
        event.effect,
        file,
        event.line,
        encoder.at(event.at),
    )
    encoder.records.append(masked(fields, masks))
    encoder.written.calls.recent[event.address] = number


def _arguments(encoder: EventEncoder, event: ToolStarted, masks: list[str]) -> str:
    """The arguments as they may be stored: part of what the model said."""
    call = ToolCall("", event.name, event.arguments)
    shown = encoder.redacted(Message("assistant", "", tool_calls=(call,)), masks)
    return shown.tool_calls[0].arguments if shown.tool_calls else shown.content


def _tool_ended(encoder: EventEncoder, event: ToolEnded) -> None:
    assert event.message is not None
    if event.message.has_error:
        encoder.failures.tools.add(event.address)
    _tool_result(encoder, event, record.ANSWERED, encoder.message_number(event.message), [])


def _tool_result(
    encoder: EventEncoder, event: ToolEnded, status: int, value: object, masks: list[str]
) -> None:
    fields = _tool_end_row(encoder.call_of(event.address), status, value, encoder.at(event.at))
    encoder.records.append(masked(fields, masks))


def _observed(encoder: EventEncoder, event: Observed) -> None:
    masks: list[str] = []
    value = codec.shortened(event.value, partial(encoder.long, masks=masks))
    at = encoder.at(event.at)
    fields = _observation_row(event.address, event.ordinal, event.kind, value, at)
    encoder.records.append(masked(fields, masks))


def _batch(encoder: EventEncoder, event: BatchChanged) -> None:
    calls = [*map(encoder.call_of, event.calls)]
    at, facts = encoder.at(event.at), dict(event.facts)
    encoder.records.append(_batch_row(event.key, event.state, at, facts, calls))


def _warned(encoder: EventEncoder, event: Warned) -> None:
    encoder.records.append(_warning_row(event.address, event.message, encoder.at(event.at)))


def _begun(encoder: EventEncoder, item: Begun) -> None:
    call = item.call
    forget_retried(encoder.failures.known, call.address)
    if call.started is not None:  # else it was not counted
        encoder.totals.models[call.model].forget(call.ended_as, bool(call.attempts))


def hides_prompt(encoder: EventEncoder, response: Response) -> bool:
    """True if the tokens of the prompt are left out: a secret may stand in several of them."""
    text = "".join(token.token for token in response.prompt_logprobs or ())
    alternatives = (best for token in response.prompt_logprobs or () for best in token.top[:1])
    likely = "".join(best for best, _ in alternatives)
    finds = encoder.masker.finds
    return encoder.redact is not None or any(
        finds(spelling.encode("utf-8", "surrogatepass")) for spelling in (text, likely)
    )


HANDLERS: dict[type, Callable[[EventEncoder, Any], None]] = {
    ChunksDelivered: _chunks_delivered,
    ToolStarted: _tool_started,
    ToolEnded: _tool_ended,
    Observed: _observed,
    BatchChanged: _batch,
    Warned: _warned,
    Begun: _begun,
}
"""The functions for the kinds of items that ``EventEncoder`` does not encode itself."""
