"""``appl trace show``: what was recorded, for a human or as JSON.

Invariant: only reads. Text of a trace reaches the terminal through ``term_safe`` alone.
"""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from appl.cli.failure import guarded
from appl.cli.target import UsageError
from appl.cli.terminal import as_json, columns, one_line, out, term_safe
from appl.cli.trace.named import run_path
from appl.errors import nearest
from appl.prompt import Message
from appl.runtime.rendering import options_shown
from appl.tracing import Attempt, Call, ToolUse, Trace

_WIDTH = 60


def add(commands: Any) -> None:
    """Add the command to those of ``appl trace``."""
    parser = commands.add_parser(
        "show",
        help="show a run, or one of its calls",
        description="Show a run as the tree of its calls, or one call with its whole prompt and "
        "answer. RUN is a path, the beginning of a run's name, or 'last'.",
    )
    parser.add_argument("names", nargs="*", metavar="[RUN] [CALL]", help="CALL begins with a slash")
    parser.add_argument("--json", action="store_true", help="print one JSON document and no more")
    parser.add_argument("--salvage", action="store_true", help="show what is before the damage")
    parser.set_defaults(command=command)


def command(given: argparse.Namespace) -> int:
    """Show a run or a call; the exit code."""
    with guarded(given.json) as failure:
        run, address = _names(given.names)
        trace = Trace.open(run_path(run), salvage=given.salvage)
        if address:
            call = _call(trace, address)
            whole = _whole(call) if isinstance(call, Call) else _whole_tool(call)
            out(as_json(call.as_data(), indent=2) if given.json else "\n".join(whole))
        elif given.json:
            out(as_json(trace.as_data(), indent=2))
        else:
            out("\n".join(_run_lines(trace)))
    return failure.code


def _names(names: list[str]) -> tuple[str, str | None]:
    """RUN and CALL; a lone word that begins with a slash and is no file is a call."""
    if len(names) > 2:
        raise UsageError("write appl trace show [RUN] [CALL]")
    if len(names) == 2:
        return names[0], names[1]
    if names and names[0].startswith("/") and not Path(names[0]).is_file():
        return "last", names[0]
    return (names[0] if names else "last"), None


def _call(trace: Trace, address: str) -> Call | ToolUse:
    call = trace.by_address.get(address) or trace.tools.get(address)
    if call is None:
        hint = nearest(address, [*trace.by_address, *trace.tools])
        raise UsageError(f"{trace.path.name} has no call {address!r}{hint}")
    return call


def _run_lines(trace: Trace) -> Iterator[str]:
    head, totals = trace.header, trace.totals().as_data()
    began = trace.began()
    when = f"{began:%Y-%m-%d %H:%M:%S} UTC" if began else "at an unknown time"
    yield term_safe(f"{trace.path.stem}: {_state(trace)}, {when}, {trace.seconds():.1f} s")
    yield term_safe(f"  program  {_program(head)}")
    yield term_safe(
        f"  answers  {_who(head)}, seed {head.get('seed')}, git {head.get('git') or '-'}"
    )
    yield f"  calls    {_sums(totals)}"
    if trace.tools:
        failed = sum(1 for used in trace.tools.values() if used.message and used.message.has_error)
        yield f"  tools    {len(trace.tools)} called" + (f", {failed} failed" if failed else "")
    if trace.torn:
        yield "  note     the end of the file was torn; what is shown is all that was committed"
    for warning in trace.warnings:
        yield f"  warning  {one_line(str(warning), 200)}"
    yield ""
    every: list[Call | ToolUse] = [*trace.calls, *trace.tools.values()]
    every.sort(key=lambda each: each.position)
    yield from columns([_row_of(each) for each in every])


def _state(trace: Trace) -> str:
    return (trace.reason or "finished") if trace.state == "finished" else str(trace.state)


def _program(head: dict[str, Any]) -> str:
    entry = head.get("entry")
    if not isinstance(entry, dict):
        return str(head.get("program", "?"))
    function = f":{entry['function']}" if entry.get("function") else ""
    words = shlex.join(str(word) for word in entry.get("argv") or ())
    return f"{entry.get('file') or entry.get('kind')}{function} {words}".strip()


def _sums(totals: dict[str, Any]) -> str:
    tokens = totals.get("tokens", totals)
    named = [
        f"{tokens[key]} {word}"
        for key, word in (
            ("prompt_tokens", "prompt tokens"),
            ("cached_tokens", "of them cached"),
            ("completion_tokens", "generated"),
        )
        if isinstance(tokens, dict) and tokens.get(key) is not None
    ]
    counts = [
        f"{totals[key]} {key}"
        for key in ("answered", "failed", "cancelled", "reused")
        if totals.get(key)
    ]
    return "; ".join([", ".join(counts) or "none", ", ".join(named)])


