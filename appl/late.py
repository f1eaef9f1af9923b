"""Imports that have to be late, in one list: what each costs, and why it waits.

Invariant: a module of this list is loaded by ``late_import`` and in no other way, so that the tests
see who may load it. The milliseconds are those of CPU in a program that has imported ``gen``, on
one machine: they say which modules are worth a late import, no more.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, Final, NamedTuple


class Late(NamedTuple):
    """Why a module is loaded late, and the milliseconds that this saves where it is not needed."""

    ms: int
    why: str


_TYPED = "only typed answers and tools need it"
_LIVE = "only a live display needs it"
_FILE = "only a run that keeps answers or an index in a file needs it"
_EXPORT = "one form of export needs it"
_CONTROL = "only a run that is looked at from outside needs it"
_RUN = "a program that asks no model needs no run"

LATE: Final[Mapping[str, Late]] = {
    # modules of others
    "concurrent.futures.thread": Late(1, "its end at the exit has to come after ours"),
    "ctypes": Late(
        2, "only to stop a thread, or to know the other end of a socket, on some systems"
    ),
    "docstring_parser": Late(4, "only tools with a docstring need it"),
    "importlib.metadata": Late(13, "only to find backends of other packages, and our version"),
    "jsonschema": Late(54, _TYPED),
    "opentelemetry.proto.collector.trace.v1.trace_service_pb2": Late(16, _EXPORT),
    "pydantic": Late(21, _TYPED),
    "pydantic.errors": Late(19, _TYPED),
    "pydantic_core": Late(15, _TYPED),
    "ray.cloudpickle": Late(288, "only a map on a Ray cluster needs it"),
    "readline": Late(1, "only a conversation in a terminal needs it"),
    "referencing": Late(25, _TYPED),
    "rich.console": Late(20, _LIVE),
    "rich.live": Late(20, _LIVE),
    "rich.panel": Late(13, _LIVE),
    "rich.progress": Late(24, _LIVE),
    "rich.text": Late(11, _LIVE),
    "sqlite3": Late(3, _FILE),
    "typing_extensions": Late(2, _TYPED),
    "yaml": Late(10, "only an appl.yaml needs it"),
    # modules of appl
    "appl.cli.completion": Late(21, "only the Tab key of a shell needs it"),
    "appl.cli.display": Late(25, _LIVE),
    "appl.cli.replayable": Late(127, "only `appl check --replayable` runs a program"),
    "appl.cli.words": Late(44, "only completion and a slip in a command need all words"),
    "appl.compat.names": Late(4, "only programs for APPL 0.2 need it"),
    "appl.compat.settings": Late(32, "only settings of APPL 0.2 need it"),
    "appl.compiler.late_failure": Late(16, "only an error that is shown needs it"),
    "appl.control.requests": Late(49, _CONTROL),
    "appl.control.client": Late(3, _CONTROL),
    "appl.control.view": Late(44, _CONTROL),
    "appl.control.words": Late(2, _CONTROL),
    "appl.engine": Late(56, "only a map in other processes needs it"),
    "appl.engine.cluster": Late(59, "only a map on a Ray cluster needs it"),
    "appl.pytest_plugin.running": Late(201, "a session in which no test uses appl needs no run"),
    "appl.runtime.answers.stream": Late(0, "it imports the text that it is a stream of"),
    "appl.session": Late(84, _RUN),
    "appl.session.control_server": Late(91, _CONTROL),
    "appl.session.notebook": Late(86, "only a notebook needs it"),
    "appl.session.span_export": Late(121, "only a run that sends its spans somewhere needs it"),
    "appl.tracebacks": Late(0, "a plugin that is loaded in every test session imports nothing"),
    "appl.tracing.exporting.checkpoint": Late(54, _EXPORT),
    "appl.tracing.exporting.collector": Late(72, _EXPORT),
    "appl.tracing.exporting.delivery": Late(77, _EXPORT),
    "appl.tracing.exporting.live": Late(53, _EXPORT),
    "appl.tracing.exporting.otlp": Late(54, _EXPORT),
    "appl.tracing.exporting.spans": Late(53, _EXPORT),
    "appl.tracing.keeping.automatic_removal": Late(53, "only a run that removes old runs needs it"),
    "appl.tracing.recording.cache": Late(47, _FILE),
    "appl.tracing.tape": Late(59, _EXPORT),
    "appl.tracing.tape.reading": Late(61, "only a tape is read by it"),
    "appl.tracing.viewer": Late(112, _EXPORT),
    "appl_backends.sglang.launch": Late(88, "only `appl serve sglang` needs it"),
}


def late_import(name: str) -> Any:
    """The module *name* of the list, loaded now if it is not yet."""
    assert name in LATE, f"{name} is imported late, and does not stand in the list"
    return importlib.import_module(name)
