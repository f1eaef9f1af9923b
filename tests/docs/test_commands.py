"""Every command and option that the documentation names exists, and every command is named there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from appl.cli import app

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("[A-Z]*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
INLINE = re.compile(r"`(appl [^`]+)`")
SHELL = re.compile(r"^ *```(?:sh|console)[^\n]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
TYPED = re.compile(r"^ *(?:\$ )?(appl .+)$", re.MULTILINE)
OPTION = re.compile(r"--[a-z][a-z-]+")


def lines(page: Path) -> list[str]:
    """The lines of *page* that begin with ``appl``, in code."""
    text = page.read_text("utf-8")
    blocks = SHELL.findall(text)
    inline = [found.replace("\n", " ") for found in INLINE.findall(SHELL.sub("", text))]
    return inline + [line for block in blocks for line in TYPED.findall(block)]


def group_of(command: click.Command) -> click.Group | None:
    return command if isinstance(command, click.Group) else None


def resolved(line: str) -> tuple[str, click.Command, list[str]]:
    """The command that *line* names, its path, and the words behind it."""
    command: click.Command = app
    path, words = "appl", line.split()[1:]
    while words and (group := group_of(command)) is not None and words[0][0].isalpha():
        found = group.get_command(click.Context(group), words[0].rstrip(",.;:"))
        if found is None:
            break
        path, command = f"{path} {words.pop(0)}", found
    return path, command, words


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_commands_and_options_of_a_page_exist(page: Path) -> None:
    wrong = []
    for line in lines(page):
        path, command, words = resolved(line)
        left = words[0] if words else ""
        if group_of(command) is not None and left[:1].isalpha() and left != "COMMAND":
            wrong.append(f"no command: {line}")
        if path.endswith("serve sglang") or ":" in " ".join(words[:2]):
            continue  # the options are the launcher's, or may be the program's
        for option in OPTION.findall(re.split(r"[|>&;]| -- ", " ".join(words))[0]):
            known = [name for each in command.params for name in each.opts] + ["--help"]
            if option not in known and ".py" not in line:
                wrong.append(f"no option {option}: {line}")
    assert not wrong


def every_path(group: click.Group, path: str) -> Iterator[str]:
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        if isinstance(command, click.Group) and name == "trace":
            yield from every_path(command, f"{path} {name}")
        else:
            yield f"{path} {name}"


def test_the_page_of_the_command_line_names_every_command() -> None:
    text = (ROOT / "docs" / "configuration.md").read_text("utf-8")
    missing = [path for path in every_path(app, "appl") if f"`{path}`" not in text]
    assert not missing
