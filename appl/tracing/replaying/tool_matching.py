"""Compares a tool's call with the recorded one at its address, and tells whether it may run again.

Invariant: a recorded result is given only to the call of the same address, name and arguments; a
tool that is answered for does not run, and neither do the calls that it made.
"""

from __future__ import annotations

import re

from appl.errors import InDoubtEffect
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


def in_doubt(used: ToolUse, reason: str = "") -> bool:
    """True if the end of the tool call is not known; *reason* is that of the run's end."""
    if used.outcome == "failed":  # by what broke the run off, not by the tool itself
        return reason not in ("", "finished")
    return used.outcome != "answered"


def doubtful_effect(
    trace: Trace, used: ToolUse, effect: str, may_rerun: bool
) -> InDoubtEffect | None:
    """The error about *used*, which is in doubt, if it may not run again because of its *effect*.

    A tool that had only asked its user by then had done nothing, and runs again.
    """
    if effect != "effect" or may_rerun or _has_only_asked(trace, used):
        return None
    return InDoubtEffect(
        f"{used.name}({used.arguments:.300}) at {used.address} had begun when the run was "
        f"broken off, and nobody knows whether it has had its effect\n  either run it again: "
        f"appl trace resume {trace.path.stem} --rerun {used.address}\n  or say what it "
        f"gave: appl trace resume {trace.path.stem} --assume '{used.address}=RESULT'\n  "
        "(in a program: appl.session.resumed(path, rerun=[…]) or assume={…}); a tool that may "
        "run twice is declared with idempotent=True (of an MCP server: idempotent=[…])",
        tool=used.name,
        arguments=used.arguments,
        address=used.address,
    )


def _has_only_asked(trace: Trace, used: ToolUse) -> bool:
    """True if the tool waited for the answer of its user, and had done nothing before."""
    inner = f"{used.address}/ask_person."
    asked, answered = set[tuple[str, int]](), set[tuple[str, int]]()
    for each in trace.observations:
        if each.address != used.address and not each.address.startswith(inner):
            continue
        question = each.address, each.ordinal
        if each.kind == "asking":
            asked.add(question)
        # An answer that a later process has recorded, while no program ran, has not reached it.
        elif each.kind in ("input", "answered") and each.incarnation <= used.incarnation:
            answered.add(question)
    return bool(asked - answered)


def _without_names(masked: str) -> str:
    """*masked* without the names of secrets, which may be another's in another process."""
    return re.sub(r"\[secret [^\]]*\]", "[secret]", masked)
