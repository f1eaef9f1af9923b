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
def command(given: Options) -> int | None:
    """Look at live runs; pause, resume, cancel, set limits.

    Shows your live runs and what their calls and programs wait for, and acts on them over a socket
    of this machine that only you can open. A run can be reached from its first call on if it is
    recorded or the setting `ctl` is on. Without a command, lists the live runs.
    """
    context = click.get_current_context()
    return context.invoke(ls, **vars(given)) if context.invoked_subcommand is None else None


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
def ls(given: Options) -> None:
    """List the live runs (the default)."""
    _shows(given, _runs, _list_lines)


@appl_command("show", cls=_Own, under=command, example="appl ctl show last --watch")
@_run
@option("--limit", type=int, default=100, metavar="N", help="most calls")
@switch("--content", help="show the ends of prompts and answers, secrets masked")
@parameters.as_json
@_watch
def show(given: Options) -> None:
    """Show a run's calls and programs, and why they wait."""
    if given.limit < 0:
        raise UsageError(f"--limit is a number of calls, got {given.limit}")
    live = _control().find(_run_of(given))

    def look() -> Any:
        return _control().ask(live.path, "show", limit=given.limit, content=given.content)

    _shows(given, look, view_lines)


def _runs() -> list[dict[str, object]]:
    found = []
    for live in _control().live_runs():
        error = {"error": live.error} if live.error else {}
        found.append({"run": live.name, **live.about, **error})
    return found


def _shows(
    given: Options, look: Callable[[], object], lines: Callable[[Any], Iterator[str]]
) -> None:
    """Show the result of *look*, once or, with ``--watch``, as long as there is one."""
    if not given.watch:
        found = look()
        out(as_json(found) if given.json else "\n".join(lines(found)))
    elif given.json or not sys.stdout.isatty():
        for found in _again(look):
            out(as_json(found) if given.json else "\n".join([*lines(found), ""]))
    else:
        _live(look, lines)


def _again(look: Callable[[], object]) -> Iterator[object]:
    """Yield each new result of *look* until the run is gone."""
    last: object = None
    while True:
        try:
            found = look()
        except ControlError as error:
            if last is None or error.kind not in ("no-run", "over", "not-yours"):
                raise
            return
        if found != last:
            yield found
        last = found
        if not found:
            return
        time.sleep(_EVERY_S)


def _live(look: Callable[[], object], lines: Callable[[object], Iterator[str]]) -> None:
    """Show the results on a terminal, in place."""
    from rich.live import Live  # only a live display needs it
    from rich.text import Text  # only a live display needs it

    with Live(auto_refresh=False, vertical_overflow="ellipsis") as screen:
        for found in _again(look):
            screen.update(Text("\n".join(lines(found)), overflow="ellipsis", no_wrap=True))
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
def pause(given: Options) -> None:
    """Send no more calls; calls that were sent continue."""
    _turned(given, "pause")


@appl_command("resume", cls=_Own, under=command)
@_run
@parameters.as_json
def resume(given: Options) -> None:
    """Send calls again."""
    _turned(given, "resume")


def _turned(given: Options, word: str) -> None:
    found = _reply(given, word)
    going = found["sent"] if found["state"] == "paused" else 0
    their = "its" if going == 1 else "their"
    still = f"; {counted(going, 'call')} on {their} way still" if going else ""
    _report(given, found, f"{found['run']}: {found['state']}{still}")


def _run_of(given: Options) -> str | None:
    """The name of the run, from the argument or the option."""
    name: str | None = given.run or getattr(given, "which", None)
    return name


@appl_command("cancel", cls=_Own, under=command, example="appl ctl cancel /main.0/gen.3")
@argument("call", metavar="CALL", help="an address, as show prints it")
@_run_option
@parameters.as_json
def cancel(given: Options) -> None:
    """End a call, a function, or all calls below an address."""
    found = _reply(given, "cancel", at=given.call)
    later = "; it takes effect when the record is used up" if found["when"] == "later" else ""
    calls = found.get("calls", ())
    sentence = f"cancelled {', '.join(calls[:8])}" + (", …" if len(calls) > 8 else "")
    if found["cancelled"] == "function":
        sentence = f"{found['at']} ends where it waits"
    _report(given, found, sentence + later)


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
def set_limit(given: Options) -> None:
    """Change a limit of a run: its concurrency, or its budget."""
    if given.what == "budget":
        found = _reply(given, "budget", **_amounts(given.values))
        _report(given, found, _budget_told(found))
        return
    wanted = _concurrency(given.values)
    found = _reply(given, "concurrency", most=wanted)
    limits = found["concurrency"].items()
    _report(given, found, ", ".join(_at_once(at, most, wanted) for at, most in limits))


def _reply(given: Options, do: str, **fields: object) -> Any:
    """The reply of the run to a request."""
    return _control().ask(_control().find(_run_of(given)).path, do, **fields)


def _report(given: Options, reply: object, sentence: str) -> None:
    if given.json:
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
    found: dict[str, Any] = {}
    for assignment in values:
        name, _, value = assignment.partition("=")
        try:
            found[name] = None if value == "none" else _amount(name, value)
        except (KeyError, ValueError):
            raise UsageError(
                f"write calls=N, tokens=N or cost=X (none for no limit), got {assignment!r}"
            ) from None
    return found


def _amount(name: str, text: str) -> float:
    amount = _AMOUNTS[name](text)
    if not 0 <= amount < math.inf:
        raise ValueError(text)
    return amount


def _budget_told(found: Any) -> str:
    limits = found["budget"]["limits"].items()
    text = ", ".join(f"{name} {most:g}" for name, most in limits if most is not None)
    from_now = "; counted from now on" if found["counts_from_now"] else ""
    return f"budget: {text or 'none'}{from_now}"


def _control() -> ModuleType:
    from appl.parts.control import client  # only a run that is looked at from outside needs it

    return client
