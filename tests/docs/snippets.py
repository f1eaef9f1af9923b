"""The blocks of a Markdown page, run in their order in a folder of their own.

* ``python`` blocks of a page form one program, which is run as a file, with the page's line numbers.
* A block with ``title="name"`` is written to that file instead.
* ``console`` blocks hold commands behind ``$ `` and what they print; ``...`` stands for any text.
  In a block ``console vary`` digits, names of runs and the width of columns may differ.
  A line ``^C`` below a command interrupts it once it has recorded some answers. A command that ends
  in ``&`` goes on beside the next ones, which begin once it has printed what stands below it, or,
  where nothing does, has recorded some answers. Port 8000 of this machine stands for a free one.
* Blocks of any other language are not looked at.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from appl.tracing import Trace

_FENCE = re.compile(r"^( *)```(\w*)(.*)$")
_TITLE = re.compile(r'title="([^"]+)"')
PORT_OPTION, ADDRESS = "--port 8000", "127.0.0.1:8000"
SECONDS = 60
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, its title if it has one, its first line, its text."""

    language: str
    title: str | None
    line: int
    text: str
    vary: bool = False


def blocks(page: str) -> Iterator[Block]:
    """The fenced blocks of *page*."""
    lines = page.splitlines()
    at = 0
    while at < len(lines):
        fence = _FENCE.match(lines[at])
        at += 1
        if fence is None:
            continue
        indent, language, info = fence.groups()
        start = at
        while at < len(lines) and lines[at].strip() != "```":
            at += 1
        body = [line.removeprefix(indent) for line in lines[start:at]]
        at += 1
        title = _TITLE.search(info)
        name = title[1] if title else None
        yield Block(language, name, start + 1, "\n".join(body) + "\n", "vary" in info.split())


def run_page(page: Path, folder: Path, programs: Path, *, sources: bool = True) -> list[str]:
    """Run the blocks of *page* in *folder* with *programs*; what went wrong, as text.

    Without *sources* the folder is empty, and the package is the one installed with *programs*.
    """
    if sources:
        shutil.copytree(ROOT / "examples", folder / "examples")
    with tempfile.TemporaryDirectory(prefix="appl-") as sockets:
        shell = Shell(folder, sockets, programs, sources)
        try:
            return list(_failures(page, shell))
        finally:
            shell.close()


def _failures(page: Path, shell: Shell) -> Iterator[str]:
    program = ""
    for block in blocks(page.read_text("utf-8")):
        if block.title is not None:
            (shell.folder / block.title).parent.mkdir(parents=True, exist_ok=True)
            (shell.folder / block.title).write_text(block.text, "utf-8")
        elif block.language == "python":
            program += "\n" * (block.line - 1 - program.count("\n")) + block.text
        elif block.language == "console":
            yield from _console(page, block, shell)
    if program:
        file = shell.folder / f"{page.stem.replace('-', '_')}_page.py"
        file.write_text(program, "utf-8")
        done = shell.run(["bash", "-c", f"python {file}"])
        if done.returncode:
            yield f"{page}: the program of the page failed\n{done.stdout}{done.stderr}"


def _console(page: Path, block: Block, shell: Shell) -> Iterator[str]:
    for command, expected in commands(block.text):
        if command.endswith("&"):
            printed = shell.start(command.removesuffix("&"), expected.count("\n"))
            if not agrees(expected, printed, block.vary):
                yield f"{page}:{block.line}: `{command}` printed\n{printed}\nand not\n{expected}"
            continue
        interrupted = expected.startswith("^C\n")
        expected = expected.removeprefix("^C\n")
        done = shell.run(["bash", "-c", command], interrupted)
        printed = done.stdout + done.stderr if expected and "2>&1" in command else done.stdout
        if expected and not agrees(expected, printed, block.vary):
            yield (
                f"{page}:{block.line}: `{command}` printed\n{printed}{done.stderr}\n"
                f"and not\n{expected}"
            )
        elif not expected and done.returncode:
            yield f"{page}:{block.line}: `{command}` failed\n{printed}{done.stderr}"


def commands(text: str) -> Iterator[tuple[str, str]]:
    """The commands of a block, each with what it prints."""
    command, expected = "", ""
    for line in text.splitlines():
        if line.startswith("$ "):
            if command:
                yield command, expected
            command, expected = line[2:], ""
        elif command.endswith("\\") and not expected:
            command = f"{command[:-1]}{line.strip()}"
        else:
            expected += line.rstrip() + "\n"
    if command:
        yield command, expected


