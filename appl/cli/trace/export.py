"""``appl trace export``: a recorded run in the form of other tools, or sent to them.

Invariant: texts leave the trace only where they were asked for, or where the form is for reading
them (Markdown, JSON lines); keys come from the environment alone.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from appl.cli import exits, parameters
from appl.cli.commands import Options, appl_command, option, switch
from appl.cli.failure import guarded, not_taken, not_written, taken
from appl.cli.target import UsageError
from appl.cli.terminal import as_json, say
from appl.cli.terminal import out as print_out
from appl.cli.trace.named import run_path
from appl.tracing import Trace

_EPILOG = """\
FILE may be - for stdout. --otel takes the base URL of any OTLP/HTTP collector; keys are read from
OTEL_EXPORTER_OTLP_HEADERS. Content (prompts, answers, errors) is left out of spans and timelines
unless --content is given.
"""
_FORMS = ("otel_file", "chrome", "jsonl", "markdown")


@appl_command(
    "export",
    epilog=_EPILOG,
    example="appl trace export last --markdown run.md\n"
    "appl trace export last --otel http://127.0.0.1:4318",
)
@parameters.run
@option("--otel", metavar="URL", help="send OpenTelemetry spans to a collector")
@option("--otel-file", metavar="FILE", help="OpenTelemetry spans as OTLP's JSON")
@option("--chrome", metavar="FILE", help="a timeline for Perfetto or Chrome")
@option("--jsonl", metavar="FILE", help="everything, as JSON lines")
@option("--markdown", metavar="FILE", help="a transcript")
@option("--html", metavar="FILE", help="the viewer with the run, in one file")
@switch("--content", help="put texts into spans and timelines")
@switch("--openinference", help="add OpenInference's attributes to spans")
@switch("--follow", help="with --otel, send what ends until the run is over")
@switch("--salvage", help="export what is before the damage")
@parameters.as_json
def command(given: Options) -> int:
    """Write or send a run in the form of other tools, several at once if wanted."""
    with guarded(given.json) as failure:
        wanted = [form for form in _FORMS if getattr(given, form)]
        if not wanted and not given.otel and not given.html:
            raise UsageError("say where to: --otel URL, or --otel-file, --chrome, --jsonl, …; "
                             "--help lists all")  # fmt: skip
        if given.follow and (not given.otel or wanted or given.html):
            raise UsageError(
                "--follow sends spans of a run that goes on: give it with --otel alone"
            )
        if given.follow:
            return _follow(run_path(given.run), given)
        trace = Trace.open(run_path(given.run), salvage=given.salvage)
        made = {form: _write(trace, form, getattr(given, form), given) for form in wanted}
        if given.html:
            made["html"] = _html(trace.path, given)
        sent = _send(trace, given) if given.otel else None
        if given.json and "-" not in made.values():
            print_out(as_json({"files": made, "spans_sent": sent}))
    return failure.code


def _send(trace: Trace, given: Options) -> int:
    otlp = importlib.import_module("appl.tracing.exporting.otlp")  # for this form only
    spans = importlib.import_module("appl.tracing.exporting.spans")
    every = spans.spans_of(trace, content=given.content, inference=given.openinference)
    taken: int = otlp.send(every, given.otel)
    if not given.json:
        say(f"appl: sent {taken} of {len(every.spans)} spans, trace {every.trace_id.hex()}")
    return taken


def _html(path: Path, given: Options) -> str:
    target = not_taken(Path(given.html))
    viewer = importlib.import_module("appl.tracing.viewer")
    with contextlib.closing(viewer.View(path, salvage=given.salvage)) as view:
        viewer.export(viewer.Views(view), target)
    if not given.json:
        say(f"appl: wrote {target}")
    return str(given.html)


def _follow(path: Path, given: Options) -> int:
    otlp = importlib.import_module("appl.tracing.exporting.otlp")
    live = importlib.import_module("appl.tracing.exporting.live")
    taken, encode = 0, otlp.encoder()
    for spans in live.follow(path, content=given.content, inference=given.openinference):
        taken += otlp.send(spans, given.otel, encode=encode)
    if given.json:
        print_out(as_json({"files": {}, "spans_sent": taken}))
    else:
        say(f"appl: sent {taken} spans; the run is over")
    return exits.OK


def _lines(trace: Trace, form: str, given: Options) -> Iterable[str]:
    if form == "jsonl":
        tape = importlib.import_module("appl.tracing.tape")
        return (line.rstrip("\n") for line in tape.write(trace, full=True))
    if form == "otel_file":
        return _otlp_lines(trace, given)
    module = importlib.import_module(f"appl.tracing.exporting.{form}")
    lines: Iterable[str]
    lines = module.lines(trace, content=given.content) if form == "chrome" else module.lines(trace)
    return lines


def _otlp_lines(trace: Trace, given: Options) -> Iterator[str]:
    """One export request a line, as a collector's file receiver reads them."""
    otlp = importlib.import_module("appl.tracing.exporting.otlp")
    spans = importlib.import_module("appl.tracing.exporting.spans")
    every = spans.spans_of(trace, content=given.content, inference=given.openinference)
    return (json.dumps(request) for request in otlp.requests(every))


def _write(trace: Trace, form: str, name: str, given: Options) -> str:
    lines = _lines(trace, form, given)
    if name == "-":
        for line in lines:
            sys.stdout.write(line.encode("utf-8", "backslashreplace").decode() + "\n")
        sys.stdout.flush()
        return name
    path = Path(name)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(path, flags, 0o600)
    except FileExistsError:
        raise taken(path) from None
    except OSError as error:
        raise not_written(path, error) from None
    with os.fdopen(fd, "w", encoding="utf-8", errors="backslashreplace") as file:
        for line in lines:
            file.write(line + "\n")
    if not given.json:
        say(f"appl: wrote {path}")
    return name
