"""Imports that have to be late, in one list: what each costs, and why it waits.

Invariant: a module of this list is loaded by ``late_import`` and in no other way, so that the tests
see who may load it. The milliseconds are those of CPU in a program that has imported ``gen``, on
one machine: they say which modules are worth a late import, no more.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple


class LateImport(NamedTuple):
    """Why a module is loaded late, and the milliseconds that this saves where it is not needed."""

    ms: int
    why: str


_TYPED = "only typed answers and tools need it"
_LIVE = "only a live display needs it"
_FILE = "only a run that keeps answers or an index in a file needs it"
_EXPORT = "one form of export needs it"
_CONTROL = "only a run that is looked at from outside needs it"
_RUN = "a program that asks no model needs no run"

LATE: Final[Mapping[str, LateImport]] = {
    # modules of others
    "concurrent.futures.thread": LateImport(1, "its end at the exit has to come after ours"),
    "ctypes": LateImport(
        2, "only to stop a thread, or to reach the main one, and to know the other end of a socket"
    ),
    "docstring_parser": LateImport(4, "only tools with a docstring need it"),
    "importlib.metadata": LateImport(
        13, "only to find backends of other packages, and our version"
    ),
    "jsonschema": LateImport(54, _TYPED),
    "opentelemetry.proto.collector.trace.v1.trace_service_pb2": LateImport(16, _EXPORT),
    "pydantic": LateImport(21, _TYPED),
    "pydantic.errors": LateImport(19, _TYPED),
    "pydantic_core": LateImport(15, _TYPED),
    "ray.cloudpickle": LateImport(288, "only a map on a Ray cluster needs it"),
    "readline": LateImport(1, "only a conversation in a terminal needs it"),
    "referencing": LateImport(25, _TYPED),
    "rich.console": LateImport(20, _LIVE),
    "rich.live": LateImport(20, _LIVE),
    "rich.markup": LateImport(4, _LIVE),
    "rich.panel": LateImport(13, _LIVE),
    "rich.progress": LateImport(24, _LIVE),
    "rich.syntax": LateImport(30, _LIVE),
    "rich.text": LateImport(11, _LIVE),
    "sqlite3": LateImport(3, _FILE),
    "tiktoken": LateImport(40, "only programs for APPL 0.2 that count tokens need it"),
    "typing_extensions": LateImport(2, _TYPED),
    "yaml": LateImport(10, "only an appl.yaml needs it"),
    # modules of appl
    "appl.cli.completion": LateImport(21, "only the Tab key of a shell needs it"),
    "appl.cli.display": LateImport(25, _LIVE),
    "appl.cli.failure": LateImport(125, "only a command that fails needs it"),
    "appl.cli.replayable": LateImport(127, "only `appl check --replayable` runs a program"),
    "appl.cli.words": LateImport(44, "only completion and a slip in a command need all words"),
    "appl.compat.names": LateImport(4, "only programs for APPL 0.2 need it"),
    "appl.compat.settings": LateImport(32, "only settings of APPL 0.2 need it"),
    "appl.compiler.late_failure": LateImport(16, "only an error that is shown needs it"),
    "appl.control.requests": LateImport(49, _CONTROL),
    "appl.control.client": LateImport(3, _CONTROL),
    "appl.control.view": LateImport(44, _CONTROL),
    "appl.control.words": LateImport(2, _CONTROL),
    "appl.engine": LateImport(56, "only a map in other processes needs it"),
    "appl.engine.cluster": LateImport(59, "only a map on a Ray cluster needs it"),
    "appl.pytest_plugin.running": LateImport(
        201, "a session in which no test uses appl needs no run"
    ),
    "appl.runtime.concurrency.loop_timers": LateImport(1, "only a program with timers needs it"),
    "appl.runtime.nested": LateImport(1, "only a run inside a run needs it"),
    "appl.runtime.concurrency.typed_input": LateImport(2, "only functions on workers need it"),
    "appl.runtime.answers.nesting": LateImport(1, _TYPED),
    "appl.runtime.tools.asking": LateImport(1, "only tools with effects, and questions, need it"),
    "appl.session": LateImport(84, _RUN),
    "appl.session.control_server": LateImport(91, _CONTROL),
    "appl.session.notebook": LateImport(86, "only a notebook needs it"),
    "appl.session.served": LateImport(1, "only a program with uvicorn needs it"),
    "appl.session.web_answers": LateImport(1, "only a program with FastAPI needs it"),
    "appl.session.shared_budget": LateImport(1, "only a program with a budget needs it"),
    "appl.session.span_export": LateImport(
        121, "only a run that sends its spans somewhere needs it"
    ),
    "appl.status_line": LateImport(2, _LIVE),
    "appl.tracebacks": LateImport(
        0, "a plugin that is loaded in every test session imports nothing"
    ),
    "appl.tracing.exporting.checkpoint": LateImport(54, _EXPORT),
    "appl.tracing.exporting.collector": LateImport(72, _EXPORT),
    "appl.tracing.exporting.delivery": LateImport(77, _EXPORT),
    "appl.tracing.exporting.live": LateImport(53, _EXPORT),
    "appl.tracing.exporting.otlp": LateImport(54, _EXPORT),
    "appl.tracing.exporting.spans": LateImport(53, _EXPORT),
    "appl.tracing.keeping.automatic_removal": LateImport(
        53, "only a run that removes old runs needs it"
    ),
    "appl.tracing.recording.cache": LateImport(47, _FILE),
    "appl.tracing.tape": LateImport(59, _EXPORT),
    "appl.tracing.tape.reading": LateImport(61, "only a tape is read by it"),
    "appl.tracing.viewer": LateImport(112, _EXPORT),
    "appl_backends.sglang.launch": LateImport(88, "only `appl serve sglang` needs it"),
}


def late_import(name: str) -> Any:
    """The module *name* of the list, loaded now if it is not yet."""
    assert name in LATE, f"{name} is imported late, and does not stand in the list"
    return importlib.import_module(name)


def names_of(
    package: str, table: Mapping[str, str], own: str | None = None
) -> Callable[[str], Any]:
    """The ``__getattr__`` of *package*, or of its module *own*: names are imported at first use.

    *table* has the names that each module of the package defines, with spaces between them. So
    whoever needs one of them does not load them all.
    """
    own = own or package
    where = {name: module for module, names in table.items() for name in names.split()}

    def get(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module {own!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{where[name]}"), name)
        setattr(sys.modules[own], name, value)
        return value

    return get
