"""Completions of a RUN, a program or its parameters on a command line.

Invariant: files are only read, and no program is imported.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from appl.config import load
from appl.errors import ApplError

_MOST = 50


def runs(_: click.Context, __: click.Parameter, begun: str) -> list[CompletionItem]:
    """The names of recorded runs, the newest first, and ``last``."""
    names = []
    with contextlib.suppress(ApplError, OSError):
        names = sorted((path.stem for path in (load().home / "runs").glob("*.trace")), reverse=True)
    names_found = [name for name in ("last", *names) if name.startswith(begun)]
    return [CompletionItem(name) for name in names_found[:_MOST]]


def targets(_: click.Context, __: click.Parameter, begun: str) -> list[CompletionItem]:
    """Python files and folders, or after ``file.py:`` the functions of that file."""
    place, colon, function = begun.rpartition(":")
    if colon:
        names = (name for name, _ in _functions(Path(place)))
        return [CompletionItem(f"{place}:{n}") for n in names if n.startswith(function)]
    start = begun.rpartition("/")[2]
    folder = begun.removesuffix(start)
    with contextlib.suppress(OSError):
        every = sorted(path for path in Path(folder or ".").iterdir() if path.name[0] != ".")
        named = (path for path in every if path.name.startswith(start))
        return [item for path in named for item in _file(path, folder)]
    return []


def _file(path: Path, prefix: str) -> Iterator[CompletionItem]:
    if path.is_dir():
        yield CompletionItem(f"{prefix}{path.name}/", type="part")
    elif path.suffix == ".py":
        yield CompletionItem(f"{prefix}{path.name}")
        yield CompletionItem(f"{prefix}{path.name}:", type="part")


def parameters(target: str | None, begun: str) -> list[CompletionItem]:
    """The parameters of the function that *target* names, as options."""
    place, colon, function = (target or "").rpartition(":")
    parameters_by_function = dict(_functions(Path(place if colon else function)))
    names = parameters_by_function.get(function if colon else "main", [])
    flags = (f"--{name.replace('_', '-')}" for name in names)
    return [CompletionItem(flag) for flag in flags if flag.startswith(begun)]


def _functions(file: Path) -> list[tuple[str, list[str]]]:
    """The public functions of *file*, each with the names of its parameters."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    kinds: Any = (ast.FunctionDef, ast.AsyncFunctionDef)
    functions = [node for node in tree.body if isinstance(node, kinds) and node.name[0] != "_"]
    return [
        (node.name, [arg.arg for arg in (*node.args.args, *node.args.kwonlyargs)])
        for node in functions
    ]
