"""``appl serve FILE:FUNCTION``: functions of a program behind HTTP and MCP."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from appl.base.extras import needed
from appl.cli import overrides
from appl.cli.commands import Options, appl_command, argument, combined, option, switch
from appl.cli.exits import OK, USAGE
from appl.cli.overrides import budget_of, settings
from appl.cli.parameters import late
from appl.cli.serve import ADMIN_VARIABLE, KEY_VARIABLE, network, number, start_error
from appl.cli.target import Target, UsageError, load, load_module, parse
from appl.cli.terminal import counted, out, say
from appl.config.schedule import TABLES
from appl.errors import MissingExtra

if TYPE_CHECKING:
    from types import ModuleType

    from appl.parts.serving.execution import RunSettings
    from appl.parts.serving.functions import ServedFunction
    from appl.parts.serving.process import Ready
    from appl.parts.serving.runs import RunLimits

_SETTINGS = (*overrides.SETTINGS, "home")
_RUNS, _MCP = "Runs", "MCP"
_EPILOG = """\
A file alone stands for all prompt functions that it defines, but those that begin with `_`. The
server listens on this machine alone unless --host says otherwise, and asks for a key, which is
drawn at random unless --api-key or APPL_SERVE_API_KEY gives one. /docs describes what it serves.
"""
_runs = combined(
    number("--max-running", 64, "runs that go on at once", _RUNS),
    number("--max-queued", 1024, "runs that may wait; more are refused with 503", _RUNS),
    option(
        "--budget",
        multiple=True,
        metavar="LIMIT=AMOUNT",
        section=_RUNS,
        help="most that all requests together may take: cost, tokens or calls, as in cost=20",
    ),
    number(
        "--grace", 30.0, "seconds that runs have to end when the server stops", _RUNS, "SECONDS"
    ),
    number("--keep", 7.0, "days for which results are kept", _RUNS, "DAYS"),
)


@appl_command(
    "FILE",
    epilog=_EPILOG,
    example="appl serve program.py:ask\nappl serve program.py --port 8000 --max-running 200\n"
    "appl serve program.py:ask --mcp",
)
@argument(
    "targets",
    nargs=-1,
    required=True,
    metavar="FILE[:FUNCTION]",
    help="a function, or a file with all its prompt functions",
    shell_complete=late("targets"),
)
@network("key for answers to questions, and for runs that failed")
@_runs
@settings(_SETTINGS, "Settings of the runs")
@switch("--mcp", section=_MCP, help="speak MCP over standard input and output, and no HTTP")
@switch("--mcp-http", section=_MCP, help="serve MCP at /mcp, too")
@switch("--json", help="print the line as JSON")
@switch("--until-eof", help="stop when standard input ends as well")
def command(given: Options) -> int:
    """Serve functions over HTTP: JSON in and out, events, OpenAI's interface, MCP.

    Each request is a recorded run of its own, whose name stands in the header Appl-Run. A server
    that was killed goes on with its runs when it is started again, and asks nothing twice.
    """
    _take_earlier(given)
    try:
        with needed("serve", "`appl serve FILE`"):
            from appl.parts.serving import process  # only a program that is served needs it
    except MissingExtra as error:
        say(f"appl: {error}")
        return USAGE
    from appl.parts.web.keys import Keys

    keys = Keys.of(
        given.api_key or os.environ.get(KEY_VARIABLE),
        given.admin_key or os.environ.get(ADMIN_VARIABLE),
    )
    network = process.Network(
        given.host,
        given.port,
        given.allow_host,
        given.max_body,
        given.grace,
        until_eof=given.until_eof,
        mcp=given.mcp_http,
    )
    if not given.mcp:
        process.check_keys(network, keys)
    _common(given)  # settings that lack approval are refused before anything is imported
    limits = _limits(given)
    functions = _functions(given.targets)
    common = _common(given)  # the program may have set some with `appl.init`
    try:
        if given.mcp:
            from appl.parts.serving import mcp_server  # only `--mcp` needs it

            asyncio.run(mcp_server.serve_stdio(functions, common, limits, network.grace_s))
        else:
            ready = _ready(given, functions)
            asyncio.run(
                process.serve(functions, common, keys, ready, limits=limits, network=network)
            )
    except (OSError, OverflowError, MissingExtra) as error:
        say(f"appl serve: {start_error(error, given)}")
        return USAGE
    return OK


def _take_earlier(given: Options) -> None:
    """Take the options that stand before the program, where ``serve`` reads them."""
    context = click.get_current_context()
    around = context.parent
    assert around is not None, "it stands under serve"
    for name in around.params:
        if around.get_parameter_source(name) is not click.core.ParameterSource.COMMANDLINE:
            continue
        if not hasattr(given, name):
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(f"{flag} is for the embedded model, not for functions of a file")
        if context.get_parameter_source(name) is not click.core.ParameterSource.COMMANDLINE:
            setattr(given, name, around.params[name])


def _functions(targets: tuple[str, ...]) -> list[ServedFunction]:
    """The functions that *targets* name. Raises ``UsageError``, ``NotServable``."""
    from appl.parts.serving.functions import functions_of, served_function

    found: dict[str, ServedFunction] = {}
    modules: dict[str, ModuleType] = {}
    for text in targets:
        _, colon, name = text.rpartition(":")
        target = parse(text) if colon else Target(text, "")
        file = str(target.entry(()).file)
        if file not in modules:
            modules[file] = load_module(target)
        if colon:
            function = load(target, to_call=True, module=modules[file])
            named = {name.rpartition(".")[2]: function}
        else:
            named = functions_of(modules[file])
            if not named:
                raise UsageError(
                    f"{text} defines no prompt function (@ppl); name a function, as {text}:main"
                )
        for name, function in named.items():
            if name in found and found[name].function is not function:
                raise UsageError(f"two functions are called {name}: serve one of them by another")
            found[name] = served_function(name, function, file, target.function or name)
    return list(found.values())


def _common(given: Options) -> RunSettings:
    from appl.parts.serving.execution import CommonAccount, RunSettings, served_config
    from appl.runtime.scheduling.policy import Allowance

    named = {name: getattr(given, name) for name in _SETTINGS}
    written = {name: value for name, value in named.items() if value is not None}
    limits = budget_of(given).get("budget")
    account = None
    if isinstance(limits, dict):
        amounts: dict[str, Any] = {
            name: TABLES["budget"][name].read(text) for name, text in limits.items()
        }
        account = CommonAccount(Allowance(**amounts))
    return RunSettings(served_config(written), written, account)


def _limits(given: Options) -> RunLimits:
    from appl.parts.serving.runs import RunLimits

    if given.max_running < 1 or given.max_queued < 0:
        raise UsageError("--max-running is at least 1, --max-queued at least 0")
    if not (given.grace >= 0 and given.keep >= 0):
        raise UsageError("--grace and --keep are at least 0")
    return RunLimits(given.max_running, given.max_queued, given.keep * 86400.0)


def _ready(given: Options, functions: list[ServedFunction]) -> Callable[[Ready], None]:
    own = {given.api_key, given.admin_key}
    own |= {os.environ.get(KEY_VARIABLE), os.environ.get(ADMIN_VARIABLE)}

    def ready(server: Ready) -> None:
        names = [function.name for function in functions]
        if given.json:
            keys = {"api_key": server.keys.api, "admin_key": server.keys.admin}
            facts = {"ready": True, "url": server.url, **keys, "functions": names}
            out(json.dumps({**facts, "resumed": server.adopted, "pid": os.getpid()}))
        else:
            named = {"api-key": server.keys.api, "admin-key": server.keys.admin}
            drawn = [f"{name}={key}" for name, key in named.items() if key and key not in own]
            out("  ".join([f"ready {server.url}", *drawn]))
            say(f"appl: serving {', '.join(names)}; {server.url}/docs shows how to call them")
            if server.adopted:
                say(f"appl: going on with {counted(server.adopted, 'run')} of an earlier server")
        sys.stdout.flush()

    return ready
