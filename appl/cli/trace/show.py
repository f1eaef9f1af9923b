"""``appl trace show``: a recorded run for a human or as JSON.

Invariant: traces are only read. Text of a trace reaches the terminal only through ``term_safe``.
"""

from __future__ import annotations

import itertools
import shlex
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from appl.cli import parameters
from appl.cli.commands import Options, appl_command, argument, switch
from appl.cli.target import UsageError
from appl.cli.terminal import as_json, counted, one_line, out, say_next, term_safe
from appl.cli.trace import document, tree
from appl.cli.trace.places import known, place, seconds
from appl.cli.trace.run_names import run_path
from appl.config import load
from appl.errors import nearest
from appl.prompt import Message
from appl.runtime.prompts.rendering import options_shown
from appl.session.next_steps import after_show
from appl.tracing import Attempt, RecordedCall, ToolUse, Trace
from appl.tracing.explaining import steps
from appl.tracing.explaining.run_overview import RunOverview
from appl.tracing.format import sampling
from appl.tracing.format.allowance import Written
from appl.tracing.format.failures import counted_items
from appl.tracing.reading.documents import jsonable

if TYPE_CHECKING:
    from appl.tracing.reading.spans import Span

_WIDTH, _ORIGIN = 60, 40
_MOST, _HINTED, _FAILURES, _WARNINGS, _TABLES = 200, 10_000, 10, 100, 3
_TOKENS = (
    ("prompt_tokens", "prompt tokens"),
    ("cached_tokens", "of them cached"),
    ("written_tokens", "written to the cache"),
    ("completion_tokens", "generated"),
)


@appl_command("show", example="appl trace show\nappl trace show last /main.0/gen.0")
@argument(
    "names",
    nargs=-1,
    shell_complete=parameters.RUNS,
    metavar="[RUN] [CALL]",
    help=f"RUN is {parameters.RUN}; CALL begins with a slash",
)
@switch("--all", help="print every call, not the first")
@switch("--plain", help="print the prompt of a call without its origins")
@parameters.as_json
@parameters.salvage
def command(options: Options) -> None:
    """Show a run, or one of its calls.

    A run is shown as the tree of its functions and calls, with time, tokens, cost and source lines.
    A call is shown with its whole prompt and the origin of each part: the line that wrote it, or
    the call whose answer it is.
    """
    run, address = _names(options.names)
    if address:
        path = run_path(run)
        trace = Trace.open(path, salvage=options.salvage)
        call, written = _call(trace, address), Written(path.stat().st_size)
        if isinstance(call, RecordedCall):
            lines = (f"{line}\n" for line in _whole(trace, call, options.plain))
            parts = document.of_call(trace, call) if options.json else lines
            for text in document.gathered(parts, written):
                out(text, end="")
        elif options.json:
            out(as_json(call.as_data(), indent=2))
        else:
            out("\n".join(_whole_tool(call)))
    elif options.json:

        def begun() -> None:
            options.json = False  # there is one document and no more

        document.write(run_path(run), options.salvage, begun)
    else:
        most = sys.maxsize if options.all else _MOST
        overview = RunOverview.of(Trace.open(run_path(run), salvage=options.salvage), most)
        out("\n".join(_run_lines(overview)))
        first = next((row.address for row in overview.rows if isinstance(row, RecordedCall)), None)
        say_next(after_show(overview.trace.path, load().home, first))


def _names(names: list[str]) -> tuple[str, str | None]:
    """RUN and CALL; a lone word that begins with a slash and is no file is a call."""
    if len(names) > 2:
        raise UsageError("write appl trace show [RUN] [CALL]")
    if len(names) == 2:
        return names[0], names[1]
    if names and names[0].startswith("/") and not Path(names[0]).is_file():
        return "last", names[0]
    return (names[0] if names else "last"), None


def _call(run: Trace, address: str) -> RecordedCall | ToolUse:
    call = run.by_address.get(address) or run.tools.get(address)
    if call is not None:
        return call
    every = itertools.chain(run.by_address, run.tools)
    hint = nearest(address, list(itertools.islice(every, _HINTED)))
    if not address.startswith("/"):
        raise UsageError(f"CALL begins with a slash, as in /main.0/gen.0, got {address!r}{hint}")
    raise UsageError(f"{run.path.name} has no call {address!r}{hint}")


