"""A debugger that speaks the debug adapter protocol stops at the lines of prompt functions."""

from __future__ import annotations

import itertools
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAM = """
import sys
from appl import gen, ppl

@ppl
def ask(question):
    f"Be brief, {question}."  # first
    x = 1  # second
    f"{question} {x}"  # third
    {stop}
    answer = gen()  # after
    return answer  # last

print(str(ask("Why?")))
"""
RULES = [{"module": "appl", "include": False}]
"""Code of the package is no code of the user's, as where it is installed among other packages."""
Message = dict[str, Any]


class Client:
    """A client of the protocol, over a socket."""

    def __init__(self, port: int) -> None:
        self._socket = _connected(port)
        self._file = self._socket.makefile("rb")
        self._numbers = itertools.count(1)
        self._events: list[Message] = []

    def send(self, command: str, **arguments: Any) -> int:
        """Send a request; its number."""
        number = next(self._numbers)
        body = {"seq": number, "type": "request", "command": command, "arguments": arguments}
        data = json.dumps(body).encode()
        self._socket.sendall(b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
        return number

    def ask(self, command: str, **arguments: Any) -> Message:
        """The body of the answer to a request."""
        number = self.send(command, **arguments)
        while True:
            message = self._read()
            if message.get("request_seq") == number:
                assert message["success"], message
                return message.get("body", {})
            self._events.append(message)

    def event(self, name: str) -> Message:
        """The body of the next event of that name."""
        for at, message in enumerate(self._events):
            if message.get("event") == name:
                return self._events.pop(at).get("body", {})
        while (message := self._read()).get("event") != name:
            self._events.append(message)
        return message.get("body", {})

    def stop(self) -> tuple[str, int]:
        """The file and the line at which the program stops next."""
        self._thread = self.event("stopped")["threadId"]
        (top, *_) = self.ask("stackTrace", threadId=self._thread)["stackFrames"]
        return Path(top["source"]["path"]).name, top["line"]

    def step(self, command: str) -> tuple[str, int]:
        """Where the program stops after ``next``, ``stepIn`` or ``continue``."""
        self.ask(command, threadId=self._thread)
        return self.stop()

    def close(self) -> None:
        self._socket.close()

    def _read(self) -> Message:
        size = 0
        while (line := self._file.readline().strip()) or not size:
            assert line, "the debugger is gone"
            size = int(line.removeprefix(b"Content-Length: "))
        found: Message = json.loads(self._file.read(size))
        return found


def _connected(port: int) -> socket.socket:
    """A connection to *port*, as soon as somebody listens there."""
    end = time.monotonic() + 60
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=15)
        except ConnectionRefusedError:
            assert time.monotonic() < end
            time.sleep(0.02)


@contextmanager
def debugged(folder: Path, stop: str = "pass", breaks: tuple[str, ...] = ()) -> Iterator[Client]:
    """A client of the program, which begins with breakpoints at the lines that end in *breaks*."""
    file = folder / "prog.py"
    file.write_text(PROGRAM.replace("{stop}", stop))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "debugpy", "--listen", f"127.0.0.1:{port}"]
    environment = {
        "PATH": "/usr/bin:/bin", "HOME": str(folder), "APPL_BACKEND": "appl.testing:Echo",
        "PYTHONPATH": str(Path(__file__).parents[2]), "APPL_TRACE": "false",
    }  # fmt: skip
    with subprocess.Popen(
        [*command, "--wait-for-client", str(file)], cwd=folder, env=environment,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        client = Client(port)
        try:
            client.ask("initialize", adapterID="appl", pathFormat="path")
            client.send("attach", connect={"host": "127.0.0.1", "port": port}, rules=RULES)
            client.event("initialized")
            lines = [{"line": line_of(file, each)} for each in breaks]
            client.ask("setBreakpoints", source={"path": str(file)}, breakpoints=lines)
            client.ask("configurationDone")
            yield client
        finally:
            process.kill()
            client.close()


def line_of(file: Path, end: str) -> int:
    lines = file.read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"# {end}"))


def test_a_breakpoint_at_a_prompt_statement_stops_there(tmp_path: Path) -> None:
    with debugged(tmp_path, breaks=("third",)) as client:
        assert client.stop() == ("prog.py", line_of(tmp_path / "prog.py", "third"))


def test_steps_over_and_into_prompt_statements_go_on_by_lines(tmp_path: Path) -> None:
    with debugged(tmp_path, breaks=("first",)) as client:
        file = tmp_path / "prog.py"
        stops = [client.stop(), client.step("stepIn"), client.step("next"), client.step("next")]
        assert [name for name, _ in stops] == ["prog.py"] * 4
        first = line_of(file, "first")
        assert [line for _, line in stops] == [first, first + 1, first + 2, first + 3]


def test_a_call_of_debugpy_stops_at_the_next_line(tmp_path: Path) -> None:
    stop = "__import__('debugpy').breakpoint()"
    with debugged(tmp_path, stop) as client:
        file, line = client.stop()
        assert (file, line) in [
            ("prog.py", line_of(tmp_path / "prog.py", "after") - back) for back in (0, 1)
        ]
