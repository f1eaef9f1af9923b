"""Resolves the names in a function: to an object that exists now, or to a value of run time.

Invariant: nothing of the user's is run to find out; only dictionaries, cells and modules are read.
"""

from __future__ import annotations

import ast
import builtins
from collections import ChainMap
from collections.abc import Mapping
from types import FunctionType, ModuleType
from typing import Final, final

from appl.compiler.bindings import Survey
from appl.compiler.nodes import copied


@final
class Unknown:
    """Stands for an expression whose object is not known before the program runs."""


UNKNOWN: Final = Unknown()


class FunctionNames:
    """The names of one function: those it binds itself, and those it sees from outside.

    A name that it binds once, to another name, stands for the same object.
    """

    def __init__(self, survey: Survey, outer: Mapping[str, object]) -> None:
        self._bound, self._aliases, self._outer = survey.bound, survey.aliases, outer

    def object_of(self, node: ast.expr) -> object:
        """The object of a global or closed-over name, or of a module's attribute."""
        node = self.meaning(node)
        if isinstance(node, ast.Name):
            return self._named(node.id)
        if isinstance(node, ast.Attribute):
            owner = self.object_of(node.value)
            if isinstance(owner, ModuleType):
                return module_member(owner, node.attr)
        return UNKNOWN

    def meaning(self, node: ast.expr, visited: frozenset[str] = frozenset()) -> ast.expr:
        """*node*, or the expression that its name stands for; names in *visited* do not count."""
        if isinstance(node, ast.Name) and node.id in self._aliases and node.id not in visited:
            return self.meaning(self._aliases[node.id], visited | {node.id})
        if isinstance(node, ast.Attribute):
            owner = self.meaning(node.value, visited)
            return node if owner is node.value else copied(node, value=owner)
        return node

    def is_builtin(self, name: str) -> bool:
        """True if *name* means Python's own builtin."""
        return self._named(name) is getattr(builtins, name, None)

    def _named(self, name: str) -> object:
        if name in self._bound:
            return UNKNOWN
        value = self._outer.get(name, UNKNOWN)
        return getattr(builtins, name, UNKNOWN) if value is UNKNOWN else value

    def is_open(self, name: str) -> bool:
        """True if *name* stands for an object that only the running program has."""
        return name in self._bound or self._outer.get(name) is UNKNOWN


def outer_names(f: FunctionType) -> Mapping[str, object]:
    """The names that *f* sees from outside: its cells, then its globals."""
    cells = dict[str, object]()
    for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
        try:
            cells[name] = cell.cell_contents
        except ValueError:  # bound later
            cells[name] = UNKNOWN
    return ChainMap(cells, f.__globals__)


def module_member(module: ModuleType, name: str) -> object:
    """A loaded member of *module*; only our own package is asked to load a missing one."""
    if module.__name__ == "appl":
        return getattr(module, name, UNKNOWN)
    return vars(module).get(name, UNKNOWN)


def origin(value: object) -> str:
    """``"ppl"``, ``"gen"``, …: the name under which appl publishes *value*, or an empty string."""
    module = getattr(value, "__module__", None)
    if isinstance(module, str) and module.partition(".")[0] == "appl":
        name = getattr(value, "__name__", "")
        return name if isinstance(name, str) else ""
    return ""


def ppl_decorator(
    node: ast.FunctionDef | ast.AsyncFunctionDef, names: FunctionNames
) -> ast.expr | None:
    """The decorator of *node* that is ``ppl`` or ``ppl(...)``: by object, else by name."""
    for decorator in node.decorator_list:
        func = decorator.func if isinstance(decorator, ast.Call) else decorator
        value, name = names.object_of(func), getattr(func, "attr", getattr(func, "id", None))
        if (name if value is UNKNOWN else origin(value)) == "ppl":
            return decorator
    return None
