"""Errors as records hold them: plain data, and back.

Invariant: what is made of a record is an error of appl or of Python, with the recorded message.
"""

from __future__ import annotations

import builtins
from typing import Any

from appl import errors
from appl.tracing.format.codec import Big, plain, shortened
from appl.tracing.format.record import Read, as_it_is, checked

_MAX_TRACEBACK_ARGS = 16
_SHORT = 2000
_BUILTIN = tuple(
    """
    ArithmeticError AssertionError AttributeError ConnectionError Exception
    ConnectionRefusedError ConnectionResetError EOFError IndexError KeyError KeyboardInterrupt
    LookupError MemoryError NotImplementedError OSError OverflowError PermissionError
    RecursionError RuntimeError TimeoutError TypeError UnicodeError ValueError ZeroDivisionError
""".split()
)
_ERRORS: dict[str, type[BaseException]] = {name: getattr(builtins, name) for name in _BUILTIN}
_ERRORS |= {
    name: value
    for name, value in vars(errors).items()
    if isinstance(value, type) and issubclass(value, BaseException)
}
FACTS = tuple("retry_after status deadline limit most spent reserved asked usage worked".split())


def error_data(error: BaseException) -> tuple[Any, ...]:
    """An error as plain data: its type, the nearest that a replay knows, message, arguments."""
    names = [kind.__name__ for kind in type(error).__mro__ if _ERRORS.get(kind.__name__) is kind]
    kind = type(error)
    try:
        args = [plain(arg) for arg in error.args[:_MAX_TRACEBACK_ARGS]]
    except (TypeError, ValueError):
        args = [str(error)]
    nearest = names[0] if names else "BackendError"
    data = f"{kind.__module__}.{kind.__qualname__}", nearest, str(error), args
    facts = {name: value for name in FACTS if (value := getattr(error, name, None)) is not None}
    return (*data, facts) if facts and isinstance(error, errors.ApplError) else data


def error_with(data: tuple[Any, ...], big: Big) -> tuple[object, ...]:
    """The error that *data* describes; *big* may put a reference in place of a long text."""
    actual, nearest, message, args, *facts = data
    return actual, nearest, big(message), [shortened(arg, big) for arg in args], *facts


def error_from(data: Any, revive: Read = as_it_is, big: Read = as_it_is) -> BaseException:
    """An error as it was recorded: a type of appl or of Python, with the recorded message."""
    actual, nearest, message, args, *later = data
    kind = _ERRORS.get(nearest, errors.BackendError)
    message = checked(str, big(message))
    facts = {name: revive(value) for name, value in (later[0] if later else {}).items()}
    try:
        error = kind(*(revive(arg) for arg in args), **facts)
    except Exception:
        error = kind(message)
    if str(error) != message:
        error = kind(message)
    if actual.rpartition(".")[2] != nearest:
        error.add_note(f"recorded as {checked(str, actual)}")
        error.__dict__["recorded_type"] = actual  # for who may make it one of that type again
    return error


def short_error(error: BaseException) -> tuple[Any, ...]:
    """*error* as plain data, with the beginning of its message alone."""
    actual, nearest, message, *_ = error_data(error)
    return actual, nearest, message[:_SHORT], [message[:_SHORT]]
