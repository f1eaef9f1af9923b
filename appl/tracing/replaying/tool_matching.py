"""Compares a tool's call with the recorded one at its address.

Invariant: a recorded result is given only to the call of the same address, name and arguments; a
tool that is answered for does not run, and neither do the calls that it made.
"""

from __future__ import annotations

import re

from appl.runtime.world import ToolRequest
from appl.tracing.reading.tooluse import ToolUse
from appl.tracing.reading.trace import Trace
from appl.tracing.recording.secret import Masker


def tool_difference(used: ToolUse, wanted: ToolRequest) -> str | None:
    """The difference of what is *wanted* from *used* in words, without secrets; ``None`` if equal.

    Of arguments that held a secret, only the rest is compared.
    """
    if wanted.name != used.name:
        return f"the tool {wanted.name!r} is called there, and {used.name!r} was"
    if wanted.arguments == used.arguments:
        return None
    shown = Masker().text(wanted.arguments, [])
    if used.masked and _without_names(shown) == _without_names(used.arguments):
        return None
    return f"{used.name} is called with {shown:.99} there, and was with {used.arguments:.99}"


def likely_use(trace: Trace, address: str, wanted: ToolRequest) -> ToolUse | None:
    """The recorded use that is most like what is *wanted*: the same call, tool, then *address*."""
    ended = (used for used in trace.tools.values() if used.message or used.error)

    def unlike(used: ToolUse) -> tuple[bool, ...]:
        differs = bool(used.lost or tool_difference(used, wanted))
        return differs, used.name != wanted.name, used.address != address

    return min(ended, key=unlike, default=None)


def _without_names(masked: str) -> str:
    """*masked* without the names of secrets, which may be another's in another process."""
    return re.sub(r"\[secret [^\]]*\]", "[secret]", masked)
