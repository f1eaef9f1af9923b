"""The extras of this package: the libraries of each, and the error for a missing one.

Invariant: every missing extra is reported here, with the command that installs it. The table has
the extras of ``pyproject.toml`` that users install; a test compares them.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
from collections.abc import Iterator
from typing import Any

from appl.errors import MissingBackendExtra, MissingExtra, MissingPart

EXTRAS: dict[str, tuple[str, ...]] = {
    "anthropic": ("httptools",),
    "litellm": ("litellm",),
    "mcp": ("mcp",),
    "openai": ("openai", "httptools"),
    "otel": ("opentelemetry.proto",),
    "privacy": ("cryptography",),
    "ray": ("ray",),
    "serve": ("aiohttp",),
    "sglang": ("httptools", "jinja2"),
    "sglang-server": ("sglang",),
    "yaml": ("yaml",),
}
"""The modules that each extra installs; without one of them, the extra is missing."""


def library(extra: str, use: str, module: str = "") -> Any:
    """Import *module*, by default the first one of *extra*, which *use* needs.

    Raises ``MissingExtra``.
    """
    with needed(extra, use):
        return importlib.import_module(module or EXTRAS[extra][0])


@contextlib.contextmanager
def needed(extra: str, use: str, kind: type[MissingExtra] = MissingExtra) -> Iterator[None]:
    """A block that imports libraries of *extra*; a failed import becomes a ``MissingExtra``."""
    try:
        yield
    except (MissingExtra, MissingPart):
        raise
    except ImportError as error:
        raise kind(advice(extra, use, error), extra=extra) from None


@contextlib.contextmanager
def needed_by_backend(name: str) -> Iterator[None]:
    """:func:`needed` for the backend *name*, whose extra has its name: a ``BackendNotFound``."""
    with needed(name, f"the backend {name!r}", MissingBackendExtra):
        yield


def advice(extra: str, use: str, error: ImportError | None = None) -> str:
    """The message for a missing *extra*: who needs which module, and how to install it."""
    first = EXTRAS[extra][0]
    if error is None or isinstance(error, ModuleNotFoundError):
        module = error.name if error is not None and error.name else absent(extra) or first
        return f"{use} needs {module}, which is not installed: pip install 'appl[{extra}]'"
    return (
        f"{use} needs {first}, which cannot be imported ({error}): "
        f"pip install --upgrade 'appl[{extra}]'"
    )


def absent(extra: str) -> str | None:
    """The first module of *extra* that is not installed; found without importing anything."""
    return next((name for name in EXTRAS[extra] if not _is_installed(name)), None)


def pytest_missing() -> str:
    """The command that installs pytest here; empty if it is installed."""
    return "" if _is_installed("pytest") else "pip install pytest"


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False
