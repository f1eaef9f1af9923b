"""Finds timers of event loops that a replay cannot repeat.

Invariant: a timer of asyncio's own loop is named only where a clock decides whether it strikes at
once; any other one is recorded. Timers of uvloop are not, but for those around a call itself.
"""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator, Mapping

from appl.compiler.nodes import called
from appl.compiler.rules import LintFinding, dotted, finding_at

NAME = "unrecorded-timer"
ABOUT = "A timer of an event loop is not recorded, so that a replay may see another end of its wait"
_TIMERS = ("asyncio.sleep", "asyncio.timeout", "asyncio.timeout_at", "asyncio.wait_for")
_ON_LOOPS = ("call_later", "call_at")
_CLOCKS = ("time", "monotonic", "perf_counter")


def findings(
    file: str, tree: ast.Module, prompted: Container[str], imported: Mapping[str, str]
) -> Iterator[LintFinding]:
    """Findings for timers in *tree*, whose functions *prompted* are prompt functions."""
    names = dict(imported)
    other = any(path.partition(".")[0] == "uvloop" for path in names.values())
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        path = dotted(call.func, names)
        if path == "asyncio.wait":
            is_timer = any(keyword.arg == "timeout" for keyword in call.keywords)
        else:
            on_loop = isinstance(call.func, ast.Attribute) and call.func.attr in _ON_LOOPS
            is_timer = on_loop or path in _TIMERS
        if other and is_timer and not _limits_call(call, path, prompted, names):
            block = "async with appl.timeout(seconds)"
            instead = "await appl.sleep(seconds)" if path == "asyncio.sleep" else block
            yield finding_at(
                file,
                NAME,
                call,
                f"`{ast.unparse(call.func)}` sets a timer of uvloop, which is not recorded: a "
                "replay may see another end of this wait",
                f"write `{instead}`, or use asyncio's own loop, whose timers are recorded",
            )
        elif path == "asyncio.timeout_at" or (path in _TIMERS and _reads_clock(call)):
            yield finding_at(
                file,
                NAME,
                call,
                f"`{ast.unparse(call.func)}` strikes at once if a clock says so, which is not "
                "recorded: a replay may see another end of this wait",
                "write `async with appl.timeout(seconds)`, or read the clock with appl.now()",
            )


def _limits_call(
    call: ast.Call, path: str, prompted: Container[str], names: dict[str, str]
) -> bool:
    """True if the wait is for a prompt call: its end by a timer is recorded as the call's."""
    about = call.args[0] if path == "asyncio.wait_for" and call.args else None
    if not isinstance(about, ast.Call):
        return False
    return called(about) in prompted or dotted(about.func, names) == "appl.gen"


def _reads_clock(call: ast.Call) -> bool:
    seconds = [*call.args, *(keyword.value for keyword in call.keywords)][-1:]
    inner = (node for argument in seconds for node in ast.walk(argument))
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _CLOCKS
        for node in inner
    )