def _row_of(call: Call | ToolUse) -> tuple[str, ...]:
    outcome = _outcome(call) if isinstance(call, Call) else _tool_outcome(call)
    return call.address, _took(call), outcome


def _took(call: Call | ToolUse) -> str:
    if call.started is None or call.ended is None:
        return "-"
    return f"{(call.ended - call.started) / 1e6:.2f} s"


def _outcome(call: Call) -> str:
    if call.response is not None:
        samples = call.response.samples
        more = f" (and {len(samples) - 1} more)" if len(samples) > 1 else ""
        more += f" ({_reused(call)})" if call.response.reused else ""
        (first, *_) = samples
        text = " ".join([first.text, *map(str, first.tool_calls)]).lstrip()
        return one_line(text, _WIDTH) + more
    if call.error is not None:
        return f"{call.outcome}: {type(call.error).__name__}: {one_line(str(call.error), _WIDTH)}"
    return call.outcome or "in flight"


def _reused(call: Call) -> str:
    """How much of the answer a cache gave."""
    assert call.response is not None
    count, of = call.response.reused, len(call.response.samples)
    return "reused" if count == of else f"{count} of {of} reused"


def _tool_outcome(used: ToolUse) -> str:
    call = one_line(f"{used.name}({used.arguments})", _WIDTH)
    if used.message is not None:
        failed = "failed: " if used.message.has_error else ""
        return f"{call} -> {failed}{one_line(used.message.shown, _WIDTH)}"
    if used.error is not None:
        return f"{call} {used.outcome}: {one_line(str(used.error), _WIDTH)}"
    return f"{call} in flight"


def _whole_tool(used: ToolUse) -> Iterator[str]:
    yield term_safe(f"{used.address}  {used.outcome or 'in flight'}, {_took(used)}")
    yield term_safe(f"  tool     {used.name}, {used.effect}, {used.where or '-'}")
    if used.masked:
        yield term_safe(f"  masked   {', '.join(used.masked)}")
    yield f"\n[arguments]\n{term_safe(used.arguments)}"
    if used.message is not None:
        yield f"\n[{_speaker(used.message)}]\n{term_safe(used.message.shown)}"
    elif used.error is not None:
        yield f"\n[{type(used.error).__name__}]\n{term_safe(str(used.error))}"


def _whole(call: Call) -> Iterator[str]:
    yield term_safe(f"{call.address}  {call.outcome or 'in flight'}, {_took(call)}")
    yield term_safe(f"  asked    {call.where or '-'}, model {call.model or '-'}, {_sampling(call)}")
    if call.response is not None and call.response.model not in ("", call.model):
        yield term_safe(f"  by       {call.response.model}")
    if call.edges:
        yield term_safe(f"  holds    the answers of {', '.join(call.edges)}")
    for each in call.attempts:
        if each.error is not None:
            yield term_safe(f"  tried    {_attempt(each)}")
    if call.cuts or call.shown:
        yield f"  streamed {_chunks(call)}"
    if call.masked:
        yield term_safe(f"  masked   {', '.join(call.masked)}")
    for message in call.messages or ():
        yield f"\n[{_speaker(message)}]"
        yield term_safe(message.shown)
    yield from _answers(call)


def _who(head: Mapping[str, Any]) -> str:
    """Who answers where a call says nothing else; a model elsewhere names its backend itself."""
    backend, model = str(head.get("backend") or "?"), str(head.get("model") or "?")
    elsewhere = model.partition("/")[0] in (backend, *(head.get("places") or ()))
    return model if head.get("places") and elsewhere else f"{backend}/{model}"


def _answers(call: Call) -> Iterator[str]:
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
        f"\n  tokens   {_count(used.prompt_tokens)} prompt, {_count(used.cached_tokens)} of them "
        f"cached, {_count(used.completion_tokens)} generated"
    )


def _attempt(failed: Attempt) -> str:
    error = one_line(f"{type(failed.error).__name__}: {failed.error}", _WIDTH)
    return (
        f"in vain, attempt {failed.number}: {error}; again after {(failed.wait or 0) / 1e6:.2f} s"
    )


def _chunks(call: Call) -> str:
    count = len(call.cuts) or call.shown[-1][1]
    return "in 1 chunk" if count == 1 else f"in {count} chunks"


def _speaker(message: Message) -> str:
    """The role, with what tells its messages apart."""
    of = f", answers {message.tool_call_id}" if message.tool_call_id else ""
    failed = ", failed" if message.has_error else ""
    name = f" {message.name}" if message.name else ""
    return term_safe(f"{message.role}{name}{of}{failed}")


def _count(tokens: int | None) -> str:
    return "?" if tokens is None else str(tokens)


def _sampling(call: Call) -> str:
    return options_shown(json.loads(call.sampling)) or "no options"
