"""Completion in the shell: what click offers, and what a real bash makes of it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from appl.cli import app

from .conftest import Project


def offered(*words: str) -> list[str]:
    """The completions of the last of *words*, after the others."""
    found = ShellComplete(app, {}, "appl", "_APPL_COMPLETE")
    return [item.value for item in found.get_completions(list(words[:-1]), words[-1])]


def test_commands_and_options_are_completed(project: Project) -> None:
    assert offered("mo") == ["models"]
    assert offered("trace", "re") == ["resume", "replay", "rerun"]
    assert offered("trace", "ls", "--so") == ["--sort"]
    assert offered("trace", "ls", "--sort", "c") == ["cost", "calls"]


def test_runs_are_completed_by_their_names(project: Project) -> None:
    assert offered("trace", "show", "") == ["last"]
    assert project.run("ask").code == 0
    name = project.traces[0].stem
    assert offered("trace", "show", "") == ["last", name]
    assert offered("trace", "diff", name[:9]) == [name]


def test_programs_are_completed_without_being_run(project: Project) -> None:
    project.write(
        "loud.py", "def go(topic, *, how='x'): ...\ndef _own(): ...\nraise SystemExit(7)\n"
    )
    (project.folder / "sub").mkdir()
    assert offered("run", "l") == ["loud.py", "loud.py:"]
    assert offered("run", "s") == ["sub/"]
    assert offered("run", "loud.py:") == ["loud.py:go"]
    assert offered("run", "loud.py:go", "--topi") == ["--topic"]
    assert {"--topic", "--how", "--model"} <= set(offered("run", "loud.py:go", "--"))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(project: Project, shell: str) -> None:
    script = project.appl("completion", shell).out
    assert "_APPL_COMPLETE" in script and "appl" in script


def test_another_shell_is_answered_with_those_there_are(project: Project) -> None:
    done = project.appl("completion", "fsh")
    assert done.code == 2 and "did you mean 'fish'?" in done.err and "bash, zsh, fish" in done.err


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("appl trace re", ["resume", "replay", "rerun"]),
        ("appl run prog.py:pa", ["pair"]),  # bash splits the word at the colon
        ("appl trace ls --sort=na", ["name"]),
        ("appl run prog.py:pair --sec", ["--second"]),
        ("appl run 'prog.py:pa", ["pair"]),
    ],
)
def test_a_real_bash_completes_a_begun_line(
    project: Project, line: str, expected: list[str]
) -> None:
    command = Path("bin/appl")
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m appl "$@"\n')
    command.chmod(0o755)
    asked = (
        'PATH="$PWD/bin:$PATH"; compopt() { :; }; eval "$(appl completion bash)"\n'
        'COMP_LINE="$1" COMP_POINT=${#1}; _appl_completion appl; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", asked, "bash", line], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.split() == expected, done.stderr


def every_command(group: click.Group, path: str = "") -> list[str]:
    context = click.Context(group)
    found = []
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, name
        found.append(f"{path} {name}".strip())
        if isinstance(command, click.Group):
            found += every_command(command, found[-1])
    return found


@pytest.mark.parametrize("path", every_command(app))
def test_every_command_has_a_sentence_and_an_example(path: str, project: Project) -> None:
    words = path.split()
    if path == "serve sglang":  # its words are the launcher's
        return
    shown = project.appl(*words, "--help")
    assert shown.code == 0 and shown.out.startswith(f"Usage: appl {path}")
    assert f"\n  appl {path}" in shown.out or (len(words) > 1 and words[0] == "ctl"), shown.out
