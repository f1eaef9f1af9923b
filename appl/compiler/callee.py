"""Classifies the target of a call: one of appl's own functions, a prompt function, or any other.

Invariant: recognised by object wherever an object can be had, by name only where none can. Nothing
is run to find out.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
import sys
from collections import ChainMap, Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from types import CodeType, FunctionType, MethodType, ModuleType

from appl.compiler.bindings import Survey
from appl.compiler.hooks import program_of
from appl.compiler.ir import CallCounts
from appl.compiler.names import (
    UNKNOWN,
    FunctionNames,
    module_member,
    origin,
    outer_names,
    ppl_decorator,
)
from appl.compiler.source import Module

_ROLES = ("AIRole", "UserRole", "SystemRole", "ToolRole")
_COMPOSITORS = (
    "Compositor",
    "ApplStr",
    "LineSeparated",
    "DoubleLineSeparated",
    "NoIndent",
    "IndentedList",
    "NumberedList",
    "LowerLetterList",
    "UpperLetterList",
    "LowerRomanList",
    "UpperRomanList",
    "LetterList",
    "RomanList",
    "DashList",
    "StarList",
    "Logged",
    "Tagged",
    "InlineTagged",
)
_BY_ORIGIN = {
    **{name: name for name in ("gen", "select", "call", "map", "grow")},
    "gen_with_tools": "gen",
    **{name: "prompt" for name in ("records", "convo")},
    **{name: "role" for name in (*_ROLES, *_COMPOSITORS)},
    "iter": "keeps",
    **{name: "message" for name in ("SystemMessage", "UserMessage", "AIMessage", "ToolMessage")},
}
ASKING = ("gen", "select")
OTHERS = ("plain", "unknown")
"""The kinds of what is neither appl's own nor a prompt function."""
_BY_NAME = ("gen", "select", "grow", "records", "convo", *_ROLES, *_COMPOSITORS)
_KEEPS = frozenset({"len", "zip", "enumerate", "reversed", "isinstance", "id", "type"})
_HOLDERS = frozenset({"list", "tuple", "dict", "deque", "SimpleNamespace"})
_ORDINARY = frozenset(
    name
    for kind in (str, bytes, int, float, list, tuple, dict, set, re.Match, re.Pattern)
    for name in dir(kind)
) | {"cancel", "done", "render", "result", "run_tool_calls"}
"""Methods of Python's own values and of answers, which ask no model."""
STORES = frozenset({"append", "extend", "insert", "appendleft", "setdefault", "update", "put"})


@dataclass(slots=True)
class Callees:
    """Recognises calls; ``programs`` and ``methods`` are names of prompt functions close by.

    Of the functions inside, ``nested`` are the prompt functions, ``local`` are the others.
    """

    names: FunctionNames
    programs: Collection[str] = ()
    methods: Collection[str] = ()
    nested: set[str] = field(default_factory=set)
    local: set[str] = field(default_factory=set)

    def kind(self, func: ast.expr) -> str:
        """The kind of a callee: ``gen``, ``program``, ``role``, …; ``keeps`` if it never waits.

        ``unknown`` is a function that may ask a model, ``plain`` any other.
        """
        value = self.names.object_of(func)
        if value is UNKNOWN:
            return self._by_name(func)
        if is_program(value):
            return "program"
        if published := _published(value):
            return published
        name = getattr(value, "__name__", "")
        if name in _KEEPS or name in _HOLDERS:
            return "keeps"
        return "unknown" if may_ask(value) else "plain"

    def may_ask(self, call: ast.Call) -> bool:
        """True if *call* is of a function that may ask a model, or gets one and may call it."""
        kind = self.kind(call.func)
        if kind != "plain" or self.name(call.func) == "partial":
            return kind == "unknown"
        values = [*call.args, *(keyword.value for keyword in call.keywords)]
        named = (value for value in values if isinstance(value, ast.Name | ast.Attribute))
        return any(self.kind(value) in (*ASKING, "program") for value in named)

    def counts(self, func: ast.expr) -> CallCounts | None:
        """The calls of a prompt function on its caller's prompt; ``None`` if they are not known."""
        program = program_of(self.names.object_of(func))
        at_once = program is not None and program.kind in ("sync", "async")
        return program.translated.calls if at_once and not program.decoration.parallel else None

    def name(self, func: ast.expr) -> str:
        """The name under which appl publishes the callee, else the name in the source."""
        published = origin(self.names.object_of(func))
        return published or str(getattr(func, "attr", getattr(func, "id", "")))

    def written(self, func: ast.expr) -> str:
        """The name under which *func* is known outside of the function."""
        return ast.unparse(self.names.meaning(func))

    def ctx(self, func: ast.expr) -> str:
        """The prompt mode of a prompt function; an empty string if it is not known."""
        value = self.names.object_of(func)
        return value.ctx if isinstance(value, Published) else _ctx_of(value)

    def _by_name(self, func: ast.expr) -> str:
        if isinstance(func, ast.Name):
            if func.id in self.programs or func.id in self.nested:
                return "program"
            if func.id in _BY_NAME:
                return _BY_ORIGIN[func.id]
            hidden = self.names.is_open(func.id) and func.id not in self.local
            return "unknown" if hidden else "plain"
        if not isinstance(func, ast.Attribute):
            return "unknown"
        if func.attr in STORES:
            return "stores"
        receiver = isinstance(func.value, ast.Name) and func.value.id in ("self", "cls")
        if receiver and func.attr in self.methods:
            return "program"
        owner = self.names.object_of(func.value)
        if func.attr in _ORDINARY or isinstance(owner, ModuleType):
            return "plain"
        member = UNKNOWN if owner is UNKNOWN else inspect.getattr_static(owner, func.attr, UNKNOWN)
        if member is UNKNOWN:
            return "unknown"
        member = getattr(member, "__func__", member)
        return "program" if is_program(member) else "unknown" if may_ask(member) else "plain"


