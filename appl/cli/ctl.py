"""``appl ctl``: look at live runs and act on them, from another terminal.

Invariant: text from a run is not trusted by the terminal. With ``--json``, stdout holds JSON
documents and nothing else.
"""

from __future__ import annotations

import math
import re
import sys
import time
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import click

from appl.cli import parameters
from appl.cli.commands import (
    Command,
    Group,
    Options,
    WordChoice,
    appl_command,
    argument,
    combined,
    option,
    switch,
)
from appl.cli.target import UsageError
from appl.cli.terminal import as_json, columns, counted, one_line, out, say, term_safe
from appl.errors import ControlError

_EVERY_S = 1.0
_RUN = "the beginning of a live run's name, what follows its time stamp, its process, or last"
_AMOUNTS: dict[str, Callable[[str], float]] = {"calls": int, "tokens": int, "cost": float}
_watch = switch("--watch", help="go on showing it, each second, until it is over")
_run = combined(  # by position, or by the option that other commands have
    argument("run", required=False, metavar="RUN", help=_RUN),
    option("--run", "which", metavar="RUN", hidden=True),
)
_run_option = option("--run", metavar="RUN", help=_RUN)


@appl_command("ctl", cls=Group, aliases={"list": "ls"}, example="appl ctl show last --watch")
@parameters.as_json
@_watch
def command(options: Options) -> int | None:
    """Look at live runs; pause, resume, cancel, set limits.

    Shows your live runs and what their calls and programs wait for, and acts on them over a socket
    of this machine that only you can open. A run can be reached from its first call on if it is
    recorded or the setting `ctl` is on. Without a command, lists the live runs.
    """
    context = click.get_current_context()
    return context.invoke(ls, **vars(options)) if context.invoked_subcommand is None else None


class _Own(Command):
    """A command of ``appl ctl``, which also takes the switches given before its name."""

    def invoke(self, ctx: click.Context) -> object:
        """Run the command."""
        before = ctx.parent.params if ctx.parent is not None else {}
        for name in before.keys() & ctx.params.keys():
            ctx.params[name] = ctx.params[name] or before[name]
        return super().invoke(ctx)


# -- looking


@appl_command("ls", cls=_Own, under=command)
@parameters.as_json
@_watch
def ls(options: Options) -> None:
    """List the live runs (the default)."""
    _shows(options, _runs, _list_lines)


@appl_command("show", cls=_Own, under=command, example="appl ctl show last --watch")
@_run
@option("--limit", type=int, default=100, metavar="N", help="most calls")
@switch("--content", help="show the ends of prompts and answers, secrets masked")
@parameters.as_json
@_watch
def show(options: Options) -> None:
    """Show a run's calls and programs, and why they wait."""
    if options.limit < 0:
        raise UsageError(f"--limit is a number of calls, got {options.limit}")
    live = _control().find(_run_of(options))

    def look() -> Any:
        return _control().ask(live.path, "show", limit=options.limit, content=options.content)

    _shows(options, look, view_lines)


def _runs() -> list[dict[str, object]]:
    entries = []
    for live in _control().live_runs():
        error = {"error": live.error} if live.error else {}
        entries.append({"run": live.name, **live.about, **error})
    return entries


def _shows(
    options: Options, look: Callable[[], object], lines: Callable[[Any], Iterator[str]]
) -> None:
    """Show the result of *look*, once or, with ``--watch``, as long as there is one."""
    if not options.watch:
        result = look()
        out(as_json(result) if options.json else "\n".join(lines(result)))
    elif options.json or not sys.stdout.isatty():
        for result in _again(look):
            out(as_json(result) if options.json else "\n".join([*lines(result), ""]))
    else:
        _live(look, lines)


def _again(look: Callable[[], object]) -> Iterator[object]:
    """Yield each new result of *look* until the run is gone."""
    last: object = None
    while True:
        try:
            result = look()
        except ControlError as error:
            if last is None or error.kind not in ("no-run", "over", "not-yours"):
                raise
            return
        if result != last:
            yield result
        last = result
        if not result:
            return
        time.sleep(_EVERY_S)


def _live(look: Callable[[], object], lines: Callable[[object], Iterator[str]]) -> None:
    """Show the results on a terminal, in place."""
    from rich.live import Live  # only a live display needs it
    from rich.text import Text  # only a live display needs it

    with Live(auto_refresh=False, vertical_overflow="ellipsis") as screen:
        for result in _again(look):
            screen.update(Text("\n".join(lines(result)), overflow="ellipsis", no_wrap=True))
            screen.refresh()


def _list_lines(runs: list[dict[str, Any]]) -> Iterator[str]:
    if not runs:
        yield "no run is live"
        return
    from appl.parts.control import words  # only a run that is looked at from outside needs it

    rows = [("run", "process", "state", "calls")]
    for run in runs:
        state = str(run.get("state", "-"))
        rows.append((run["run"], str(run.get("pid")), state, run.get("error") or words.counts(run)))
    yield from columns(rows)


