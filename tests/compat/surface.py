"""What there is of a published name: a module, an object, a parameter or an attribute."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from appl.parts.compat.answers import ATTRIBUTES as OLDER_ATTRIBUTES, WORDS as OLDER_OPTIONS
from appl.parts.compat.messages import OF_CALL, OF_MESSAGE, ROLES
from appl.parts.compat.tools import NAMES as TOOL_NAMES

_OF_MESSAGE = {*OF_MESSAGE, *ROLES}
OLDER_ATTRIBUTES_OF = {
    "Tool": TOOL_NAMES,
    "ToolCall": OF_CALL,
    **dict.fromkeys(("BaseMessage", "Message", "AIMessage", "UserMessage"), _OF_MESSAGE),
    **dict.fromkeys(("SystemMessage", "ToolMessage"), _OF_MESSAGE),
}
"""Attributes that are read where a class does not have them."""
NAMES = Path(__file__).with_name("names.txt")
OLDER_WORDS = {
    "appl.ppl": {"comp", "include_docstring", "num_extra_wrappers"},
    "appl.gen": {*OLDER_OPTIONS, "top_logprobs", "max_completion_tokens", "api_key"}
    | {"mock_response", "num_retries", "postprocess_args", "messages_process_func"},
    "Generation.run_tool_calls": {"filter_fn", "executor_type", "log_results"},
    "appl.call": {"executor_type"},
}
"""Parameters that are accepted without standing in a signature."""


def names() -> Iterator[str]:
    """Every published name."""
    for line in NAMES.read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            yield line


def exists(name: str) -> bool:
    """Whether *name* is there, in today's or in an older spelling."""
    owner, parameter = _split(name)
    if parameter is not None:
        return _takes(owner, parameter)
    if name.startswith("appl."):
        return _find(name) is not None
    kind, _, attribute = name.partition(".")
    return _has(kind, attribute)


def _split(name: str) -> tuple[str, str | None]:
    found = re.fullmatch(r"(.+)\((\w+)\)", name)
    return (found[1], found[2]) if found else (name, None)


def _find(path: str) -> Any:
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:length]))
        except ImportError:
            continue
        try:
            for part in parts[length:]:
                found = getattr(found, part)
        except AttributeError:
            return None
        return found
    return None


def _takes(owner: str, parameter: str) -> bool:
    if parameter in OLDER_WORDS.get(owner, ()):
        return True
    f = _find(owner if owner.startswith("appl.") else f"appl.types.{owner}")
    if f is None:
        return False
    found = inspect.signature(f).parameters
    places = [p.name for p in found.values() if p.kind is p.POSITIONAL_ONLY]
    return parameter in found or (parameter in ("func", "image", "title") and bool(places))


def _has(kind: str, attribute: str) -> bool:
    owner = _find(f"appl.types.{kind}") or _find(f"appl.{kind}")
    if owner is None:
        return False
    answers = ("Generation", "CompletionResponse", "CallFuture")
    if kind in answers and attribute in OLDER_ATTRIBUTES:
        return True
    if attribute in OLDER_ATTRIBUTES_OF.get(kind, ()):
        return True
    return hasattr(owner, attribute) or attribute in getattr(owner, "__annotations__", {})
