"""What the tests of the compiler share: `lowered`, `graph`, and hooks that only take notes."""

from __future__ import annotations

import ast
import contextlib
import copy
import functools
import itertools
import linecache
import textwrap
from collections.abc import AsyncIterator, Callable, Iterator
from types import FunctionType
from typing import Any

from appl.compiler.graph_source import compile_graph
from appl.compiler.hooks import PLACEHOLDER
from appl.compiler.passes import CompilerOptions, lowered_from, rebuild, translate
from appl.compiler.source import find

_numbers = itertools.count()


class Notes:
    """Hooks that note what they are told, and otherwise behave as plain Python does."""

    def __init__(self) -> None:
        self.log: list[tuple[Any, ...]] = []

    def take(self) -> list[tuple[Any, ...]]:
        taken, self.log = self.log, []
        return taken

    def text(self, text: str, /) -> None:
        self.log.append(("text", text))

    def begin(self) -> None:
        self.log.append(("begin",))

    def piece(self, text: str, /) -> None:
        self.log.append(("piece", text))

    def hole(self, value: object, conversion: str, spec: str, /) -> None:
        self.log.append(("hole", value, conversion, spec))

    def say(self, value: object, /) -> None:
        self.log.append(("say", value))

    def said(self, value: object, /) -> None:
        if value is not None:
            self.log.append(("said", value))

    def prep(self, f: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Callable[[], Any]:
        return functools.partial(f, *args, **kwargs)

    def gprep(self, f: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Callable[[], Any]:
        return functools.partial(f, *args, **kwargs)

    def kept(self, value: Any = None, /) -> Any:
        return value

    def wait(self, value: Any, /) -> Any:
        return value

    def items(self, generator: Any, /) -> Any:
        return generator

    def region(self, catches: bool, /) -> Any:
        return self._noted("region")

    def scope(self, manager: Any, /) -> Any:
        return manager

    async def aprep(self, f: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return functools.partial(f, *args, **kwargs)

    async def await_(self, value: Any, /) -> Any:
        return value

    async def await_all(self, value: Any, /) -> Any:
        return value

    async def abase(self, value: Any, name: str, /) -> Any:
        return value

    async def agprep(self, f: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return functools.partial(f, *args, **kwargs)

    async def akept(self, value: Any = None, /) -> Any:
        return value

    def aregion(self, catches: bool, /) -> Any:
        return self._anoted("region")

    def ascope(self, manager: Any, /) -> Any:
        return manager

    @contextlib.asynccontextmanager
    async def mixed(self, manager: Any, /) -> AsyncIterator[Any]:
        with manager as value:
            yield value

    @contextlib.contextmanager
    def _noted(self, name: str) -> Iterator[None]:
        self.log.append((name, "in"))
        try:
            yield
        finally:
            self.log.append((name, "out"))

    @contextlib.asynccontextmanager
    async def _anoted(self, name: str) -> AsyncIterator[None]:
        with self._noted(name):
            yield


NOTES = Notes()


def ppl(f: Any = None, **options: Any) -> Any:
    """Compiles as ``@ppl`` does, over ``NOTES``; nothing of the runtime is needed."""
    if f is None:
        return lambda g: ppl(g, **options)
    return rebuild(f, translate(f, CompilerOptions(**options)), NOTES)


ppl.__module__ = "appl.stand_in"  # so that the compiler takes it for appl's own


def said(f: Callable[..., Any], *args: Any, **kwargs: Any) -> list[tuple[Any, ...]]:
    """What a compiled function tells the hooks."""
    NOTES.take()
    f(*args, **kwargs)
    return NOTES.take()


def body(source: str, **options: Any) -> str:
    """The lowered body of ``def f(a, b, c, g, xs): <source>``."""
    return _body_of(define(f"def f(a, b, c, g, xs):\n{_indented(source)}"), options)


def async_body(source: str) -> str:
    """The lowered body of an ``async def``."""
    return _body_of(define(f"async def f(a, b, c, g, xs):\n{_indented(source)}"), {})


def lowered(f: FunctionType, **options: Any) -> str:
    """The lowered form of *f* as text, in which ``@appl`` stands for the hooks."""
    made, _ = lowered_from(f, find(f), CompilerOptions(**options))
    return ast.unparse(_Printable().visit(copy.deepcopy(made.node)))


class _Printable(ast.NodeTransformer):
    """Names the hooks where the code has a placeholder."""

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        return ast.Name(id="@appl") if node.value == PLACEHOLDER else node


def graph(source: str, **names: Any) -> str:
    """The graph of the last function in *source*, without its first line and line numbers."""
    lines = compile_graph(define(source, **names)).text().splitlines()[1:]
    return "\n".join(line[2:].rpartition("  :")[0] for line in lines)


def define(source: str, **names: Any) -> Any:
    """The last function that *source* defines, from a file that only linecache knows."""
    return module(source, **names)[_last_name(source)]


def module(source: str, **names: Any) -> dict[str, Any]:
    """The globals of *source*, run as a file that only linecache knows."""
    text = textwrap.dedent(source).strip("\n") + "\n"
    file = f"<module {next(_numbers)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space = {"__name__": "made", "ppl": ppl, **names}
    exec(compile(text, file, "exec", dont_inherit=True), space)
    return space


def _body_of(f: FunctionType, options: dict[str, Any]) -> str:
    text = lowered(f, **options)
    return textwrap.dedent("\n".join(text.splitlines()[1:])).strip("\n")


def _indented(source: str) -> str:
    return textwrap.indent(textwrap.dedent(source).strip("\n"), "    ")


def _last_name(source: str) -> str:
    words = [
        line.split("def ")[1] for line in textwrap.dedent(source).splitlines() if _starts(line)
    ]
    return words[-1].split("(")[0].split("[")[0]


def _starts(line: str) -> bool:
    return line.startswith(("def ", "async def "))
