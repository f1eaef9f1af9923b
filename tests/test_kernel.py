"""The kernel runs without the parts: a program is recorded, replayed and resumed, and loads none."""

from __future__ import annotations

import ast
import io
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tokenize
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

import pytest

from appl.parts import PARTS

SOURCES = Path(__file__).parents[1]
KERNEL = Path(__file__).parent / "kernel"
"""A program, and the check of it, which a wheel without the parts runs too."""


def installed_without(parts: Iterable[str], folder: Path) -> Path:
    """A folder with this package but for *parts*, as links."""
    files = [SOURCES.joinpath(*part.split(".")) for part in parts]
    absent = {*files, *(file.with_suffix(".py") for file in files)}
    for root, folders, names in os.walk(SOURCES / "appl"):
        here = Path(root)
        there = folder / here.relative_to(SOURCES)
        there.mkdir(parents=True)
        for name in [*names, "__pycache__"]:
            if here / name not in absent and (here / name).exists():
                (there / name).symlink_to(here / name)
        folders[:] = [
            each for each in folders if each != "__pycache__" and here / each not in absent
        ]
    return folder


def run(folder: Path, *words: str, without: Iterable[str]) -> subprocess.CompletedProcess[str]:
    """Python with *words*, where the package is installed *without* some parts."""
    shutil.copy(KERNEL / "program.py", folder)
    package = installed_without(without, folder / "installed")
    places = [package, SOURCES / "backends", sysconfig.get_path("purelib")]
    settings = {
        "HOME": str(folder),
        "XDG_STATE_HOME": str(folder),
        "APPL_CTL": "off",
        "PYTHONPATH": os.pathsep.join(map(str, places)),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [sys.executable, "-S", *words]  # no .pth file leads to the whole package
    return subprocess.run(
        command, cwd=folder, env={**os.environ, **settings}, capture_output=True, text=True
    )


def test_a_program_is_recorded_replayed_and_resumed_without_any_part(tmp_path: Path) -> None:
    done = run(tmp_path, str(KERNEL / "check.py"), without=PARTS)
    assert done.returncode == 0, done.stderr


def kernel_files(folder: Path) -> list[Path]:
    """The files of the modules that load where the program is recorded, replayed and resumed."""
    # A thread may load one meanwhile, so the names are taken at once.
    found = "import sys; print(*(n for n in [*sys.modules] if n.split('.')[0] == 'appl'))"
    code = f"exec(open({str(KERNEL / 'check.py')!r}).read()); {found}"
    done = run(folder, "-c", code, without=PARTS)
    assert done.returncode == 0, done.stderr
    return [Path(find_spec(name).origin or "") for name in done.stdout.split()]


def section() -> str:
    """What the page on the architecture says of the kernel."""
    page = (SOURCES / "ARCHITECTURE.md").read_text("utf-8")
    return page.partition("## The kernel")[2].partition("\n## ")[0]


def code_lines(source: str) -> int:
    """The number of lines of *source* without blank ones, comments and docstrings."""
    documented: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            text = node.body[0]
            documented.update(range(text.lineno, (text.end_lineno or text.lineno) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - documented)


DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
NO_CODE = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
)


def test_the_rooms_of_the_kernel_are_those_that_the_page_names(tmp_path: Path) -> None:
    named = set(re.findall(r"`(appl/[\w/]*)(?:`|errors\.py`)", section()))
    files = kernel_files(tmp_path)
    assert named == {f"{each.parent.relative_to(SOURCES)}/" for each in files}


def test_the_kernel_has_no_more_lines_of_code_than_the_page_says(tmp_path: Path) -> None:
    bound = re.search(r"([\d,]+) lines of code", section())
    assert bound is not None
    count = sum(code_lines(each.read_text("utf-8")) for each in kernel_files(tmp_path))
    assert count <= int(bound[1].replace(",", "")), count


def test_every_part_is_in_this_package() -> None:
    assert all(find_spec(part) is not None for part in PARTS)


PYTHON = {
    "appl.parts.evaluation": "import appl; appl.evaluate(len, ['a'])",
    "appl.parts.optimization": "import appl; appl.optimize(len, ['a'])",
    "appl.parts.search": "import appl; appl.keep(['a'], [1], 1)",
    "appl.parts.sandbox": "import appl; appl.run_code('1')",
    "appl.parts.conversations": "import appl; appl.Conversation().save('chat.json')",
    "appl.parts.engine": "import appl; appl.map(len, ['a'], engine='processes')",
    "appl.mcp": "import appl; appl.mcp.stdio",
    "appl.runtime.answers.choice": "import appl; appl.select(['a', 'b'], messages='Which?')",
    "appl.runtime.answers.shape": "import appl; appl.gen(response_format=int, messages='1?')",
    "appl.runtime.embedding": "import appl; appl.embed('a')",
    "appl.runtime.prompts.passages": "import appl; appl.passages(['a'])",
    "appl.runtime.prompts.compositor": "from appl import NumberedList",
    "appl.runtime.tools": "import appl; appl.gen(tools=[len], messages='How long?')",
}
COMMANDS = {
    "appl.parts.evaluation": "eval program.py:ask cases.jsonl",
    "appl.parts.optimization": "optimize program.py:ask cases.jsonl",
    "appl.parts.serving": "serve program.py",
    "appl.compiler.lint": "check program.py",
    "appl.compiler.plan": "plan program.py",
    "appl.tracing.explaining": "trace cost a.trace",
    "appl.tracing.viewer": "trace view a.trace",
}
WAYS = {
    **{part: ("-c", code) for part, code in PYTHON.items()},
    **{part: ("-m", "appl", *words.split()) for part, words in COMMANDS.items()},
}


@pytest.mark.parametrize("part", WAYS)
def test_a_part_that_is_missing_and_asked_for_says_what_it_is_and_how_to_get_it(
    part: str, tmp_path: Path
) -> None:
    done = run(tmp_path, *WAYS[part], without=[part])
    assert done.returncode != 0
    assert f"lacks a part, {part} ({PARTS[part]})" in done.stderr
    assert "pip install --force-reinstall appl" in done.stderr
