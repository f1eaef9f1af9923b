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
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from appl.errors import BackendError, BackendUnavailable, Unsupported

OLDEST = (0, 5, 17)
"""The oldest version that is started: in earlier ones parts of a server unpickle what they are sent
over the network (CVE-2025-10164, CVE-2026-3060)."""

REFUSED = {
    "--enable-custom-logit-processor": "it runs code that requests contain (CVE-2026-7304)",
    "--api-key": "keys are drawn at random and printed when the server is ready",
    "--admin-api-key": "keys are drawn at random and printed when the server is ready",
    "--config": "the keys are passed in a file of this name; write the settings here",
    "--skip-tokenizer-init": "the server could not answer texts",
}

SETTINGS: dict[str, str | None] = {
    "--schedule-policy": "lpm",
    "--enable-cache-report": None,
    "--enable-metrics": None,
    "--constrained-json-disable-any-whitespace": None,
    "--incremental-streaming-output": None,
    "--sleep-on-idle": None,
}
"""What this runtime wants of a server; the user's own settings come before them."""

LINES = 40
_POLL = 0.2
_GRACE = 15.0

Tell = Callable[[str], None]


class LaunchFailed(BackendUnavailable):
    """The server did not start, or ended by itself; the text holds the end of its log."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be started.

    *python* is the interpreter that has sglang. *replicas* servers of *tp* × *dp* GPUs each stand
    behind a router when there are several. *server_priority* has the servers order requests by
    priority instead of by prefix. *more* are further arguments for SGLang. *timeout* is how long a
    server may take to start, in seconds; *restarts* how often one that ended is started again.
    """

    model: str
    python: str = sys.executable
    port: int = 0
    tp: int = 1
    dp: int = 1
    replicas: int = 1
    server_priority: bool = False
    more: tuple[str, ...] = ()
    timeout: float = 1800.0
    restarts: int = 3
    log: Path | None = None

    def __post_init__(self) -> None:
        if min(self.tp, self.dp, self.replicas) < 1:
            raise Unsupported("--tp, --dp and --replicas must be at least 1")
        for each in self.more:
            name = each.partition("=")[0]
            if name in REFUSED:
                raise Unsupported(f"{name} is not passed on to SGLang: {REFUSED[name]}")
        if "--host" in self.more and not self.more[self.more.index("--host") + 1 :][:1] == (
            "127.0.0.1",
        ):
            raise Unsupported(
                "the server listens on this machine alone; for others put a proxy with TLS and "
                "its own access control before it"
            )

    def arguments(self, number: int, port: int, config: Path) -> list[str]:
        """The command of server *number*, which reads its keys from the file *config*."""
        given = {each.partition("=")[0] for each in self.more}
        wanted = dict(SETTINGS)
        if self.server_priority:
            wanted |= {"--schedule-policy": "fcfs", "--enable-priority-scheduling": None}
        if self.replicas > 1:
            wanted["--base-gpu-id"] = str(number * self.tp * self.dp)
        wanted |= {"--tp-size": str(self.tp), "--dp-size": str(self.dp)}
        settings = [
            part
            for name, value in wanted.items()
            if name not in given
            for part in ((name,) if value is None else (name, value))
        ]
        return [
            self.python, "-m", "sglang.launch_server", "--model-path", self.model,
            "--host", "127.0.0.1", "--port", str(port), "--config", str(config),
            *settings, *self.more,
        ]  # fmt: skip