def agrees(expected: str, printed: str, vary: bool) -> bool:
    """True if *printed* is what a page says; numbers and names of runs may *vary*."""
    lines = "\n".join(line.rstrip() for line in printed.strip().splitlines())
    if vary:
        expected, lines = _alike(expected), _alike(lines)
    pattern = ".*".join(re.escape(part) for part in expected.strip().split("..."))
    return re.fullmatch(pattern, lines, re.DOTALL) is not None


def _alike(text: str) -> str:
    """*text* without what differs from run to run: names of runs, identifiers, numbers, widths."""
    text = re.sub(r"\b\d{8}T\d{6}\.\d{3}Z-([\w.]+)-[0-9a-f]{4}\b", r"RUN-\1", text)
    text = re.sub(r"call_[0-9a-f]{16}", "CALL", text)
    return re.sub(r" {2,}", "  ", re.sub(r"\d[\d.,]*(?<=\d)", "0", text))


class Shell:
    """Where the commands of one page run: they see only its folder and its live runs.

    *sockets* is the folder of the sockets of live runs; its name has to be short. *programs* is
    that of ``python``, ``appl`` and ``pytest``.
    """

    def __init__(self, folder: Path, sockets: str, programs: Path, sources: bool) -> None:
        self.folder = folder
        self._beside: list[subprocess.Popen[str]] = []
        self._port = ""
        path = os.pathsep.join(
            map(str, (programs, Path(sys.executable).parent, os.environ["PATH"]))
        )
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("APPL_")},
            "PATH": path,
            "APPL_HOME": str(folder / ".appl"),
            "APPL_CTL_DIR": sockets,
            "APPL_SEED": "7",  # the embedded model draws its answers
            "PYTHONUTF8": "1",
            "NO_COLOR": "1",
            "COLUMNS": "120",
        }
        self._environment.pop("PYTHONPATH", None)
        if sources:
            self._environment |= {
                "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "backends")]),
                "PYTEST_PLUGINS": "appl.parts.pytest_plugin",  # as its entry point does where it is installed
            }

    def run(
        self, command: list[str], interrupted: bool = False
    ) -> subprocess.CompletedProcess[str]:
        """Run *command*; with *interrupted*, as if Ctrl-C was pressed after some answers."""
        answered = self._answered() if interrupted else 0
        if self._port:
            command = [word.replace(ADDRESS, f"127.0.0.1{self._port}") for word in command]
        process = self._popen(command, subprocess.PIPE)
        if interrupted:
            self._wait_for_answers(process, answered)
            os.killpg(process.pid, signal.SIGINT)
        try:
            out, err = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    def start(self, command: str, lines: int) -> str:
        """Run *command* beside the next ones; its first *lines* lines, for which it waits.

        With no lines it waits until the command has recorded some answers.
        """
        answered = self._answered()
        command = command.replace(PORT_OPTION, "--port 0")
        out = subprocess.PIPE if lines else subprocess.DEVNULL
        process = self._popen(["bash", "-c", command], out, subprocess.DEVNULL)
        self._beside.append(process)
        if not lines:
            self._wait_for_answers(process, answered)
            return ""
        assert process.stdout is not None
        printed = "".join(process.stdout.readline() for _ in range(lines))
        if port := re.search(r"http://127\.0\.0\.1(:\d+)", printed):
            self._port = port[1]
        return printed

    def close(self) -> None:
        """End what still runs beside."""
        for process in self._beside:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()

    def _popen(self, command: list[str], out: int, err: int | None = None) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command, cwd=self.folder, env=self._environment, stdout=out, stderr=err or out,
            text=True, start_new_session=True,
        )  # fmt: skip

    def _answered(self) -> int:
        traces = [Trace.open(file) for file in self.folder.glob(".appl/runs/*.trace")]
        return sum(call.response is not None for trace in traces for call in trace.calls)

    def _wait_for_answers(self, process: subprocess.Popen[str], answered: int) -> None:
        deadline = time.monotonic() + SECONDS
        while process.poll() is None and time.monotonic() < deadline:
            if self._answered() > answered:
                return
            time.sleep(0.1)