def _run_lines(overview: RunOverview) -> Iterator[str]:
    trace, head = overview.trace, jsonable(overview.trace.header)
    began = trace.began()
    when = f"{began:%Y-%m-%d %H:%M:%S} UTC" if began else "at an unknown time"
    took = tree.span(overview.functions.values())
    yield term_safe(f"{trace.path.stem}: {_state(trace)}, {when}, {took / 1e6:.1f} s")
    yield term_safe(f"  program  {_program(head)}")
    yield term_safe(
        f"  answers  {_who(head)}, seed {head.get('seed')}"
        + (f", git {head['git']}" if head.get("git") else "")
    )
    yield f"  calls    {sums_line(overview.totals.as_data())}"
    if overview.costs.reused.calls or not overview.costs.is_free:
        yield f"  cost     {overview.costs.line()}"
    if overview.tools:
        failed = f", {overview.tools_failed} failed" if overview.tools_failed else ""
        yield f"  tools    {overview.tools} called{failed}"
    yield from _batches(trace)
    yield from _failures(trace)
    yield from _asked(trace)
    if len(trace.incarnations) > 1:
        yield f"  resumed  {counted(len(trace.incarnations) - 1, 'time')}"
    if trace.error is not None and trace.state == "finished" and trace.reason != "interrupted":
        yield f"  error    {one_line(f'{type(trace.error).__name__}: {trace.error}', 200)}"
    if trace.torn:
        yield "  note     the end of the file was torn; what is shown is all that was committed"
    for address, message in trace.warnings[:_WARNINGS]:
        where = f"{address}: " if address else ""
        yield f"  warning  {one_line(where + message, 200)}"
    yield from _evaluations(overview)
    yield ""
    yield from tree.lines(overview, partial(_outcome_in, trace))
    if overview.more:
        yield f"… and {overview.more} more calls; --all shows them. By function:"
        yield from tree.by_function(overview)


def _evaluations(overview: RunOverview) -> Iterator[str]:
    """The tables of the last evaluations in the run."""
    if not any(scope.rpartition("/")[2].startswith("evaluate.") for scope in overview.scopes):
        return
    from appl.parts.evaluation.trace_reading import all_recorded  # few runs evaluate

    for evaluation in all_recorded(overview.trace)[-_TABLES:]:
        lines = evaluation.title(), *evaluation.table(), *evaluation.notes()
        yield from ("", *map(term_safe, lines))


def _asked(trace: Trace) -> Iterator[str]:
    """The questions to people, with their answers, and the other waits of the run."""
    if not any(observation.kind in ("asked", "waiting") for observation in trace.observations):
        return
    from appl.cli.trace.asked import lines  # few runs ask people, or wait for days

    yield from lines(trace)


def _batches(trace: Trace) -> Iterator[str]:
    """The batches, those that are away first."""
    every = sorted(trace.batches.values(), key=lambda batch: not batch.is_away)
    if not every:
        return
    away = sum(batch.is_away for batch in every)
    ask = f", {away} away: `appl trace batches {trace.path.stem}` asks how far" if away else ""
    yield term_safe(f"  batches  {len(every)}{ask}")
    for batch in every[:_FAILURES]:
        name, where = batch.id or batch.key, batch.facts.get("backend")
        line = f"{name}: {batch.state}, {counted(len(batch.calls), 'call')} at {where}"
        yield f"           {one_line(line, 150)}"
    if len(every) > _FAILURES:
        yield f"           … and {len(every) - _FAILURES} more"


def _failures(trace: Trace) -> Iterator[str]:
    """The failures besides calls, the first with their errors, and the command that asks again."""
    counts = trace.failure_counts()
    if not counts:
        return
    yield f"  failed   {', '.join(counts.words(trace.reason == 'finished'))}"
    shown = counted_items(trace.failures) or [*trace.failures.values()]
    for failure in shown[:_FAILURES]:
        yield f"           {one_line(f'{failure.address}: {_error(failure.error)}', 150)}"
    if len(shown) > _FAILURES:
        yield f"           … and {len(shown) - _FAILURES} more"
    if not counts.has_retriable:
        return
    command = f"appl trace rerun {trace.path.stem} --anew failed"
    yield term_safe(f"           `{command}` asks only those again")


def _error(error: BaseException | None) -> str:
    return f"{type(error).__name__}: {error}"


def _state(trace: Trace) -> str:
    return (trace.reason or "finished") if trace.state == "finished" else str(trace.state)


def _program(head: dict[str, object]) -> str:
    entry = head.get("entry")
    if not isinstance(entry, dict):
        return str(head.get("program", "?"))
    function = f":{entry['function']}" if entry.get("function") else ""
    words = shlex.join(str(word) for word in entry.get("argv") or ())
    return f"{entry.get('file') or entry.get('kind')}{function} {words}".strip()


