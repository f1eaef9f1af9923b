"""Lines that block their thread: their call, the lock that they take, and what to write instead.

Invariant: it only looks at a frame and its source; nothing of the user's runs.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import linecache
import threading
from itertools import islice
from types import FrameType
from typing import Any

from appl.compiler.trees import expression_tree, module_tree


def warning(user: FrameType, seconds: float, others: int) -> str:
    """The warning that the line of *user* has blocked its thread, with the line to write instead.

    It did so for so many *seconds* in all, while up to so many *others* could have gone on.
    """
    code, text, lock = user.f_code, _call_at(user), lock_at(user)[0]
    where = f"{code.co_filename}:{user.f_lineno}"
    name = "" if code.co_name.startswith("<") else f" in {code.co_name}()"
    what = f"`{text}`" if text else "this line"
    whom = "another program" if others == 1 else f"{others} other programs"
    if lock:
        return (
            f"{where}: the whole thread waits for the lock `{lock}`{name}, while {whom} of it "
            "could go on; if one of them holds the lock, that is for ever. Write "
            f"`{lock} = appl.Lock()`: only the program that needs it waits then."
        )
    return (
        f"{where}: {what}{name} blocked its thread for {seconds:.1f} s so far, while {whom} "
        f"could have gone on. {advice_for(text)}"
    )


def lock_at(frame: FrameType) -> tuple[str, Any]:
    """The lock of ``threading`` that the line of *frame* takes, after its source; empty if none."""
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno or 0, frame.f_globals).strip()
    with contextlib.suppress(SyntaxError, ValueError):
        for node in ast.walk(module_tree(f"{line} pass" if line.endswith(":") else line, "<line>")):
            expression = None
            if isinstance(node, ast.withitem):
                expression = node.context_expr
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                expression = node.func.value if node.func.attr == "acquire" else None
            lock = _value_of(expression, frame) if expression is not None else None
            if expression is not None and isinstance(lock, _LOCKS):
                return ast.unparse(expression), lock
    return "", None


_LOCKS = (type(threading.Lock()), type(threading.RLock()), threading.Semaphore, threading.Condition)


def _value_of(node: ast.expr, frame: FrameType) -> object:
    """The value of a name, or of an attribute of one, in *frame*; nothing of the user's runs."""
    if isinstance(node, ast.Name):
        return frame.f_locals.get(node.id, frame.f_globals.get(node.id))
    if isinstance(node, ast.Attribute):
        return inspect.getattr_static(_value_of(node.value, frame), node.attr, None)
    return None


def _call_at(frame: FrameType) -> str:
    """The source of the call that *frame* is at; empty where it is not known, or spans lines."""
    place = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), None)
    if place is None or None in place or place[0] != place[1]:
        return ""
    line, _, start, end = place
    text = linecache.getline(frame.f_code.co_filename, line or 0, frame.f_globals)
    return text.encode()[start:end].decode(errors="replace").strip()


def advice_for(text: str) -> str:
    """The line to write in place of the call *text*."""
    f, arguments = "f", "..."
    with contextlib.suppress(SyntaxError, ValueError):
        call = expression_tree(text)
        if isinstance(call, ast.Call):
            f = ast.unparse(call.func)
            arguments = ast.unparse(call).removeprefix(f)[1:-1]
    if f in ("time.sleep", "sleep"):
        return f"Write `appl.sleep({arguments})`: only its own program sleeps then."
    terms = ", ".join(part for part in (f, arguments) if part)
    return (
        f"Write `observe({terms})`: it runs on a worker thread, only its own program waits, and "
        f"the result is recorded, so that a replay does not run it again; `call({terms})` gives a "
        "future and records nothing."
    )
