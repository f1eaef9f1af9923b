"""From a function object to its ``def`` in the AST of its file.

Invariant: a file is parsed once for each of its contents, and a node that is handed out has the
positions of that file.
"""

from __future__ import annotations

import ast
import functools
import io
import linecache
import warnings
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import TypeVar

from appl.compiler.trees import module_tree
from appl.errors import PromptSyntaxError, SourceUnavailable

Def = ast.FunctionDef | ast.AsyncFunctionDef
DEFS = (ast.FunctionDef, ast.AsyncFunctionDef)
_K = TypeVar("_K")
_V = TypeVar("_V")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """The text of one file, by line; ``given`` is the list that linecache holds."""

    file: str
    lines: Sequence[str]
    raw_lines: Sequence[str]

    def refusal(self, node: ast.AST, message: str) -> PromptSyntaxError:
        """The error that points at *node* with a caret and says what to write instead."""
        line, end = getattr(node, "lineno", 1), getattr(node, "end_lineno", None)
        where = (
            self.file,
            line,
            self._column(line, getattr(node, "col_offset", 0)),
            self._line(line),
            end,
            None if end is None else self._column(end, getattr(node, "end_col_offset", 0)),
        )
        return PromptSyntaxError(message, where)

    def _line(self, line: int) -> str:
        return self.lines[line - 1] if 0 < line <= len(self.lines) else ""

    def _column(self, line: int, offset: int) -> int:
        return len(self._line(line).encode()[:offset].decode(errors="replace")) + 1


@dataclass(frozen=True, slots=True)
class FunctionSource:
    """A ``def``, the class whose private names it sees, and its dotted path in the file."""

    source: SourceFile
    node: Def
    owner: str | None
    path: str


@dataclass(frozen=True, slots=True)
class Module:
    """A parsed file with its functions by first line and name."""

    source: SourceFile
    tree: ast.Module
    functions: dict[tuple[int, str], FunctionSource]


_modules: dict[str, Module] = {}
_MOST_FILES = 8  # files whose trees are kept; decorating goes file by file
_nested: dict[int, tuple[weakref.ref[CodeType], FunctionSource]] = {}


def find(f: FunctionType) -> FunctionSource:
    """The definition of *f*. Raises ``SourceUnavailable`` or ``PromptSyntaxError``."""
    code = f.__code__
    if is_remembered(code):
        return _nested[id(code)][1]
    if code.co_name == "<lambda>":
        lines, line = _lines_of(code, f.__globals__), code.co_firstlineno
        text = lines[line - 1] if line <= len(lines) else ""
        column = max(text.find("lambda"), 0) + 1
        raise PromptSyntaxError(
            "a lambda has no statements, so it cannot add to a prompt; "
            "write a def: `@ppl` on its own line, then `def name(...):`",
            (code.co_filename, line, column, text, line, column + 6),
        )
    function = module_of(code, f.__globals__).functions.get((code.co_firstlineno, code.co_name))
    if function is None:
        raise stale(code)
    # Parameters and extent must agree; the names used are compared after compiling.
    args, end = function.node.args, function.node.end_lineno
    counts = (len(args.posonlyargs) + len(args.args), len(args.posonlyargs), len(args.kwonlyargs))
    last = max((line for *_, line in code.co_lines() if line is not None), default=0)
    if last > (end or last) or counts != (
        code.co_argcount,
        code.co_posonlyargcount,
        code.co_kwonlyargcount,
    ):
        raise stale(code)
    return function


def remember(code: CodeType, function: FunctionSource) -> None:
    """Remember the definition of a nested function's code, even if its file changes later."""
    key = id(code)
    _nested[key] = (weakref.ref(code, functools.partial(forget, _nested, key)), function)


def forget(cache: dict[_K, _V], key: _K, _: object) -> None:
    """Drop *key*: the callback of a weak reference to the object that it stands for."""
    cache.pop(key, None)


def is_remembered(code: CodeType) -> bool:
    """True if *code* is that of a ``@ppl`` function inside a compiled one."""
    entry = _nested.get(id(code))
    return entry is not None and entry[0]() is code


def peers(function: FunctionSource) -> list[FunctionSource]:
    """The functions of the same class or, outside classes, of the same file, if still known."""
    module = _modules.get(function.source.file)
    everything = module.functions.values() if module is not None else ()
    return [other for other in everything if other.owner == function.owner]


def stale(code: CodeType) -> SourceUnavailable:
    """The error for source that is not what the loaded function was compiled from."""
    return SourceUnavailable(
        f"{code.co_filename}:{code.co_firstlineno}: the source there is not that of the loaded "
        f"function {code.co_name}(); the file changed after it was imported: restart Python or "
        f"reload the module"
    )


def module_of(code: CodeType, namespace: dict[str, object]) -> Module:
    """The parsed file of *code*."""
    lines = _lines_of(code, namespace)
    if not lines:
        raise SourceUnavailable(
            f"no source for {code.co_name}() of {code.co_filename}: @ppl compiles a function from "
            f"its source text. Put it into a file; code made by exec() needs its text in "
            f"linecache.cache[filename] = (len(text), None, text.splitlines(True), filename) "
            f"under the filename given to compile()"
        )
    cached = _modules.get(code.co_filename)
    if cached is not None and (
        cached.source.raw_lines is lines or cached.source.raw_lines == lines
    ):
        return cached
    try:
        module = parse(code.co_filename, lines)
    except SyntaxError as error:
        raise stale(code) from error
    _modules.pop(code.co_filename, None)
    while len(_modules) >= _MOST_FILES:
        _modules.pop(next(iter(_modules)), None)
    _modules[code.co_filename] = module
    return module


def parse(file: str, lines: Sequence[str]) -> Module:
    """The tree of a file and its functions."""
    text = "".join(lines)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the import of the file has shown them already
        tree = module_tree(text, file)
    source = SourceFile(file, list(io.StringIO(text, newline=None)), lines)
    return Module(source, tree, dict(_functions(source, tree)))


def first_line(node: Def) -> int:
    """The line where the code object of *node* begins: that of its first decorator."""
    return node.decorator_list[0].lineno if node.decorator_list else node.lineno


def _functions(
    source: SourceFile, tree: ast.Module
) -> Iterator[tuple[tuple[int, str], FunctionSource]]:
    todo: list[tuple[Sequence[ast.AST], str | None, str]] = [(tree.body, None, "")]
    while todo:
        body, owner, path = todo.pop()
        for node in body:
            inner_owner, inner_path = owner, path
            if isinstance(node, DEFS):
                function = FunctionSource(source, node, owner, path + node.name)
                yield (first_line(node), node.name), function
                inner_path = path + node.name + "."
            elif isinstance(node, ast.ClassDef):
                inner_owner, inner_path = node.name, path + node.name + "."
            for block in ("body", "orelse", "finalbody", "handlers", "cases"):
                if inner := getattr(node, block, None):
                    todo.append((inner, inner_owner, inner_path))


def _lines_of(code: CodeType, namespace: dict[str, object]) -> Sequence[str]:
    file = code.co_filename
    linecache.checkcache(file)
    lines: Sequence[str] = linecache.getlines(file, namespace)
    if file not in ("<string>", "<stdin>"):
        return lines
    from appl.compiler import interactive_source

    if file == "<string>":  # the name that exec() gives to whatever it runs
        is_entered = interactive_source.contains("".join(lines), "exec", code)
        return lines if is_entered else interactive_source.program_of(code)
    if file == "<stdin>" and not lines:
        return interactive_source.statement_of(code)
    return lines
