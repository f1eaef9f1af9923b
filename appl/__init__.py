"""Prompt programs in Python: compiled, run in parallel, recorded and replayed."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from appl import config, testing
    from appl.config import init
    from appl.errors import *  # noqa: F403
    from appl.function import ppl
    from appl.prompt import AIMessage, Message, SystemMessage, ToolMessage, UserMessage
    from appl.runtime.context import Conversation, PromptRecords, convo, records
    from appl.runtime.entry import run
    from appl.runtime.future import Future, Generation
    from appl.runtime.generate import gen, select
    from appl.runtime.lock import Lock
    from appl.runtime.observe import env, input, now, random, read, sleep, uuid
    from appl.runtime.ops import grow
    from appl.runtime.parallel import call, map
    from appl.runtime.roles import AIRole, SystemRole, ToolRole, UserRole
    from appl.runtime.text import Text
    from appl.runtime.timeout import timeout
    from appl.session import record

_HOME = {
    "appl.config": ("init",),
    "appl.function": ("ppl",),
    "appl.prompt": ("AIMessage", "Message", "SystemMessage", "ToolMessage", "UserMessage"),
    "appl.runtime.context": ("Conversation", "PromptRecords", "convo", "records"),
    "appl.runtime.entry": ("run",),
    "appl.runtime.future": ("Future", "Generation"),
    "appl.runtime.generate": ("gen", "select"),
    "appl.runtime.lock": ("Lock",),
    "appl.runtime.observe": ("env", "input", "now", "random", "read", "sleep", "uuid"),
    "appl.runtime.ops": ("grow",),
    "appl.runtime.parallel": ("call", "map"),
    "appl.runtime.roles": ("AIRole", "SystemRole", "ToolRole", "UserRole"),
    "appl.runtime.text": ("Text",),
    "appl.runtime.timeout": ("timeout",),
    "appl.session": ("record",),
    "appl.errors": (
        "ApplError", "BackendBusy", "BackendError", "BackendNotFound", "BackendTimeout",
        "CallCancelled", "ChoiceError", "ConfigError", "DeadlockError", "DivergenceError",
        "InvalidOption", "MalformedResponse", "ModelNotFound", "NotATrace", "PromptSyntaxError",
        "PromptTooLong", "PromptTypeError", "ReplayStuck", "RunClosed", "RunError",
        "SecretInRecord", "SourceUnavailable", "TraceCorrupt", "TraceError", "TraceLocked",
        "TraceTooNew", "TraceWriteError", "UnknownOption", "Unsupported", "UnusedRecords",
    ),
}  # fmt: skip
_MODULES = ("config", "errors", "session", "testing")
_WHERE = {name: module for module, names in _HOME.items() for name in names}

__all__ = [*sorted(_WHERE), *_MODULES]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    """The public names are imported at their first use."""
    if name in _WHERE:
        value = getattr(importlib.import_module(_WHERE[name]), name)
    elif name in _MODULES:
        value = importlib.import_module(f"appl.{name}")
    else:
        raise AttributeError(f"module 'appl' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHERE, *_MODULES})