def sums_line(totals: dict[str, object]) -> str:
    """The sums of calls and tokens in *totals*, those that are there, as a line."""
    sums = totals.get("tokens", totals)
    tokens = sums if isinstance(sums, dict) else {}
    named = [f"{tokens[key]} {word}" for key, word in _TOKENS if tokens.get(key) is not None]
    counts = [
        f"{totals[key]} {key.replace('_', ' ')}"
        for key in ("answered", "failed", "cancelled", "reused", "in_flight")
        if totals.get(key)
    ]
    return "; ".join([", ".join(counts) or "none", ", ".join(named)])


def _outcome_in(trace: Trace, call: RecordedCall | ToolUse) -> str:
    """The outcome of a call of *trace*, on one line, and why its type refused the answer."""
    refused = trace.failures.get(call.address) if isinstance(call, RecordedCall) else None
    return f"refused: {outcome(call)}" if refused is not None else outcome(call)


def outcome(call: RecordedCall | ToolUse) -> str:
    """The outcome of a call, on one line."""
    if isinstance(call, RecordedCall):
        return _outcome(call)
    words = one_line(f"{call.name}({call.arguments})", _WIDTH)
    if call.message is not None:
        failed = "failed: " if call.message.has_error else ""
        return f"{words} -> {failed}{one_line(call.message.shown, _WIDTH)}"
    if call.error is not None:
        return f"{words} {call.outcome}: {one_line(str(call.error), _WIDTH)}"
    return f"{words} in flight"


def _took(call: RecordedCall | ToolUse) -> str:
    if call.started is None or call.ended is None:
        return "-"
    return f"{(call.ended - call.started) / 1e6:.2f} s"


def _outcome(call: RecordedCall) -> str:
    if call.response is not None:
        samples = call.response.samples
        more = f" (and {len(samples) - 1} more)" if len(samples) > 1 else ""
        more += f" ({_reused(call)})" if call.response.reused else ""
        more += f" ({_source(call)})" if call.source else ""
        (first, *_) = samples
        text = " ".join([first.text, *map(str, first.tool_calls)]).lstrip()
        return one_line(text, _WIDTH) + more
    if call.error is not None:
        return f"{call.ended_as}: {type(call.error).__name__}: {one_line(str(call.error), _WIDTH)}"
    return call.ended_as or "in flight"


def _source(call: RecordedCall) -> str:
    """The source of an answer that did not come from a backend."""
    of = f" from {call.of}" if call.of and call.of != call.address else ""
    return f"{call.source}{of}"


def _reused(call: RecordedCall) -> str:
    """The share of the answer that came from a cache."""
    assert call.response is not None
    count, of = call.response.reused, len(call.response.samples)
    return "reused" if count == of else f"{count} of {of} reused"


def _whole_tool(used: ToolUse) -> Iterator[str]:
    ended = "failed" if used.has_failed else used.outcome or "in flight"
    yield term_safe(f"{used.address}  {ended}, {_took(used)}")
    yield term_safe(f"  tool     {used.name}, {used.effect}, {used.where or '-'}")
    if used.masked:
        yield term_safe(f"  masked   {', '.join(used.masked)}")
    yield f"\n[arguments]\n{term_safe(used.arguments)}"
    if used.message is not None:
        yield f"\n[{_speaker(used.message)}]\n{term_safe(used.message.shown)}"
    elif used.error is not None:
        yield f"\n[{type(used.error).__name__}]\n{term_safe(str(used.error))}"


def _whole(run: Trace, call: RecordedCall, plain: bool) -> Iterator[str]:
    yield term_safe(f"{call.address}  {run.outcome_of(call)}, {_took(call)}")
    origin = place(call.where) or "-"
    yield term_safe(f"  asked    {origin}, model {call.model or '-'}, {_sampling(call)}")
    if call.response is not None and call.response.model not in ("", call.model):
        yield term_safe(f"  by       {call.response.model}")
    if call.source:
        yield term_safe(f"  source   {_source(call)}")
    yield from _times(call)
    if call.edges:
        yield term_safe(f"  holds    the answers of {', '.join(call.edges)}")
    for attempt in call.attempts:
        if attempt.error is not None:
            yield term_safe(f"  tried    {_attempt(attempt)}")
    if call.cuts or call.shown:
        yield f"  streamed {_chunks(call)}"
    if call.response is not None and call.response.shed:
        shed = ", ".join(call.response.shed)
        yield term_safe(f"  not sent {shed}: another provider gave these fields")
    if call.masked:
        yield term_safe(f"  masked   {', '.join(call.masked)}")
    for message, spans in zip(call.messages or (), call.spans(), strict=True):
        origins = [] if plain or message.media else spans
        one = f" {_origin(origins[0])}" if len(origins) == 1 else ""
        yield f"\n[{_speaker(message)}]{one}"
        if len(origins) < 2 or message.tool_calls:
            yield term_safe(message.shown)
        else:
            yield from _with_origins(message.content, origins)
    yield from _answers(call)
    refused = run.failures.get(call.address)
    if refused is not None:
        yield f"  refused  {one_line(str(refused.error), 400)}"


