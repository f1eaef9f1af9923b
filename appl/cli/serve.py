"""``appl serve``: the embedded engine behind HTTP, or a supervised SGLang."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import os
from typing import TYPE_CHECKING, Any

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
"""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "serve",
        help="put the embedded model behind SGLang's and OpenAI's HTTP interfaces",
        description="Put the embedded model behind SGLang's and OpenAI's HTTP interfaces.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(command=serve)
    engines = parser.add_subparsers(metavar="[sglang]")
    other = engines.add_parser(
        "sglang",
        add_help=False,
        prefix_chars="\0",  # every word after it is the launcher's, also --help
        help="start and supervise SGLang",
    )
    other.add_argument("rest", nargs=argparse.REMAINDER)
    other.set_defaults(command=serve_sglang)
    _network(parser.add_argument_group("network"))
    _engine(parser.add_argument_group("engine"))
    parser.add_argument("--json", action="store_true", help="print the line as JSON")
    parser.add_argument(
        "--until-eof", action="store_true", help="stop when standard input ends as well"
    )


def _network(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default: %(default)s)"
    )
    group.add_argument("--port", type=int, default=0, help="port (default: a free one)")
    group.add_argument("--api-key", metavar="KEY", help="key to ask for; 'none' asks for none")
    group.add_argument(
        "--admin-key", metavar="KEY", help="key for /flush_cache, /shutdown and abort_all"
    )
    group.add_argument(
        "--max-queued", type=int, default=1024, metavar="N",
        help="samples that may wait; more are refused with 503 (default: %(default)s)",
    )  # fmt: skip
    group.add_argument(
        "--max-body", type=int, default=16 << 20, metavar="BYTES",
        help="size of a request (default: %(default)s)",
    )  # fmt: skip
    group.add_argument(
        "--incremental-streaming-output", action="store_true",
        help="native streams send what is new instead of all so far",
    )  # fmt: skip


def _engine(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--weights", metavar="DIR", help="folder of a model (default: the shipped one)"
    )
    group.add_argument("--cache", choices=("radix", "naive"), default="radix", help="prefix cache")
    group.add_argument(
        "--max-batch",
        type=int,
        default=32,
        metavar="N",
        help="sequences that run at once (default: %(default)s)",
    )
    group.add_argument(
        "--chunk",
        type=int,
        default=256,
        metavar="N",
        help="prompt tokens computed in one step (default: %(default)s)",
    )
    group.add_argument(
        "--cache-tokens",
        type=int,
        default=16384,
        metavar="N",
        help="tokens that the prefix cache holds (default: %(default)s)",
    )
    group.add_argument(
        "--row-tokens",
        type=int,
        default=16384,
        metavar="N",
        help="tokens of all running sequences (default: %(default)s)",
    )
    group.add_argument("--threads", type=int, default=1, metavar="N", help="BLAS threads")


def serve(given: argparse.Namespace) -> int:
    """Serve until told to stop; returns the exit code."""
    try:
        _serve(given)
    except MissingExtra as error:
        say(f"appl: {error}")
        return USAGE
    except (ApplError, OSError, OverflowError) as error:
        say(f"appl serve: {error}")
        return USAGE
    return OK


def _serve(given: argparse.Namespace) -> None:
    from appl_backends.embedded import Embedded  # noqa: PLC0415  (numpy, for this command only)
    from appl_backends.embedded.server import Keys, serve  # noqa: PLC0415

    api = given.api_key or os.environ.get(KEY_VARIABLE)
    admin = given.admin_key or os.environ.get(ADMIN_VARIABLE)

    def ready(address: Address) -> None:
        out(_json(address) if given.json else _line(address, {api, admin}))

    settings = {name: getattr(given, name) for name in _ENGINE}
    asyncio.run(
        serve(
            Embedded(**settings),
            Keys.of(api, admin),
            ready,
            host=given.host,
            port=given.port,
            queue=given.max_queued,
            most_bytes=given.max_body,
            incremental=given.incremental_streaming_output,
            until_eof=given.until_eof,
        )
    )


def serve_sglang(given: argparse.Namespace) -> int:
    """Start and supervise SGLang with the arguments that follow its name; the exit code."""
    try:
        launch = importlib.import_module("appl_backends.sglang.launch")
    except MissingExtra as error:
        say(f"appl: {error}")
        return USAGE
    code: int = launch.main(given.rest)
    return code


def _json(address: Address) -> str:
    keys = address.keys
    found = {"ready": True, "url": address.url, "api_key": keys.api, "admin_key": keys.admin}
    return json.dumps({**found, "model": "embedded", "pid": os.getpid()})


def _line(address: Address, given: set[str | None]) -> str:
    """For people and logs: a key that somebody has *given* is known already, and not said."""
    named = {"api-key": address.keys.api, "admin-key": address.keys.admin}
    drawn = [f"{name}={key}" for name, key in named.items() if key and key not in given]
    return "  ".join([f"ready {address.url}", *drawn])
