"""Source outside files: the argument of ``python -c`` and the last statement of the REPL.

Invariant: such text is used only if it compiles to the very code in question.
"""

from __future__ import annotations

import sys
import textwrap
import warnings
from collections.abc import Sequence
from types import CodeType

from appl.compiler.trees import FUTURES

_WITH_VALUE = "WX"  # options of the interpreter that take the next argument
_LONGEST = 400  # lines of history to look at


def command(argv: Sequence[str]) -> str:
    """The program text in ``python [options] -c text ...``, or an empty string."""
    rest = list(argv[1:])
    while rest and rest[0].startswith("-") and rest[0] != "-":
        option = rest.pop(0)
        if option.startswith("--"):
            del rest[: option == "--check-hash-based-pycs"]
            continue
        for at, letter in enumerate(option[1:], 2):
            if letter == "c":
                return option[at:] or (rest[0] if rest else "")
            if letter == "m":
                return ""
            if letter in _WITH_VALUE:
                if not option[at:] and rest:
                    rest.pop(0)
                break
    return ""


def statement_of(code: CodeType) -> Sequence[str]:
    """The lines of the interactive statement that contains *code*; none if it is not known."""
    readline = sys.modules.get("readline")
    if readline is None:
        return []
    length: int = readline.get_current_history_length()
    lines: list[str] = []
    for item in range(length, max(length - _LONGEST, 0), -1):
        lines.insert(0, (readline.get_history_item(item) or "") + "\n")
        if len(lines) >= code.co_firstlineno and contains("".join(lines) + "\n", "single", code):
            return lines
    return []


def program_of(code: CodeType) -> Sequence[str]:
    """The lines of the ``python -c`` program, if *code* is a part of it."""
    text = command(sys.orig_argv)
    for program in (text, textwrap.dedent(text)):  # Python 3.14 dedents it
        if contains(program, "exec", code):
            return program.splitlines(keepends=True)
    return []


def contains(text: str, mode: str, code: CodeType) -> bool:
    """True if *text*, compiled, contains *code*."""
    flags = code.co_flags & FUTURES
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            whole = compile(text, code.co_filename, mode, flags=flags, dont_inherit=True)
        except (SyntaxError, ValueError):
            return False
    todo = [whole]
    while todo:
        for constant in todo.pop().co_consts:
            if isinstance(constant, CodeType):
                if constant == code:
                    return True
                todo.append(constant)
    return False
