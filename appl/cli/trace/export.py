"""``appl trace export``: a recorded run in the form of other tools, or sent to them.

Invariant: texts leave the trace only on request, or in forms that are for reading them (Markdown,
JSON lines). Keys come from the environment alone.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import math
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from appl.cli import exits, parameters
from appl.cli.commands import Options, appl_command, option, switch
from appl.cli.target import UsageError, path_exists, unused_path, write_error
from appl.cli.terminal import as_json, out as print_out, say
from appl.cli.trace.run_names import run_path
from appl.config import load as load_config
from appl.tracing import Trace

if TYPE_CHECKING:
    from appl.tracing.exporting.delivery import Delivery
    from appl.tracing.exporting.spans import Spans

_EPILOG = """\
FILE may be - for stdout. --otel takes the base URL of any OTLP/HTTP collector; keys are read from
OTEL_EXPORTER_OTLP_HEADERS. The same command goes on where an export stopped. Content (prompts,
answers, errors) is left out of spans and timelines unless --content is given.
"""
_FORMS = ("otel_file", "chrome", "jsonl", "markdown", "train", "train_rows")


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
@option("--train", metavar="FILE", help="token ids of prompts and answers, as a tree")
@option("--train-rows", metavar="FILE", help="token ids of prompts and answers, a row each")
@option("--html", metavar="FILE", help="the viewer with the run, in one file")
@switch("--content", help="put texts into spans and timelines")
@switch("--openinference", help="add OpenInference's attributes to spans")
@switch("--follow", help="with --otel, send what ends until the run is over")
@option(
    "--deadline",
    metavar="SECONDS",
    type=float,
    help="with --otel, how long to go on trying; default: 600",
)
@switch("--from-start", help="with --otel, send also what has arrived in an earlier export")
@switch("--salvage", help="export what is before the damage")
@parameters.as_json
def command(options: Options) -> int:
    """Write or send a run in the form of other tools, in several forms at once if you like."""
    wanted = [form for form in _FORMS if getattr(options, form)]
    if not wanted and not options.otel and not options.html:
        raise UsageError(
            "name the form of the export: --otel URL, --otel-file, --chrome, --jsonl, …; "
            "--help lists all"
        )
    if options.follow and (not options.otel or wanted or options.html):
        raise UsageError("--follow sends spans of a run that goes on: give it with --otel alone")
    if not options.otel and (options.from_start or options.deadline is not None):
        word = "--from-start" if options.from_start else "--deadline"
        raise UsageError(f"{word} is for spans that are sent: give it with --otel URL")
    if options.deadline is not None and not 0 < options.deadline < math.inf:
        raise UsageError(f"--deadline takes a number of seconds above 0, got {options.deadline:g}")
    if options.follow:
        return _follow(run_path(options.run), options)
    trace = Trace.open(run_path(options.run), salvage=options.salvage)
    files = {form: _write(trace, form, getattr(options, form), options) for form in wanted}
    if options.html:
        target = unused_path(Path(options.html))
        from appl.tracing import viewer  # one form of export needs it

        with contextlib.closing(viewer.View(trace.path, salvage=options.salvage)) as view:
            viewer.export(viewer.Views(view), target)
        if not options.json:
            say(f"appl: wrote {target}")
        files["html"] = str(options.html)
    sent = _send(trace, options) if options.otel else None
    if options.json and "-" not in files.values():
        print_out(as_json({"files": files, "sent": sent.facts() if sent else None}))
    return exits.FAILED if sent is not None and not sent.delivery.complete else exits.OK


class _Sending:
    """The transfer of spans to a collector, with a bar on a terminal and a closing line."""

    def __init__(self, trace_id: bytes, options: Options) -> None:
        from appl.tracing.exporting import delivery  # for this form only
        from appl.tracing.exporting.checkpoint import Checkpoint
        from appl.tracing.exporting.collector import Collector  # one form of export needs it

        collector = Collector(options.otel)
        self._trace_id, self._json = trace_id, options.json
        self._checkpoint = Checkpoint(load_config().home, trace_id, collector.url)
        if options.from_start:
            self._checkpoint.clear()
        self._bar = None if options.json or not sys.stderr.isatty() else _Bar()
        patience = delivery.Patience(total_s=options.deadline or delivery.TOTAL_S)
        watched: Any = {"watch": self._bar} if self._bar else {}
        self._courier = delivery.Courier(
            collector, checkpoint=self._checkpoint, patience=patience, **watched
        )
        self.delivery: Delivery = self._courier.delivery

    def send(self, spans: Spans) -> bool:
        """Send *spans*; true if more can be sent. An interruption reports what was sent."""
        try:
            with self._bar or contextlib.nullcontext():
                self._courier.deliver(spans)
        except KeyboardInterrupt:
            self.delivery.stopped = "interrupted"
            self.close()
            raise
        return self.delivery.stopped is None

    def close(self) -> None:
        """Report how much was sent."""
        if self.delivery.stopped is None:
            self._checkpoint.clear()
        if self._json:
            return
        stopped = self.delivery.stopped is not None
        ending = f"; {self._advice()}" if stopped else f", trace {self._trace_id.hex()}"
        say(f"appl: {self.delivery.line()}{ending}")

    def _advice(self) -> str:
        advice = "run the same command again"
        return f"{advice} to go on" if self._checkpoint.kept else f"{advice} to start anew"

    def facts(self) -> dict[str, Any]:
        """The result for ``--json``."""
        sent = self.delivery
        arrived, calls = sent.first_calls()
        return {
            "trace": self._trace_id.hex(),
            "spans": sent.spans,
            "arrived": sent.arrived,
            "earlier": sent.earlier,
            "rejected": sent.rejected,
            "calls": calls,
            "calls_arrived": arrived,
            "requests": sent.requests,
            "busy": sent.busy,
            "said": sent.said,
            "stopped": sent.stopped,
        }


class _Bar:
    """A progress bar of ``rich`` on stderr, with the reason for waiting."""

    def __init__(self) -> None:
        from rich import progress  # only a live display needs it
        from rich.console import Console  # only a live display needs it

        console = Console(stderr=True, highlight=False)
        text = progress.TextColumn("{task.description}", markup=False)
        self._progress: Any = progress.Progress(
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            text,
            console=console,
            transient=True,
        )
        self._task = self._progress.add_task("spans")

    def __enter__(self) -> None:
        self._progress.start()

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    def __call__(self, delivery: Delivery) -> None:
        done = delivery.arrived + delivery.rejected
        description = delivery.waiting or "spans"
        self._progress.update(
            self._task, completed=done, total=delivery.spans, description=description
        )


def _send(trace: Trace, options: Options) -> _Sending:
    from appl.tracing.exporting import spans  # one form of export needs it

    every = spans.spans_of(trace, content=options.content, inference=options.openinference)
    sending = _Sending(every.trace_id, options)
    sending.send(every)
    sending.close()
    return sending


def _follow(path: Path, options: Options) -> int:
    from appl.tracing.exporting import live  # one form of export needs it

    sending: _Sending | None = None
    for spans in live.follow(path, content=options.content, inference=options.openinference):
        sending = sending or _Sending(spans.trace_id, options)
        if not sending.send(spans):
            break
    assert sending is not None  # a run has at least the span of itself
    sending.close()
    if options.json:
        print_out(as_json({"files": {}, "sent": sending.facts()}))
    return exits.OK if sending.delivery.complete else exits.FAILED


def _lines(trace: Trace, form: str, options: Options) -> Iterable[str]:
    if form == "jsonl":
        from appl.tracing import tape  # one form of export needs it

        return (line.rstrip("\n") for line in tape.write(trace, full=True))
    if form in ("train", "train_rows"):
        from appl.tracing.exporting import trajectories  # one form of export needs it

        if trace.header.get("privacy", "full") != "full":
            raise UsageError(f"{trace.path.name} is a private run: it has no token ids")
        others = [
            each
            for each in trajectories.trajectories(trace)
            if isinstance(each, trajectories.WithoutIds)
        ]
        if others:
            shown = "".join(f"\n  {each.call}: {each.why}" for each in others[:_SHOWN])
            more = f"\n  and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
            say(f"appl: without token ids, and not among the rows: {len(others)}{shown}{more}")
        return (trajectories.tree_lines if form == "train" else trajectories.row_lines)(trace)
    if form == "otel_file":
        from appl.tracing.exporting import (
            otlp,  # one form of export needs it
            spans,  # one form of export needs it
        )

        # One export request per line, in the format of a collector's file receiver.
        every = spans.spans_of(trace, content=options.content, inference=options.openinference)
        return (json.dumps(request) for request in otlp.requests(every))
    module = importlib.import_module(f"appl.tracing.exporting.{form}")
    lines: Iterable[str]
    lines = (
        module.lines(trace, content=options.content) if form == "chrome" else module.lines(trace)
    )
    return lines


_SHOWN = 10


def _write(trace: Trace, form: str, name: str, options: Options) -> str:
    lines = _lines(trace, form, options)
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
        raise path_exists(path) from None
    except OSError as error:
        raise write_error(path, error) from None
    with os.fdopen(fd, "w", encoding="utf-8", errors="backslashreplace") as file:
        for line in lines:
            file.write(line + "\n")
    if not options.json:
        say(f"appl: wrote {path}")
    return name
