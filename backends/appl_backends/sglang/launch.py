"""Starts an SGLang server, or replicas behind SGLang's router, and looks after it.

Invariant: whatever was started here has ended when the launch has ended; no key is written where
another user of the machine could read it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import secrets
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from appl.errors import BackendError, Unsupported
from appl_backends.sglang.host_memory import host_cache_gb
from appl_backends.sglang.plan import LaunchPlan, check_installed
from appl_backends.sglang.server_process import POLL_S, Child, LaunchFailed, Tell, free_port

_OF_HOST_CACHE = re.compile("(?i)hicache|hierarchical cache|host memory")


_APART = ("SGLang for prompts", "SGLang for answers")
_DRAFTING = ("SGLang", "SGLang with drafts")


@dataclass(slots=True)
class Launch:
    """A running server, or several: where it is, and the keys for it.

    Of a pair, ``_beside`` is the setting of the client that the other server's URL goes to.
    Once ``stopping`` is set nothing is waited for, and nothing is started again.
    """

    plan: LaunchPlan
    tell: Tell
    stopping: threading.Event = field(default_factory=threading.Event)
    api_key: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    admin_key: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    _folder: tempfile.TemporaryDirectory[str] = field(
        default_factory=lambda: tempfile.TemporaryDirectory(prefix="appl-sglang-")
    )
    _children: list[Child] = field(default_factory=list)
    _left: int = 0
    _port: int = 0
    _beside: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """The URL of the server or router."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def settings(self) -> dict[str, str]:
        """The settings of the backend ``sglang`` for this server."""
        keys = {"api_key": self.api_key, "admin_key": self.admin_key}
        return {"url": self.url, **keys, **self._beside}

    def start(self) -> None:
        """Start everything, and wait until it answers. Raises ``LaunchFailed``, ``Unsupported``."""
        check_installed(self.plan.python)
        if not self.plan.keeps_on_host:
            self._start_all()
            return
        gb = self.plan.host_cache
        self.tell(f"{gb} GB of this machine's memory are kept for the cache (--host-cache GB|off)")
        try:
            self._start_all()
        except LaunchFailed:
            tail = "\n".join(child.tail(5) for child in self._children)
            if self.stopping.is_set() or not _OF_HOST_CACHE.search(tail):
                raise
            self.tell(
                f"the memory of this machine is too small for it, so it goes without:\n{tail}"
            )
            self._stop_children()
            self._children.clear()
            self.plan = replace(self.plan, host_cache=0)
            self._start_all()

    def _start_all(self) -> None:
        self._left = self.plan.restarts
        if self.plan.drafting or self.plan.is_apart:
            self._start_pair()
            return
        alone = self.plan.replicas == 1
        for number in range(self.plan.replicas):
            port = self.plan.port or free_port() if alone else free_port()
            self._children.append(self._server(number, port))
        for child in self._children:
            child.start()
        for child in self._children:
            child.wait_ready(self.plan.timeout)
        if alone:
            self._port = self._children[0].port
            return
        router = self._router([child.port for child in self._children])
        self._children.append(router)
        self._port = router.port
        router.start()
        router.wait_ready(self.plan.timeout)

    def _start_pair(self) -> None:
        """Start two servers that answer together; the client asks the one at ``url``."""
        from appl_backends.sglang import pair  # few start one

        port = self.plan.port or free_port()
        if self.plan.is_apart:
            pair.check_transfer(self.plan)
            ports, roles, names = (free_port(), port), pair.apart(self.plan, free_port()), _APART
            environment = pair.HANDS_OVER
        else:
            ports, roles, names = (port, free_port()), pair.beside(self.plan), _DRAFTING
            environment = {}
        for number, (role, name) in enumerate(zip(roles, names, strict=True)):
            child = self._server(number, ports[number], role, name, environment)
            self._children.append(child)
            child.start()
            if self.plan.drafting:  # the second one takes what the first has left of the GPU
                child.wait_ready(self.plan.timeout)
        for child in self._children:
            child.wait_ready(self.plan.timeout)
        self._port = port
        other = next(each for each in ports if each != port)
        self._beside["prefill" if self.plan.is_apart else "drafting"] = f"http://127.0.0.1:{other}"

    def look_after(self, again: threading.Event) -> None:
        """Until ``stopping`` is set: start again what has ended, and everything when *again* is.

        Raises ``LaunchFailed`` when something ends more often than the plan allows.
        """
        while not self.stopping.wait(POLL_S):
            if again.is_set():
                again.clear()
                self.restart()
            for child in self._children:
                if (code := child.ended()) is not None:
                    self._revive(child, code)

    def restart(self) -> None:
        """Stop everything and start it again, under the same address and keys."""
        self.tell("restarting")
        self._stop_children()
        for child in self._children:
            child.start()
            child.wait_ready(self.plan.timeout)

    def stop(self) -> None:
        """Stop everything, and wait until it has ended."""
        self._stop_children()
        self._folder.cleanup()

    def _stop_children(self) -> None:
        # The router, which was started last, goes first. All are asked before any is waited for,
        # so that they end at the same time.
        for child in reversed(self._children):
            child.interrupt()
        for child in reversed(self._children):
            child.stop()

    def _revive(self, child: Child, code: int) -> None:
        if not self._left:
            raise LaunchFailed(
                f"{child.name} ended with code {code}; its log ends:\n{child.tail()}"
            )
        self._left -= 1
        self.tell(f"{child.name} ended with code {code}, and is started again ({child.log})")
        if self.plan.is_apart or (self.plan.drafting and child is self._children[0]):
            # The other one holds the connection to what has ended, or memory that it had found.
            self.restart()
            return
        child.stop()  # what it has left behind
        child.start()
        child.wait_ready(self.plan.timeout)

    def _server(
        self,
        number: int,
        port: int,
        role: Mapping[str, str | None] | None = None,
        name: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> Child:
        config = Path(self._folder.name) / f"keys-{number}.yaml"
        keys = {"api-key": self.api_key, "admin-api-key": self.admin_key}
        with os.fdopen(os.open(config, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            json.dump(keys, file)  # which is YAML
        name = name or ("SGLang" if self.plan.replicas == 1 else f"SGLang {number}")
        command = self.plan.arguments(number, port, config, role)
        log = self._log(number)
        return self._child(name, command, port, log, environment or {})

    def _router(self, ports: Sequence[int]) -> Child:
        port = self.plan.port or free_port()
        urls = [f"http://127.0.0.1:{each}" for each in ports]
        command = [
            self.plan.python,
            "-m",
            "sglang_router.launch_router",
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            "--policy",
            "cache_aware",
            "--prometheus-port",
            str(free_port()),
            "--worker-urls",
            *urls,
        ]
        return self._child("the router", command, port, self._log(-1), {})

    def _child(
        self, name: str, command: list[str], port: int, log: Path, environment: Mapping[str, str]
    ) -> Child:
        keys = self.api_key, self.admin_key
        return Child(name, command, port, log, *keys, self.tell, self.stopping, environment)

    def _log(self, number: int) -> Path:
        where = self.plan.log
        if where is None:
            return Path(self._folder.name) / f"{'router' if number < 0 else number}.log"
        return where if number == 0 else where.with_name(f"{where.name}.{number}")


@contextlib.contextmanager
def launched(
    plan: LaunchPlan, tell: Tell | None = None, stopping: threading.Event | None = None
) -> Iterator[Launch]:
    """The servers of *plan*, running for the length of the block.

    Raises ``LaunchFailed`` when one does not start, ``Unsupported`` for what is not started.
    """
    launch = Launch(plan, tell or _tell, stopping or threading.Event())
    try:
        launch.start()
        yield launch
    finally:
        launch.stop()


def main(argv: Sequence[str] | None = None) -> int:
    """``appl serve sglang``: start the server, say where it is, look after it. The exit code."""
    options, more = _parser().parse_known_args(argv)
    stopping, again = threading.Event(), threading.Event()
    for number, event in (
        (signal.SIGTERM, stopping),
        (signal.SIGINT, stopping),
        (signal.SIGHUP, again),
    ):
        # A handler may interrupt any line, so it sets an event and does nothing else.
        signal.signal(number, lambda *_, event=event: event.set())
    try:
        plan = LaunchPlan(
            options.model,
            options.python,
            options.port,
            options.tp,
            options.dp,
            options.replicas,
            options.server_priority,
            _host_cache(options),
            _adapters(options),
            options.drafting,
            options.prefill,
            options.decode,
            tuple(each for each in more if each != "--"),
            options.timeout,
            options.restarts,
            options.log,
        )
        if options.host_cache not in (None, "off") and not plan.keeps_on_host:
            raise Unsupported(
                "--host-cache does nothing beside --prefill and --decode, or beside arguments that "
                "settle the cache: leave it out"
            )
        with launched(plan, stopping=stopping) as launch:
            print(_announced(launch, as_json=options.json), flush=True)
            launch.look_after(again)
    except BackendError as error:
        _tell(str(error))
        return 0 if stopping.is_set() else 1
    return 0


def _host_cache(options: argparse.Namespace) -> int:
    """The GB of ``--host-cache``. Raises ``Unsupported`` for anything else."""
    given: str | None = options.host_cache
    if given is None:
        found = host_cache_gb(max(options.tp * options.dp * options.replicas, 1))
        if not found:
            _tell("too little memory is free for a cache beside that of the GPU (--host-cache GB)")
        return found
    if given != "off" and re.fullmatch("[1-9][0-9]{0,5}", given) is None:
        raise Unsupported(f"--host-cache takes a number of GB, or off; got {given!r:.40}")
    return 0 if given == "off" else int(given)


def _adapters(options: argparse.Namespace) -> dict[str, str]:
    """The folders of ``--adapter`` by name. Raises ``Unsupported`` for what is none."""
    found = {}
    for given in options.adapter:
        name, _, folder = given.partition("=")
        if not name or not (Path(folder).expanduser() / "adapter_config.json").is_file():
            raise Unsupported(
                f"--adapter takes NAME=FOLDER, of one with adapter_config.json; got {given!r:.99}"
            )
        found[name] = str(Path(folder).expanduser().resolve())
    return found


def _announced(launch: Launch, *, as_json: bool) -> str:
    if as_json:
        return json.dumps({**launch.settings, "model": launch.plan.model, "pid": os.getpid()})
    return (
        f"SGLang serves {launch.plan.model} at {launch.url}; for programs:\n"
        f"export SGLANG_URL={launch.url} SGLANG_API_KEY={launch.api_key} "
        f"SGLANG_ADMIN_KEY={launch.admin_key}{_others(launch)}\n"
        "It stops with Ctrl-C, and starts again on SIGHUP."
    )


def _others(launch: Launch) -> str:
    """The variables of a server beside the one that is asked."""
    found = {name: url for name, url in launch.settings.items() if name in ("drafting", "prefill")}
    return "".join(f" SGLANG_{name.upper()}_URL={url}" for name, url in found.items())


def _tell(line: str) -> None:
    print(f"appl: {line}", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "appl serve sglang",
        description="Start an SGLang server on this machine, with random keys, and look after it.",
        epilog="All other arguments are passed on to SGLang.",
        allow_abbrev=False,
    )
    parser.add_argument("--model", required=True, help="a folder, or a name on Hugging Face")
    parser.add_argument("--port", type=int, default=0, help="(a free one)")
    parser.add_argument("--tp", type=int, default=1, help="GPUs that share one copy of the model")
    parser.add_argument("--dp", type=int, default=1, help="copies inside one server")
    parser.add_argument("--replicas", type=int, default=1, help="servers behind SGLang's router")
    parser.add_argument(
        "--server-priority",
        action="store_true",
        help="the server orders requests by priority instead of by prefix",
    )
    parser.add_argument(
        "--host-cache",
        metavar="GB|off",
        help="memory of the machine for what the GPUs' caches have no room for, in all; pinned at "
        "the start, which takes a second for each GB (half of what is free)",
    )
    parser.add_argument(
        "--adapter",
        action="append",
        default=[],
        metavar="NAME=FOLDER",
        help="a LoRA adapter, which gen(lora=NAME) asks for; may be repeated",
    )
    parser.add_argument(
        "--drafting",
        action="store_true",
        help="a second server on the same GPU, which speculates on what earlier runs were answered",
    )
    for name, what in (("--prefill", "computes prompts"), ("--decode", "generates answers")):
        parser.add_argument(
            name, type=int, default=0, metavar="1", help=f"a server on GPUs of its own that {what}"
        )
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has sglang")
    parser.add_argument("--timeout", type=float, default=1800.0, help="seconds to start (1800)")
    parser.add_argument("--restarts", type=int, default=3, help="when it ends by itself (3)")
    parser.add_argument("--log", type=Path, help="keep its output in this file")
    parser.add_argument("--json", action="store_true", help="one line of JSON when it is ready")
    return parser


if __name__ == "__main__":
    sys.exit(main())