def view_lines(view: dict[str, Any]) -> Iterator[str]:
    """Yields the lines that show a *view* of a live run."""
    from appl.parts.control import words  # only a run that is looked at from outside needs it

    yield from (term_safe(line) for line in words.head(view))
    calls, backends = view.get("calls") or [], view.get("backends") or []
    if calls:
        yield ""
        rows = [
            (c["call"], words.source(c), one_line(words.reason(c, backends), 200)) for c in calls
        ]
        for call, row in zip(calls, columns(rows), strict=True):
            yield row
            yield from _content(call)
    more = view.get("more") or {}
    if more.get("calls"):
        yield f"… and {counted(more['calls'], 'call')} more (--limit)"
    programs = view.get("programs") or []
    if programs:
        yield ""
        yield from columns((words.program(p), words.source(p)) for p in programs)
    if more.get("programs"):
        yield f"… and {counted(more['programs'], 'program')} more (--limit)"
    if view.get("content") == "redacted":
        yield "the run is recorded without its texts, so none is shown"


def _content(call: dict[str, Any]) -> Iterator[str]:
    for key in ("prompt", "answer"):
        if call.get(key):
            yield f"    {key}: {one_line(call[key], 200)}"


# -- doing


@appl_command("pause", cls=_Own, under=command)
@_run
@parameters.as_json
def pause(options: Options) -> None:
    """Send no more calls; calls that were sent continue."""
    _turned(options, "pause")


@appl_command("resume", cls=_Own, under=command)
@_run
@parameters.as_json
def resume(options: Options) -> None:
    """Send calls again."""
    _turned(options, "resume")


def _turned(options: Options, word: str) -> None:
    reply = _reply(options, word)
    going = reply["sent"] if reply["state"] == "paused" else 0
    their = "its" if going == 1 else "their"
    still = f"; {counted(going, 'call')} on {their} way still" if going else ""
    _report(options, reply, f"{reply['run']}: {reply['state']}{still}")


def _run_of(options: Options) -> str | None:
    """The name of the run, from the argument or the option."""
    name: str | None = options.run or getattr(options, "which", None)
    return name


@appl_command("cancel", cls=_Own, under=command, example="appl ctl cancel /main.0/gen.3")
@argument("call", metavar="CALL", help="an address, as show prints it")
@_run_option
@parameters.as_json
def cancel(options: Options) -> None:
    """End a call, a function, or all calls below an address."""
    reply = _reply(options, "cancel", at=options.call)
    later = "; it takes effect when the record is used up" if reply["when"] == "later" else ""
    calls = reply.get("calls", ())
    sentence = f"cancelled {', '.join(calls[:8])}" + (", …" if len(calls) > 8 else "")
    if reply["cancelled"] == "function":
        sentence = f"{reply['at']} ends where it waits"
    _report(options, reply, sentence + later)


@appl_command(
    "set",
    cls=_Own,
    under=command,
    example="appl ctl set concurrency 4\nappl ctl set budget cost=2 calls=none",
)
@argument(
    "what",
    metavar="LIMIT",
    type=WordChoice(("concurrency", "budget")),
    help="concurrency or budget",
)
@argument(
    "values",
    nargs=-1,
    required=True,
    metavar="VALUE",
    help="N; or calls=N, tokens=N, cost=X (none for no limit)",
)
@_run_option
@parameters.as_json
def set_limit(options: Options) -> None:
    """Change a limit of a run: its concurrency, or its budget."""
    if options.what == "budget":
        reply = _reply(options, "budget", **_amounts(options.values))
        limits = reply["budget"]["limits"].items()
        text = ", ".join(f"{name} {most:g}" for name, most in limits if most is not None)
        from_now = "; counted from now on" if reply["counts_from_now"] else ""
        _report(options, reply, f"budget: {text or 'none'}{from_now}")
        return
    wanted = _concurrency(options.values)
    reply = _reply(options, "concurrency", most=wanted)
    limits = reply["concurrency"].items()
    _report(options, reply, ", ".join(_at_once(at, most, wanted) for at, most in limits))


def _reply(options: Options, do: str, **fields: object) -> Any:
    """The reply of the run to a request."""
    return _control().ask(_control().find(_run_of(options)).path, do, **fields)


def _report(options: Options, reply: object, sentence: str) -> None:
    if options.json:
        out(as_json(reply))
    else:
        say(f"appl: {sentence}", sys.stdout)


def _concurrency(values: list[str]) -> int:
    if len(values) != 1 or not re.fullmatch("[0-9]{1,18}", values[0]) or not int(values[0]):
        got = " ".join(values)
        raise UsageError(f"write appl ctl set concurrency N, a number from 1 on, got {got!r:.80}")
    return int(values[0])


def _at_once(backend: str, most: int, wanted: int) -> str:
    text = f"{backend}: at most {most} at once"
    return text if most == wanted else f"{text}, as many as it takes"


def _amounts(values: list[str]) -> dict[str, object]:
    amounts: dict[str, Any] = {}
    for assignment in values:
        name, _, value = assignment.partition("=")
        try:
            amounts[name] = None if value == "none" else _AMOUNTS[name](value)
            if not 0 <= (amounts[name] or 0) < math.inf:
                raise ValueError(value)
        except (KeyError, ValueError):
            raise UsageError(
                f"write calls=N, tokens=N or cost=X (none for no limit), got {assignment!r}"
            ) from None
    return amounts


def _control() -> ModuleType:
    from appl.parts.control import client  # only a run that is looked at from outside needs it

    return client
