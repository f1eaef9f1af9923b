"""The passes in order: find, survey, fence, lower, verify, assemble.

Invariant: a code object is translated once for each set of options, however often its ``def``
runs.
"""

from __future__ import annotations

import ast
import copy
import inspect
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any, Literal

from appl.compiler import code as coding
from appl.compiler.fence import fence
from appl.compiler.ir import HOOKS_NAME, PLACEHOLDER, Hooks
from appl.compiler.lower import Lowered, docstring_of, lower
from appl.compiler.names import Names, outer_names
from appl.compiler.plain import Plain
from appl.compiler.source import Found, find
from appl.compiler.survey import survey
from appl.compiler.verify import verify_lowered

Kind = Literal["sync", "async", "generator", "asyncgen"]


@dataclass(frozen=True, slots=True)
class Options:
    """The arguments of ``@ppl`` that matter to the compiler."""

    ctx: str = "new"
    parallel: bool = False
    docstring_as: str | None = None


_DEFAULT = Options()


class Translated:
    """A function's new code, and what is known of it before it runs.

    ``docstring`` is its first string if that is documentation; ``docstring_as`` makes it so.
    """

    def __init__(self, f: FunctionType, found: Found, options: Options, code: CodeType) -> None:
        self.code, self.free = code, code.co_freevars
        self.kind: Kind = kind_of(f)
        self.docstring = docstring_of(found.node, found.source, bool(options.docstring_as))
        self.file, self.line = found.source.file, found.node.lineno
        self.found = found
        self._placed: tuple[Hooks, CodeType] | None = None

    def placed(self, hooks: Hooks) -> CodeType:
        """The code with *hooks* in place; made once as long as the hooks are the same."""
        if self._placed is None or self._placed[0] is not hooks:
            self._placed = hooks, coding.place(self.code, hooks)
        return self._placed[1]


_known: dict[tuple[int, Options], tuple[weakref.ref[CodeType], Translated]] = {}


def translate(f: FunctionType, options: Options = _DEFAULT) -> Translated:
    """The lowered code of *f*; refuses what cannot be compiled."""
    key = id(f.__code__), options
    known = _known.get(key)
    if known is not None and known[0]() is f.__code__:
        return known[1]
    found = find(f)
    lowered = _guarded(found, lambda: lowered_from(f, found, options))
    code = _guarded(found, lambda: coding.assemble(lowered, found, f.__code__))
    translated = Translated(f, found, options, code)
    forget = weakref.ref(f.__code__, lambda _: _known.pop(key, None))
    _known[key] = forget, translated
    return translated


def rebuild(f: FunctionType, translated: Translated, hooks: Hooks) -> FunctionType:
    """A function that is *f* with the translated code, which reaches the runtime by *hooks*."""
    return coding.function_like(f, translated.placed(hooks))


def lowered_from(f: FunctionType, found: Found, options: Options) -> Lowered:
    """Fence, lower, verify."""
    bindings = survey(found.node)
    names = Names(frozenset(bindings.bound), outer_names(f))
    fence(found, names, f, ctx=options.ctx, parallel=options.parallel)
    lowered = lower(
        found, names, Plain(names, bindings), quiet_docstring=bool(options.docstring_as)
    )
    verify_lowered(lowered.node, found.node)
    return lowered


def lowered_source(f: FunctionType, options: Options = _DEFAULT) -> str:
    """The lowered function as Python text, in which ``@appl`` stands for the hooks."""
    return ast.unparse(_Printable().visit(copy.deepcopy(lowered_from(f, find(f), options).node)))


class _Printable(ast.NodeTransformer):
    """Names the hooks where the code has a placeholder."""

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        return ast.Name(id=HOOKS_NAME) if node.value == PLACEHOLDER else node


def kind_of(f: FunctionType) -> Kind:
    """What a call of *f* makes."""
    if inspect.isasyncgenfunction(f):
        return "asyncgen"
    if inspect.iscoroutinefunction(f):
        return "async"
    return "generator" if inspect.isgeneratorfunction(f) else "sync"


def _guarded(found: Found, run: Callable[[], Any]) -> Any:
    try:
        return run()
    except RecursionError:
        raise found.source.refusal(found.node, _TOO_DEEP) from None


_TOO_DEEP = (
    "an expression or an elif chain here is nested too deeply to be compiled; "
    "split it, or move a part of it into a function of its own"
)
