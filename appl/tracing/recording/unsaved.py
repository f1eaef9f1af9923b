"""The records of a run that could not be written, in words."""

from __future__ import annotations

from appl.runtime.event import CallEnded
from appl.tracing.format import codec, record, table
from appl.tracing.format.allowance import unlimited
from appl.tracing.recording.encoder import EventEncoder
from appl.tracing.recording.writer import Writer

_NAMES_SHOWN = 5


def unsaved(encoder: EventEncoder, writer: Writer) -> str:
    """The records that are lost if the process ends now, in words."""
    records, names = 0, list[str]()
    calls = encoder.written.calls
    generations = calls.earlier.copy(), calls.recent.copy()  # on any thread: each in one step
    addresses = {number: call for some in generations for call, number in some.items()}
    for item in writer.unsaved():
        if isinstance(item, bytes) and len(item) > codec.MAX_RAW:  # why it is not saved
            records += 1
        elif isinstance(item, bytes):
            inner = list(codec.unpack(item, unlimited()))
            records += len(inner)
            ends = table.chosen(inner, table.EndRecord)
            answered = (end.call for end in ends if end.status == record.ANSWERED)
            names += [
                addresses.get(call, str(call)) if isinstance(call, int) else call
                for call in answered
            ]
        else:
            records += 1
            if isinstance(item, CallEnded) and item.response is not None:
                names.append(item.address)
    if not names:
        return f"; {records} records are not saved" if records else ""
    more = ", …" if len(names) > _NAMES_SHOWN else ""
    return f"; not saved: {len(names)} answers ({', '.join(names[:_NAMES_SHOWN])}{more})"
