"""Records that were masked or sealed: what is in them, and what was taken out.

Invariant: a sealed record is opened only with the key of its run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from appl.tracing.format import codec
from appl.tracing.format.allowance import DecodingAllowance
from appl.tracing.format.record import checked
from appl.tracing.format.table import MASKED, REDACTED, SEALED

if TYPE_CHECKING:
    from appl.tracing.format.sealing import Sealer


def unwrapped(
    fields: Any, sealer: Sealer | None, allowance: DecodingAllowance
) -> tuple[Any, tuple[str, ...] | None]:
    """The record in *fields*, opened by *sealer*, and the names of what was taken out of it."""
    if fields[0] == SEALED:
        _, sealed, names, shown = fields
        if sealer is None:
            fields = MASKED, names, shown
        else:
            record = sealer.open(checked(bytes, sealed), codec.pack(shown))
            (fields,) = codec.unpack(record, allowance)
    if fields[0] != MASKED:
        return fields, None
    _, names, fields = fields
    masks = tuple(checked(str, name) for name in names)
    if sealer is not None:  # with the key, what only its owner may read is no gap
        masks = tuple(name for name in masks if name != REDACTED)
    return fields, masks
