"""The messages on a run's socket: one JSON document per line, of bounded size.

A request is ``{"v": 1, "do": WORD, …}``, a reply ``{"v": 1, "ok": …}`` or ``{"v": 1, "error":
{"kind": WORD, "message": TEXT}}``. The table of ``requests`` lists the values of ``do``.

Invariant: reading any bytes gives a request or raises a ``ControlError``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from appl.errors import ControlError

VERSION = 1
LONGEST_REQUEST = 64 * 1024
LONGEST_REPLY = 8 * 1024 * 1024
MOST_CALLS = 10_000
"""The largest number of calls, and of programs, in one reply."""


def request(do: str, **fields: object) -> bytes:
    """A request as a line."""
    return _line({"v": VERSION, "do": do, **fields})


def read_request(line: bytes) -> dict[str, object]:
    """The request in *line*. Raises ``ControlError``."""
    try:
        request = json.loads(line)
    except (ValueError, RecursionError):
        raise ControlError("this is no JSON document on one line", "bad-request") from None
    if not isinstance(request, dict) or not isinstance(request.get("do"), str):
        raise ControlError('a request is {"v": 1, "do": "show", …}', "bad-request")
    if request.get("v") != VERSION:
        raise ControlError(f"this run speaks version {VERSION} of the protocol", "version")
    return request


def reply(value: object) -> bytes:
    """A reply as a line."""
    line = _line({"v": VERSION, "ok": value})
    if len(line) > LONGEST_REPLY:
        return refusal(ControlError("the reply is too long; ask for fewer calls", "too-long"))
    return line


def refusal(error: ControlError) -> bytes:
    """An error as a line."""
    return _line({"v": VERSION, "error": {"kind": error.kind, "message": str(error)}})


def read_reply(line: bytes) -> object:
    """The value of a reply. Raises ``ControlError``, also for an error in the reply."""
    try:
        reply = json.loads(line)
    except (ValueError, RecursionError):
        raise ControlError("the run answered with something that is no JSON", "protocol") from None
    if not isinstance(reply, dict) or reply.get("v") != VERSION:
        raise ControlError("the run speaks another version of the protocol", "version")
    error = reply.get("error")
    if isinstance(error, dict):
        raise ControlError(str(error.get("message", "")), str(error.get("kind", "refused")))
    if "ok" not in reply:
        raise ControlError("the run answered with neither a value nor an error", "protocol")
    return reply["ok"]


def _line(document: Mapping[str, object]) -> bytes:
    return json.dumps(document, ensure_ascii=True, allow_nan=False).encode() + b"\n"
