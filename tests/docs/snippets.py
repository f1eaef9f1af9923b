"""The blocks of a Markdown page, run in their order in a folder of their own.

* ``python`` blocks of a page form one program, which is run as a file, with the page's line numbers.
* A block with ``title="name"`` is written to that file instead.
* ``console`` blocks hold commands behind ``$ `` and what they print; ``...`` stands for any text.
* Blocks of any other language are not looked at.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^( *)```(\w*)(.*)$")
_TITLE = re.compile(r'title="([^"]+)"')
SECONDS = 60


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, its title if it has one, its first line, its text."""

    language: str
    title: str | None
    line: int
    text: str


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
        yield Block(language, title[1] if title else None, start + 1, "\n".join(body) + "\n")


def run_page(page: Path, folder: Path) -> list[str]:
    """Run the blocks of *page* in *folder*; what went wrong, as text."""
    wrong: list[str] = []
    program = ""
    for block in blocks(page.read_text("utf-8")):
        if block.title is not None:
            (folder / block.title).parent.mkdir(parents=True, exist_ok=True)
            (folder / block.title).write_text(block.text, "utf-8")
        elif block.language == "python":
            program += "\n" * (block.line - 1 - program.count("\n")) + block.text
        elif block.language == "console":
            wrong += _console(page, block, folder)
    if program:
        file = folder / f"{page.stem.replace('-', '_')}_page.py"
        file.write_text(program, "utf-8")
        done = _run([sys.executable, str(file)], folder)
        if done.returncode:
            wrong.append(f"{page}: the program of the page failed\n{done.stdout}{done.stderr}")
    return wrong


def _console(page: Path, block: Block, folder: Path) -> Iterator[str]:
    for command, expected in _commands(block.text):
        done = _run(["bash", "-c", command], folder)
        printed = done.stdout + done.stderr if expected and "2>&1" in command else done.stdout
        if expected and not _agrees(expected, printed):
            yield (
                f"{page}:{block.line}: `{command}` printed\n{printed}{done.stderr}\n"
                f"and not\n{expected}"
            )
        elif not expected and done.returncode:
            yield f"{page}:{block.line}: `{command}` failed\n{printed}{done.stderr}"


def _commands(text: str) -> Iterator[tuple[str, str]]:
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


def _agrees(expected: str, printed: str) -> bool:
    lines = "\n".join(line.rstrip() for line in printed.strip().splitlines())
    pattern = ".*".join(re.escape(part) for part in expected.strip().split("..."))
    return re.fullmatch(pattern, lines, re.DOTALL) is not None


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    root = Path(__file__).parents[2]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("APPL_")},
        "PATH": path,
        "APPL_HOME": str(folder / ".appl"),
        "PYTHONPATH": os.pathsep.join([str(root), str(root / "backends")]),
        "PYTHONUTF8": "1",
        "PYTEST_PLUGINS": "appl.pytest_plugin",  # as its entry point does where appl is installed
        "NO_COLOR": "1",
        "COLUMNS": "120",
    }
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS
    )