def _times(call: RecordedCall) -> Iterator[str]:
    parts = [f"{kind} {seconds(took)}" for kind, took in steps.phases(call)]
    if call.ended is not None and call.delivered_at is not None:
        parts.append(f"told the program {seconds(call.delivered_at - call.ended)} later")
    if parts:
        yield f"  times    {', '.join(parts)}"


def _origin(span: Span) -> str:
    """The origin of a part of a prompt: a call, or a source line."""
    return term_safe(span.call or place(span.where)) or "?"


def _with_origins(text: str, spans: list[Span]) -> Iterator[str]:
    """The text with an origin before each line: ``|`` begins a line, ``>`` continues one."""
    names = [_origin(span) for span in spans]
    width = min(max(map(len, names)), _ORIGIN)
    begins = True
    for span, name in zip(spans, names, strict=True):
        shown = name
        for i, line in enumerate(text[span.start : span.end].split("\n")):
            begins = begins or i > 0
            if line:
                sign = "|" if begins else ">"
                yield f"{shown:{width}} {sign} {term_safe(line)}"
                shown, begins = "", False
            elif 0 < i < text.count("\n", span.start, span.end):
                yield f"{'':{width}} |"


def _who(head: Mapping[str, Any]) -> str:
    """The default model; a model of another backend is named with its backend."""
    backend, model = str(head.get("backend") or "?"), str(head.get("model") or "?")
    others = {*(head.get("places") or ()), *(head.get("backends") or ())} - {backend}
    first, slash, rest = model.partition("/")
    own = first == backend and rest.partition("/")[0] in others
    whole = " | " in model or (slash and (own or first in others))
    return model if whole else f"{backend}/{model}"


def _answers(call: RecordedCall) -> Iterator[str]:
    response = call.response
    if response is None:
        begun = "".join(chunk.text for chunk in call.chunks() if chunk.kind == "text")
        if begun:
            yield f"\n[had said]\n{term_safe(begun)}"
        yield f"\n[{_outcome(call)}]"
        return
    used = response.usage
    for sample in response.samples:
        if sample.reasoning:
            yield "\n[reasoning]"
            yield term_safe(sample.reasoning)
        yield f"\n[answer: {term_safe(sample.finish_reason)}]"
        yield term_safe("\n".join([sample.text, *map(str, sample.tool_calls)]).lstrip("\n"))
    yield (
        f"\n  tokens   {known(used.prompt_tokens)} prompt, {known(used.cached_tokens)} of them "
        f"cached, {known(used.completion_tokens)} generated"
    )
    words = [
        (used.written_tokens, "written to the cache"),
        (used.written_1h_tokens, "written to it for an hour"),
        (used.reasoning_tokens, "of reasoning"),
    ]
    more = [f"{count} {word}" for count, word in words if count]
    more += [f"tier {term_safe(used.tier)}"] if used.tier else []
    if response.cache_miss is not None:
        more.append(f"cache not read: {term_safe(response.cache_miss)}")
    if more:
        yield f"  billed   {', '.join(more)}"


def _attempt(failed: Attempt) -> str:
    error = one_line(f"{type(failed.error).__name__}: {failed.error}", _WIDTH)
    return (
        f"in vain, attempt {failed.number}: {error}; again after {(failed.wait or 0) / 1e6:.2f} s"
    )


def _chunks(call: RecordedCall) -> str:
    count = len(call.cuts) or call.shown[-1][1]
    return "in 1 chunk" if count == 1 else f"in {count} chunks"


def _speaker(message: Message) -> str:
    """The role of a message, with its name and the call that it answers."""
    of = f", answers {message.tool_call_id}" if message.tool_call_id else ""
    failed = ", failed" if message.has_error else ""
    name, fields = f" {message.name}" if message.name else "", message.provider_fields
    more = f", with {', '.join(fields.names)}" if fields is not None else ""
    return term_safe(f"{message.role}{name}{of}{failed}{more}")


def _sampling(call: RecordedCall) -> str:
    return options_shown(sampling.parameters(call.sampling)) or "no options"
