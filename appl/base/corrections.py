"""What to write instead, for errors of code that knows nothing of appl.

Invariant: no answer is waited for to find out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_A_FUTURE = (
    "an answer is a future in plain Python: write str(answer), or answer.result(), or annotate its "
    "function with the value, as in -> str; in an async def write await answer"
)
_ADVICE: tuple[tuple[str, str, str], ...] = (
    ("TypeError", r"\b(Typed)?Generation\b", _A_FUTURE),
    # of pydantic and FastAPI, which need not be loaded
    ("ValidationError", r"\binput_type=(Generation|Future)\b", _A_FUTURE),
    ("PydanticSerializationError", r"\bappl\..*\.(Generation|Future)\b", _A_FUTURE),
    (
        "AttributeError",
        r"^'coroutine' object",
        "a coroutine has to be awaited: write await before it",
    ),
    ("TypeError", r"\bcoroutine\b", "a coroutine has to be awaited: write await before it"),
    (
        "TypeError",
        r"^(map|as_completed)\(\) missing 1 required positional argument: 'items'",
        "write appl.map(f, items) or appl.as_completed(f, items), where f is not called",
    ),
    (
        "RuntimeError",
        r"^asyncio\.run\(\) cannot be called",
        "inside of an async def write await f(...) in place of asyncio.run(f(...))",
    ),
)


def advice(error: BaseException) -> str:
    """The correction for an *error* of code that knows nothing of appl; empty if there is none."""
    if type(error).__name__ == "ResponseValidationError":
        return _A_FUTURE if _holds_future(error) else ""
    for kind, pattern, correction in _ADVICE:
        if type(error).__name__ == kind and re.search(pattern, str(error)):
            return correction
    return ""


def note_advice(error: BaseException, *more: str) -> None:
    """Note the correction on *error*, and *more* hints that are not empty, each of them once."""
    for hint in (advice(error), *more):
        if hint and hint not in getattr(error, "__notes__", ()):
            error.add_note(hint)


def _holds_future(error: BaseException) -> bool:
    """True if a fault in a response of FastAPI, whose text would wait for it, is a future."""
    errors = getattr(error, "errors", None)
    problems = errors() if callable(errors) else ()
    if not isinstance(problems, Iterable):
        return False
    values = (item.get("input") for item in problems if isinstance(item, Mapping))
    return any(type(value).__name__ in ("Generation", "Future") for value in values)
