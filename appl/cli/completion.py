"""``appl completion``: completion of commands, options, runs and functions in the shell.

Invariant: nothing of the user's programs is run or imported; their functions are read from source.
"""

from __future__ import annotations

import os
import shlex
from typing import Any

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    add_completion_class,
    get_completion_class,
    shell_complete,
)

from appl.cli.commands import Options, WordChoice, appl_command, argument
from appl.cli.exits import OK
from appl.cli.terminal import out

VARIABLE = "_APPL_COMPLETE"
_SHELLS = ("bash", "zsh", "fish")
_BASH = """\
%(complete_func)s() {
    local IFS=$'\\n' line type value
    COMPREPLY=()
    while IFS= read -r line; do
        type="${line%%%%,*}" value="${line#*,}"
        if [[ $type == dir ]]; then
            compopt -o dirnames
        elif [[ $type == file ]]; then
            compopt -o default
        elif [[ $type == part ]]; then
            compopt -o nospace
            COMPREPLY+=("$value")
        else
            COMPREPLY+=("$value")
        fi
    done < <(env APPL_LINE="${COMP_LINE:0:COMP_POINT}" APPL_BREAKS="$COMP_WORDBREAKS" \\
        %(complete_var)s=bash_complete "$1" 2>/dev/null)
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""
_INSTALL = {
    "bash": "appl completion bash > ~/.local/share/bash-completion/completions/appl",
    "zsh": "echo 'eval \"$(appl completion zsh)\"' >> ~/.zshrc",
    "fish": "appl completion fish > ~/.config/fish/completions/appl.fish",
}


class Bash(BashComplete):
    """Completion for bash, which splits words at ``:`` and ``=``: the line is split here."""

    source_template = _BASH

    def source(self) -> str:
        """The script, without checking the version of bash."""
        return str(self.source_template % self.source_vars())

    def get_completion_args(self) -> tuple[list[str], str]:
        """The complete words before the cursor, and the incomplete one."""
        line = os.environ["APPL_LINE"]
        lexer = shlex.shlex(line, posix=True)
        lexer.whitespace_split, lexer.commenters = True, ""
        words: list[str] = []
        try:
            words += lexer
        except ValueError:
            words.append(lexer.token)
        words = words[1:]
        self._begun = words.pop() if words and not line[-1:].isspace() else ""
        return words, self._begun

    def format_completion(self, item: CompletionItem) -> str:
        """The type, and the part of the value that bash takes for the last word."""
        breaks = [sign for sign in ":=" if sign in os.environ.get("APPL_BREAKS", ":=")]
        prefix_length = max((self._begun.rfind(sign) + 1 for sign in breaks), default=0)
        value = self._begun.partition("=")[2] if self._begun.startswith("--") else self._begun
        cut = max((value.rfind(sign) + 1 for sign in breaks), default=0) if prefix_length else 0
        return f"{item.type},{str(item.value)[cut:]}"


@appl_command(
    "completion", example="\n".join(f"{line}  # {shell}" for shell, line in _INSTALL.items())
)
@argument("shell", type=WordChoice(_SHELLS), metavar="SHELL", help="bash, zsh or fish")
def command(options: Options) -> int:
    """Print a script that makes your shell complete the words after `appl`.

    It completes commands, options, the names of recorded runs, and the functions of a file. The
    examples install it for every new shell.
    """
    add_completion_class(Bash, "bash")
    shell_class: Any = get_completion_class(options.shell)
    out(shell_class(click.Group("appl"), {}, "appl", VARIABLE).source())
    return OK


def complete(app: click.Command, instruction: str) -> int:
    """Answer a shell's request for completions; return the exit code."""
    add_completion_class(Bash, "bash")
    return shell_complete(app, {}, "appl", VARIABLE, instruction)
