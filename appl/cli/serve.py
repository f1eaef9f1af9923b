"""``appl serve``: functions, the embedded engine, or a supervised SGLang behind HTTP."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from appl.cli.commands import (
    F,
    Group,
    Options,
    WordChoice,
    appl_command,
    argument,
    combined,
    option,
    switch,
)
from appl.cli.exits import OK, USAGE
from appl.cli.terminal import out, say
from appl.errors import ApplError, MissingExtra

if TYPE_CHECKING:
    from appl_backends.embedded.server import Address

KEY_VARIABLE, ADMIN_VARIABLE = "APPL_SERVE_API_KEY", "APPL_SERVE_ADMIN_KEY"
_ENGINE = ("weights", "cache", "max_batch", "chunk", "cache_tokens", "row_tokens", "threads")
_EPILOG = f"""\
The server listens on this machine alone unless --host says otherwise, and asks for a key, which is
drawn at random unless --api-key or {KEY_VARIABLE} gives one. It prints one line when it is
ready, with the keys that it has drawn (as JSON, with all), and stops on SIGTERM, Ctrl-C and POST
/shutdown.

`appl serve sglang --help` starts and supervises an SGLang server instead.
`appl serve FILE --help` tells of functions that are served.
"""


class ServeGroup(Group):
    """The group ``serve``, in which a program stands for the command that serves it."""

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """The command *name*, or the one that serves the program of that name."""
        if not _is_program(name):
            return super().get_command(ctx, name)
        from appl.cli import serve_program  # only a program that is served needs it

        return serve_program.command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command at the beginning of *args*, and the words after it."""
        if _is_program(args[0]):
            return "FILE", self.get_command(ctx, args[0]), args
        return super().resolve_command(ctx, args)


def _is_program(word: str) -> bool:
    return ".py" in word or ":" in word


_NETWORK, _SIZES = "Network", "Engine"


def number(name: str, default: float, text: str, section: str, unit: str = "N") -> Callable[[F], F]:
    """An option that takes a number of the type of *default*."""
    kind = type(default)
    return option(name, type=kind, default=default, metavar=unit, help=text, section=section)


def network(admin: str, *more: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a server's address, keys and limits; *admin* says what its second key is for.

    *more* options stand among them.
    """
    return combined(
        option("--host", default="127.0.0.1", section=_NETWORK, help="address to listen on"),
        number("--port", 0, "port; 0: a free one", _NETWORK),
        option("--api-key", metavar="KEY", section=_NETWORK, help="key to ask for; 'none': no key"),
        option("--admin-key", metavar="KEY", section=_NETWORK, help=admin),
        *more,
        number("--max-body", 2 << 20, "size of a request", _NETWORK, "BYTES"),
        option(
            "--allow-host",
            multiple=True,
            metavar="NAME",
            section=_NETWORK,
            help="a name under which requests may address the server; may be repeated",
        ),
    )


_network = combined(
    network(
        "key for /flush_cache, /shutdown and abort_all",
        number("--max-queued", 1024, "samples that may wait; more are refused with 503", _NETWORK),
    ),
    switch(
        "--incremental-streaming-output",
        section=_NETWORK,
        help="native streams send what is new instead of all so far",
    ),
)
_engine = combined(
    option("--weights", metavar="DIR", section=_SIZES, help="folder of a model (default: ours)"),
    option(
        "--cache",
        type=WordChoice(("radix", "naive")),
        default="radix",
        section=_SIZES,
        help="prefix cache",
    ),
    number("--max-batch", 32, "sequences that run at once", _SIZES),
    number("--chunk", 256, "prompt tokens computed in one step", _SIZES),
    number("--cache-tokens", 16384, "tokens that the prefix cache holds", _SIZES),
    number("--row-tokens", 16384, "tokens of all running sequences", _SIZES),
    number("--threads", 1, "BLAS threads", _SIZES),
)


@appl_command(
    "serve",
    cls=ServeGroup,
    subcommand_metavar="[FILE[:FUNCTION] … | sglang …]",
    epilog=_EPILOG,
    example="appl serve program.py:ask\nappl serve --port 8000\nappl serve sglang --model "
    "Qwen/Qwen3-8B",
)
@_network
@_engine
@switch("--json", help="print the line as JSON")
@switch("--until-eof", help="stop when standard input ends as well")
def command(options: Options) -> int:
    """Put functions of a file, or the embedded model, behind HTTP.

    With FILE or FILE:FUNCTION it serves these functions, as JSON, as events, to OpenAI's clients
    and as MCP tools. Without, it serves the embedded model with SGLang's and OpenAI's interfaces.
    """
    return serve(options) if click.get_current_context().invoked_subcommand is None else OK


@appl_command(
    "sglang",
    under=command,
    add_help_option=False,  # every word after it is the launcher's
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@argument("rest", nargs=-1, type=click.UNPROCESSED)
def sglang(options: Options) -> int:
    """Start and supervise SGLang."""
    try:
        from appl_backends.sglang import launch  # only `appl serve sglang` needs it
    except MissingExtra as error:
        say(f"appl: {error}")
        return USAGE
    code: int = launch.main(list(options.rest))
    return code


def serve(options: Options) -> int:
    """Serve until told to stop; returns the exit code."""
    try:
        _serve(options)
    except MissingExtra as error:
        say(f"appl: {error}")
        return USAGE
    except (ApplError, OSError, OverflowError) as error:
        say(f"appl serve: {start_error(error, options)}")
        return USAGE
    return OK


def start_error(error: Exception, options: Options) -> str:
    """The reason why a server did not start."""
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return (
            f"another program listens on port {options.port} of {options.host}; "
            "give another --port, or leave it out for a free one"
        )
    return str(error)


def _serve(options: Options) -> None:
    from appl_backends.embedded import Embedded
    from appl_backends.embedded.server import Keys, serve

    api = options.api_key or os.environ.get(KEY_VARIABLE)
    admin = options.admin_key or os.environ.get(ADMIN_VARIABLE)

    def ready(address: Address) -> None:
        out(_json(address) if options.json else _line(address, {api, admin}))

    settings = {name: getattr(options, name) for name in _ENGINE}
    asyncio.run(
        serve(
            Embedded(**settings),
            Keys.of(api, admin),
            ready,
            host=options.host,
            port=options.port,
            queue=options.max_queued,
            most_bytes=options.max_body,
            incremental=options.incremental_streaming_output,
            hosts=options.allow_host,
            until_eof=options.until_eof,
        )
    )


def _json(address: Address) -> str:
    keys = address.keys
    facts = {"ready": True, "url": address.url, "api_key": keys.api, "admin_key": keys.admin}
    return json.dumps({**facts, "model": "embedded", "pid": os.getpid()})


def _line(address: Address, user_keys: set[str | None]) -> str:
    """The line for people and logs; the user's own keys, *user_keys*, are not repeated."""
    named = {"api-key": address.keys.api, "admin-key": address.keys.admin}
    drawn = [f"{name}={key}" for name, key in named.items() if key and key not in user_keys]
    return "  ".join([f"ready {address.url}", *drawn])