def _published(value: object) -> str | None:
    """The kind of an object that appl publishes; a subclass has the kind of its nearest base."""
    if isinstance(value, type):
        return next(filter(None, map(_BY_ORIGIN.get, map(origin, value.__mro__))), None)
    return _BY_ORIGIN.get(origin(value))


class Published:
    """Stands for one of appl's public names, or for a prompt function, and keeps neither alive."""

    def __init__(self, name: str, *, program: bool = False, ctx: str = "") -> None:
        self.__name__, self.__module__ = name, "appl"
        self.is_program, self.ctx = program, ctx


class _Package(ModuleType):
    def __getattr__(self, name: str) -> Published:
        return Published(name)


def is_program(value: object) -> bool:
    """True if *value* is a prompt function, as ``@ppl`` makes them."""
    if isinstance(value, Published):
        return value.is_program
    return program_of(value) is not None


def _ctx_of(program: object) -> str:
    return str(getattr(program_of(program), "ctx", ""))


_MOST = 500
"""Functions that are looked at."""
_ELSEWHERE = sys.stdlib_module_names | {"appl", "appl_backends"}
"""Packages whose functions ask no model; those of installed packages ask none either."""
_MAKERS = ("__new__", "__init__", "__post_init__")


def may_ask(value: object) -> bool:
    """True if a function that is no prompt function may ask a model, by the names in its code."""
    makers = [vars(value).get(name) for name in _MAKERS] if isinstance(value, type) else [value]
    todo, visited = makers, set[CodeType]()
    while todo and len(visited) < _MOST:
        for function in _functions(todo.pop()):
            if function.__code__ in visited:
                continue
            visited.add(function.__code__)
            named = list(_named(function))
            if any(is_program(member) or _published(member) in ASKING for member in named):
                return True
            todo += named
    return False


def _functions(value: object) -> Iterator[FunctionType]:
    """The functions of the user's own code that a call of *value* may run."""
    while isinstance(value, functools.partial | MethodType | staticmethod | classmethod):
        value = value.func if isinstance(value, functools.partial) else value.__func__
    if isinstance(value, FunctionType):
        if _is_own(value.__module__, value.__code__.co_filename):
            yield value
        return
    kind = value if isinstance(value, type) else type(value)
    if _is_own(kind.__module__, ""):
        yield from (var for var in vars(kind).values() if isinstance(var, FunctionType))


def _is_own(module: object, file: str) -> bool:
    return str(module).partition(".")[0] not in _ELSEWHERE and "site-packages" not in file


def _named(function: FunctionType) -> Iterator[object]:
    """The objects that the code of *function*, and the code inside it, names."""
    outer, codes = outer_names(function), [function.__code__]
    for code in codes:  # which grows by the code inside
        codes += filter(inspect.iscode, code.co_consts)
        for name in (*code.co_names, *code.co_freevars):
            value = outer.get(name, UNKNOWN)
            yield value
            if isinstance(value, ModuleType):
                yield from (module_member(value, member) for member in code.co_names)


def lasting_names(f: FunctionType) -> Mapping[str, object]:
    """The names that *f* sees from outside, without keeping alive what its cells hold."""
    outer = outer_names(f)
    cells = {name: _stand_in(outer[name]) for name in f.__code__.co_freevars}
    return ChainMap(cells, f.__globals__)


def _stand_in(value: object) -> object:
    if is_program(value):
        return Published(getattr(value, "__name__", ""), program=True, ctx=_ctx_of(value))
    if name := origin(value):
        return Published(name)
    if isinstance(value, ModuleType):
        return value
    return _plain if callable(value) and not may_ask(value) else UNKNOWN


def _plain() -> None:
    """Stands for a function that asks no model, and does not keep it alive."""


def static_names(module: Module) -> dict[str, object]:
    """A file's imports from appl and its prompt functions, by name, found without running it."""
    members = _imports(module.tree)
    names = FunctionNames(Survey(), members)
    for function in module.functions.values():
        decorator = ppl_decorator(function.node, names)
        if decorator is not None and function.path == function.node.name:
            ctx = str(constant_options(decorator).get("ctx", "new"))
            members[function.path] = Published(function.path, program=True, ctx=ctx)
    return members | _aliases(module.tree, names)


def _aliases(tree: ast.Module, names: FunctionNames) -> dict[str, object]:
    """Names at the top level that are bound once, to another that is known."""
    pairs = [
        (target.id, names.object_of(node.value))
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    ]
    times = Counter(name for name, _ in pairs)
    return {name: value for name, value in pairs if times[name] == 1 and value is not UNKNOWN}


def constant_options(decorator: ast.expr) -> dict[str, object]:
    """The constant arguments of ``@ppl(...)``."""
    if not isinstance(decorator, ast.Call):
        return {}
    arguments = {keyword.arg: keyword.value for keyword in decorator.keywords if keyword.arg}
    if decorator.args:
        arguments["ctx"] = decorator.args[0]
    return {name: node.value for name, node in arguments.items() if isinstance(node, ast.Constant)}


def _imports(tree: ast.Module) -> dict[str, object]:
    imports: dict[str, object] = {}
    for node in tree.body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                package = alias.name.partition(".")[0]
                if package == "appl":
                    imports[alias.asname or package] = _Package("appl")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "appl":
            for alias in node.names:
                names = [*_BY_ORIGIN, "ppl"] if alias.name == "*" else [alias.name]
                imports |= {alias.asname or name: Published(name) for name in names if name != "*"}
    return imports