@dataclass(slots=True)
class Launch:
    """A running server, or several: where it is, and the keys for it.

    Once ``stopping`` is set nothing is waited for, and nothing is started again.
    """

    plan: Plan
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

    @property
    def url(self) -> str:
        """Where requests go."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def settings(self) -> dict[str, str]:
        """The settings of the backend ``sglang`` for this server."""
        return {"url": self.url, "api_key": self.api_key, "admin_key": self.admin_key}

    def start(self) -> None:
        """Start everything, and wait until it answers. Raises ``LaunchFailed``, ``Unsupported``."""
        check_installed(self.plan.python)
        self._left = self.plan.restarts
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

    def look_after(self, again: threading.Event) -> None:
        """Until ``stopping`` is set: start again what has ended, and everything when *again* is.

        Raises ``LaunchFailed`` when something ends more often than the plan allows.
        """
        while not self.stopping.wait(_POLL):
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
        child.start()
        child.wait_ready(self.plan.timeout)

    def _server(self, number: int, port: int) -> Child:
        config = Path(self._folder.name) / f"keys-{number}.yaml"
        keys = {"api-key": self.api_key, "admin-api-key": self.admin_key}
        with os.fdopen(os.open(config, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            json.dump(keys, file)  # which is YAML
        name = "SGLang" if self.plan.replicas == 1 else f"SGLang {number}"
        command = self.plan.arguments(number, port, config)
        return Child(name, command, port, self._log(number), self.api_key, self.tell, self.stopping)

    def _router(self, ports: Sequence[int]) -> Child:
        port = self.plan.port or free_port()
        urls = [f"http://127.0.0.1:{each}" for each in ports]
        command = [
            self.plan.python, "-m", "sglang_router.launch_router", "--host", "127.0.0.1",
            "--port", str(port), "--policy", "cache_aware", "--prometheus-port",
            str(free_port()), "--worker-urls", *urls,
        ]  # fmt: skip
        return Child(
            "the router", command, port, self._log(-1), self.api_key, self.tell, self.stopping
        )

    def _log(self, number: int) -> Path:
        where = self.plan.log
        if where is None:
            return Path(self._folder.name) / f"{'router' if number < 0 else number}.log"
        return where if number == 0 else where.with_name(f"{where.name}.{number}")


@dataclass(slots=True)
class Child:
    """One process with all that it starts, in a process group of its own."""

    name: str
    command: list[str]
    port: int
    log: Path
    key: str
    tell: Tell
    stopping: threading.Event
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; its output goes to the log."""
        with self.log.open("ab") as out:
            self._process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                start_new_session=True, env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )  # fmt: skip

    def ended(self) -> int | None:
        """Its exit code, when it has ended by itself."""
        return self._process.poll() if self._process is not None else None

    def wait_ready(self, timeout: float) -> None:
        """Wait until it answers, and tell how far it is. Raises ``LaunchFailed``."""
        began = told = time.monotonic()
        while not self._answers():
            if (code := self.ended()) is not None:
                raise LaunchFailed(
                    f"{self.name} ended with code {code} before it answered; its log ends:\n"
                    f"{self.tail()}"
                )
            now = time.monotonic()
            if now - began > timeout:
                raise LaunchFailed(
                    f"{self.name} does not answer after {timeout:.0f} s; its log ends:\n"
                    f"{self.tail()}"
                )
            if now - told > 5:
                told = now
                self.tell(f"waiting for {self.name}, {now - began:.0f} s: {self.tail(1)}")
            if self.stopping.wait(_POLL):
                raise LaunchFailed(f"{self.name} was stopped before it answered")

    def _answers(self) -> bool:
        question = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/v1/models",
            headers={"Authorization": f"Bearer {self.key}"},
        )
        try:
            with urllib.request.urlopen(question, timeout=5) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False

    def tail(self, lines: int = LINES) -> str:
        """The last lines of its log, without keys."""
        try:
            text = self.log.read_bytes()[-20000:].decode("utf-8", "replace")
        except OSError:
            return ""
        return re.sub(re.escape(self.key), "[secret]", "\n".join(text.splitlines()[-lines:]))

    def interrupt(self) -> None:
        """Ask it, and all that it has started, to end."""
        self._signal(signal.SIGTERM)

    def stop(self) -> None:
        """Wait until it has ended; what lingers is killed."""
        process = self._process
        if process is None:
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE)
        self._signal(signal.SIGKILL)
        process.wait()
        self._process = None

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)


def check_installed(python: str) -> str:
    """The version of sglang that *python* has. Raises ``Unsupported`` for none, or one too old."""
    code = "from importlib.metadata import version; print(version('sglang'))"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    version = done.stdout.strip()
    if done.returncode:
        raise Unsupported(
            f"{python} has no sglang; install it there (pip install sglang), or name another "
            "interpreter by --python"
        )
    numbers = tuple(map(int, re.findall(r"\d+", version)[:3]))
    if numbers < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise Unsupported(
            f"sglang {version} has known holes; {oldest} is the oldest that is started: "
            f'pip install "sglang>={oldest}"'
        )
    return version


def free_port() -> int:
    """A port on the loopback interface that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextlib.contextmanager
def launched(
    plan: Plan, tell: Tell | None = None, stopping: threading.Event | None = None
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
        (signal.SIGTERM, stopping), (signal.SIGINT, stopping), (signal.SIGHUP, again)
    ):  # fmt: skip
        signal.signal(number, lambda *_, event=event: event.set())
    try:
        plan = Plan(
            options.model, options.python, options.port, options.tp, options.dp, options.replicas,
            options.server_priority, tuple(each for each in more if each != "--"), options.timeout,
            options.restarts, options.log,
        )  # fmt: skip
        with launched(plan, stopping=stopping) as launch:
            print(_announced(launch, as_json=options.json), flush=True)
            launch.look_after(again)
    except BackendError as error:
        _tell(str(error))
        return 0 if stopping.is_set() else 1
    return 0


def _announced(launch: Launch, *, as_json: bool) -> str:
    if as_json:
        return json.dumps({**launch.settings, "model": launch.plan.model, "pid": os.getpid()})
    return (
        f"SGLang serves {launch.plan.model} at {launch.url}; for programs:\n"
        f"export SGLANG_URL={launch.url} SGLANG_API_KEY={launch.api_key} "
        f"SGLANG_ADMIN_KEY={launch.admin_key}\n"
        "It stops with Ctrl-C, and starts again on SIGHUP."
    )


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
        "--server-priority", action="store_true",
        help="the server orders requests by priority instead of by prefix",
    )  # fmt: skip
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has sglang")
    parser.add_argument("--timeout", type=float, default=1800.0, help="seconds to start (1800)")
    parser.add_argument("--restarts", type=int, default=3, help="when it ends by itself (3)")
    parser.add_argument("--log", type=Path, help="keep its output in this file")
    parser.add_argument("--json", action="store_true", help="one line of JSON when it is ready")
    return parser


if __name__ == "__main__":
    sys.exit(main())
