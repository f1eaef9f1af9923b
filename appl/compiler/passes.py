"""The passes in order: find, survey, fence, lower, verify, assemble.

Invariant: a code object is translated once for each set of options, however often its ``def``
runs.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Literal

from appl.compiler import code as coding
from appl.compiler.bindings import survey
from appl.compiler.hooks import Hooks
from appl.compiler.lower import Lowered, docstring_of, lower
from appl.compiler.names import FunctionNames, outer_names
from appl.compiler.notes import notes_of
from appl.compiler.plain_values import PlainValues
from appl.compiler.refusals import fence
from appl.compiler.source import FunctionSource, find, forget
from appl.compiler.verify import verify_lowered

if TYPE_CHECKING:
    from appl.compiler.ir import CallCounts, Graph

Kind = Literal["sync", "async", "generator", "asyncgen"]


@dataclass(frozen=True, slots=True)
class CompilerOptions:
    """The arguments of ``@ppl`` that matter to the compiler."""

    ctx: str = "new"
    parallel: bool = False
    docstring_as: str | None = None


_DEFAULT = CompilerOptions()


class _Compiled:
    """The part that all function objects of one code object share; it refers to none of them."""

    def __init__(self, f: FunctionType, options: CompilerOptions) -> None:
        self.function = function = find(f)
        self.either_docstring = bool(options.docstring_as)
        self.kind: Kind = kind_of(f)
        self.docstring = docstring_of(function.node, function.source, self.either_docstring)
        try:
            lowered, names = lowered_from(f, function, options)
            self.code = coding.assemble(lowered, function, f.__code__)
        except RecursionError:
            raise function.source.refusal(function.node, _TOO_DEEP) from None
        self.notes = notes_of(function, names, keeps=options.ctx != "new")
        self._placed: tuple[Hooks, CodeType] | None = None

    def placed(self, hooks: Hooks) -> CodeType:
        """The code with *hooks* in place; made once as long as the hooks are the same."""
        if self._placed is None or self._placed[0] is not hooks:
            self._placed = hooks, coding.place(self.code, hooks)
        return self._placed[1]


class Translated:
    """A function's new code, and what is known of it before it runs.

    ``docstring`` is its first string if that is documentation; ``docstring_as`` makes it so.
    ``notes`` are sentences about text and answers that are sure to be lost in it.
    """

    def __init__(self, compiled: _Compiled, names: Mapping[str, object]) -> None:
        self.code, self.free = compiled.code, compiled.code.co_freevars
        self.kind, self.docstring = compiled.kind, compiled.docstring
        self.file, self.line = compiled.function.source.file, compiled.function.node.lineno
        self.placed, self.notes = compiled.placed, compiled.notes
        self._compiled, self._names, self._counting = compiled, names, False

    def __getstate__(self) -> dict[str, object]:
        """The state for another process: enough to run, without the module it was found in."""
        attributes = ("code", "free", "kind", "docstring", "file", "line", "notes")
        return {name: getattr(self, name) for name in attributes}

    @functools.cached_property
    def graph(self) -> Graph:
        """The call graph, made when it is asked for."""
        from appl.compiler.graph_source import graph_of_source  # few programs look at their graphs

        compiled = self._compiled
        return graph_of_source(
            compiled.function, self._names, compiled.kind, compiled.either_docstring
        )

    @property
    def calls(self) -> CallCounts | None:
        """The calls of an activation of it, from its graph; ``None`` if they are not known.

        They are not known while they are being counted (of a function that calls itself), and in
        a process that has got the code without its source.
        """
        if getattr(self, "_counting", True):
            return None
        self._counting = True
        try:
            return self.graph.calls
        finally:
            self._counting = False


_compiled_codes: dict[tuple[int, CompilerOptions], tuple[weakref.ref[CodeType], _Compiled]] = {}


def translate(f: FunctionType, options: CompilerOptions = _DEFAULT) -> Translated:
    """The lowered code of *f*. Raises ``PromptSyntaxError`` if it cannot be compiled."""
    key = id(f.__code__), options
    entry = _compiled_codes.get(key)
    if entry is None or entry[0]() is not f.__code__:
        code = weakref.ref(f.__code__, functools.partial(forget, _compiled_codes, key))
        entry = _compiled_codes[key] = code, _Compiled(f, options)
    if not f.__code__.co_freevars:
        return Translated(entry[1], f.__globals__)
    from appl.compiler.callee import lasting_names

    return Translated(entry[1], lasting_names(f))


def rebuild(f: FunctionType, translated: Translated, hooks: Hooks) -> FunctionType:
    """A function that is *f* with the translated code, which reaches the runtime by *hooks*."""
    code = translated.placed(hooks)
    cells = dict(zip(f.__code__.co_freevars, f.__closure__ or (), strict=True))
    closure = tuple(cells[name] for name in code.co_freevars)
    new = FunctionType(code, f.__globals__, f.__name__, f.__defaults__, closure)
    new.__kwdefaults__ = f.__kwdefaults__
    new.__qualname__, new.__module__, new.__doc__ = f.__qualname__, f.__module__, f.__doc__
    new.__dict__.update(f.__dict__)
    if hasattr(f, "__type_params__"):
        new.__type_params__ = f.__type_params__  # type: ignore[attr-defined]
    if hasattr(f, "__annotate__"):  # Python 3.14: not evaluated before somebody asks
        new.__annotate__ = f.__annotate__  # type: ignore[attr-defined]
    else:
        new.__annotations__ = f.__annotations__
    return new


def lowered_from(
    f: FunctionType, function: FunctionSource, options: CompilerOptions
) -> tuple[Lowered, FunctionNames]:
    """Fence, lower, verify; also what the names in *function* mean."""
    bindings = survey(function.node)
    names = FunctionNames(bindings, outer_names(f))
    fence(function, names, f, ctx=options.ctx, parallel=options.parallel)
    lowered = lower(
        function, names, PlainValues(names, bindings), quiet_docstring=bool(options.docstring_as)
    )
    verify_lowered(lowered.node, function.node)
    return lowered, names


def kind_of(f: FunctionType) -> Kind:
    """The kind of object that a call of *f* makes."""
    if inspect.isasyncgenfunction(f):
        return "asyncgen"
    if inspect.iscoroutinefunction(f):
        return "async"
    return "generator" if inspect.isgeneratorfunction(f) else "sync"


_TOO_DEEP = (
    "an expression or an elif chain here is nested too deeply to be compiled; "
    "split it, or move a part of it into a function of its own"
)
