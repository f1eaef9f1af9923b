"""The lowering: statements that are expressions go to the prompt, values are waited for.

Invariant: everything else in a function is untouched; each generated node has the position of the
user's node that it stands for, and an unchanged node is shared with the file's tree.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from types import ModuleType
from typing import Any, TypeVar, cast

from appl.compiler.dedent import cleaned, is_triple_quoted, parts_of, text_of
from appl.compiler.hooks import PLACEHOLDER
from appl.compiler.names import FunctionNames, ppl_decorator
from appl.compiler.nodes import LEAVES, TEMPLATES, Placed, at, constant, copied
from appl.compiler.plain_values import PlainValues
from appl.compiler.source import Def, FunctionSource, SourceFile

_N = TypeVar("_N", bound=ast.AST)


@dataclass(slots=True)
class Lowered:
    """A lowered ``def``, and the ``@ppl`` functions inside it that were left as they are."""

    node: Def
    nested: list[FunctionSource] = field(default_factory=list)


def docstring_of(node: Def, source: SourceFile, either: bool = False) -> str | None:
    """The first statement's string if it is documentation: written in three quotes.

    With *either*, a string in single quotes is documentation too.
    """
    first = node.body[0]
    if not (isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)):
        return None
    if not isinstance(first.value.value, str):
        return None
    if is_triple_quoted(first.value, source):
        return cleaned(first.value.value)
    return first.value.value if either else None


def lower(
    function: FunctionSource,
    names: FunctionNames,
    plain: PlainValues,
    *,
    quiet_docstring: bool = False,
) -> Lowered:
    """The ``def`` of *function* over the hooks; a *quiet* first string is never prompt text."""
    lowering = _Lowering(function, names, plain)
    return Lowered(lowering.root(function.node, quiet_docstring), lowering.nested)


def _starts_debugger(node: ast.expr) -> bool:
    """True if *node* calls ``breakpoint``, or a method that debuggers have under that name."""
    if not isinstance(node, ast.Call):
        return False
    called = node.func
    if isinstance(called, ast.Name):
        return called.id in ("breakpoint", "set_trace")
    return isinstance(called, ast.Attribute) and called.attr in ("breakpoint", "set_trace")


class _Lowering:
    def __init__(self, function: FunctionSource, names: FunctionNames, plain: PlainValues) -> None:
        self.function, self.source = function, function.source
        self.names, self.plain = names, plain
        self.nested: list[FunctionSource] = []
        self.awaits = False  # whether an await may stand here
        self.guarded = False  # whether each statement has its answers before the next begins
        # The first parameter of a method, whose attributes are read without a look at it.
        node, within = function.node, function.path.split(".")[-2:-1]
        is_static = any(
            isinstance(d, ast.Name) and d.id == "staticmethod" for d in node.decorator_list
        )
        first = [*node.args.posonlyargs, *node.args.args][:1]
        is_method = first and within == [function.owner] and not is_static
        self.receiver = first[0].arg if is_method else ""

    # The frame of a function

    def root(self, node: Def, quiet: bool) -> Def:
        with self._in_scope(isinstance(node, ast.AsyncFunctionDef)):
            skip = docstring_of(node, self.source, quiet) is not None
            body = self._body(node.body[skip:])
        return copied(node, body=[*node.body[:skip], *body])

    def _nested_function(self, node: Def) -> Def:
        decorators = [self.visit(written) for written in node.decorator_list]
        args = self._arguments(node.args)
        if ppl_decorator(node, self.names) is not None:
            path = f"{self.function.path}.{node.name}"
            self.nested.append(replace(self.function, node=node, path=path))
            return copied(node, decorator_list=decorators, args=args)
        documented = docstring_of(node, self.source) is not None
        with self._in_scope(isinstance(node, ast.AsyncFunctionDef)):
            body = self._body(node.body[documented:])
        if docstring_of(node, self.source, either=True) is not None:
            body.insert(0, node.body[0])  # in single quotes it is prompt text, too
        return copied(node, decorator_list=decorators, args=args, body=body)

    def _lambda(self, node: ast.Lambda) -> ast.Lambda:
        args = self._arguments(node.args)
        with self._in_scope(False):
            return copied(node, args=args, body=self.visit(node.body))

    def _class(self, node: ast.ClassDef) -> ast.ClassDef:
        return copied(
            node,
            decorator_list=[self.visit(decorator) for decorator in node.decorator_list],
            bases=[self.visit(base) for base in node.bases],
            keywords=[self.visit(keyword) for keyword in node.keywords],
        )

    def _arguments(self, node: ast.arguments) -> ast.arguments:
        return copied(
            node,
            defaults=[self.visit(default) for default in node.defaults],
            kw_defaults=[default and self.visit(default) for default in node.kw_defaults],
        )

    @contextmanager
    def _in_scope(self, awaits: bool, guarded: bool = False) -> Iterator[None]:
        before = self.awaits, self.guarded
        self.awaits, self.guarded = awaits, guarded
        yield
        self.awaits, self.guarded = before

    # Statements

    def _body(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        lowered: list[ast.stmt] = []
        for statement in body:
            if isinstance(statement, ast.Expr):
                lowered += self._statement_value(statement)
            elif isinstance(statement, ast.AugAssign) and self.awaits:
                lowered += self._augmented(statement)
            else:
                lowered.append(self.visit(statement))
            if isinstance(statement, ast.Expr) and _starts_debugger(statement.value):
                continue
            if self.guarded and isinstance(statement, _AFTERWARDS) and may_start(statement):
                lowered.append(self._settled(statement))
        return lowered

    # Statements that have their answers before the next begins

    def _catching_body(self, body: Sequence[ast.stmt], catches: bool = True) -> list[ast.stmt]:
        """A body whose exceptions a handler may catch, if *catches*."""
        with self._in_scope(self.awaits, self.guarded or catches):
            return self._body(body)

    def _awaited_value(self, node: ast.expr | None, lowered: Any) -> Any:
        """*lowered*, the value of *node*, after the answers of the calls that it started."""
        if node is None or not self.guarded or not may_start(node):
            return lowered
        if self.awaits:
            return self._awaited("akept", lowered)
        return self._hook("kept", lowered, lowered)

    def _settled(self, place: ast.stmt) -> ast.stmt:
        """A statement that waits for the calls of the statement before it, at *place*."""
        word = copied(place, end_lineno=None, end_col_offset=None)
        hook: ast.expr = self._hook("akept" if self.awaits else "kept", word)
        return at(word, ast.Expr(value=at(word, ast.Await(value=hook)) if self.awaits else hook))

    def _target(self, node: ast.expr) -> Any:
        """The target of an assignment; the object it names is finished before the store."""
        lowered = self.visit(node)
        if not self.guarded or not may_start(node):
            return lowered
        if isinstance(node, ast.Tuple | ast.List):
            return copied(node, elts=[self._target(element) for element in node.elts])
        changes: dict[str, object] = {}
        if isinstance(node, ast.Attribute | ast.Subscript):
            changes["value"] = self._awaited_value(node.value, lowered.value)
        if isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Slice):
            changes["slice"] = self._awaited_value(node.slice, lowered.slice)
        return copied(lowered, **changes) if changes else lowered

    def _value(self, node: ast.expr) -> Any:
        """A value that is stored or handed out, after the answers of its calls."""
        return self._awaited_value(node, self.visit(node))

    def _operand(self, node: ast.expr) -> Any:
        """A test, or another operand, after the answers of its calls."""
        return self._awaited_value(node, self._shallow(node))

    def _complete(self, node: ast.expr) -> Any:
        """A value that is finished also inside containers, after the answers of its calls."""
        return self._awaited_value(node, self._deep(node))

    def _statement_value(self, node: ast.Expr) -> list[ast.stmt]:
        value = node.value
        if isinstance(value, ast.Constant) and (value.value is None or value.value is ...):
            return [node]
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            return [self._tell("text", value, constant(text_of(value, self.source), value))]
        if isinstance(value, TEMPLATES):
            return self._parts(value)
        called = value.value if isinstance(value, ast.Await | ast.YieldFrom) else value
        if _starts_debugger(called):
            return [node]  # as it is: the debugger stops at the next thing that happens
        hook = "said" if isinstance(called, ast.Call) else "say"
        return [self._tell(hook, value, self.visit(value))]

    def _parts(self, node: Any) -> list[ast.stmt]:
        """An f-string statement as one item; each part is added before the next is evaluated."""
        parts = parts_of(node, self.source)
        if all(isinstance(part, str) for part in parts):
            return [self._tell("text", node, constant("".join(parts), node))]
        statements: list[ast.stmt] = [self._tell("begin", node)]
        for part in parts:
            if isinstance(part, str):
                statements.append(self._tell("piece", node, constant(part, node)))
            else:
                statements.append(self._hole(part))
        return statements

    def _hole(self, node: Any) -> ast.stmt:
        conversion = constant("" if node.conversion < 0 else chr(node.conversion), node.value)
        spec: ast.expr = constant("", node.value)
        if node.format_spec is not None:
            spec = self.visit(node.format_spec)
            if isinstance(spec, ast.JoinedStr) and len(spec.values) == 1:
                spec = spec.values[0] if isinstance(spec.values[0], ast.Constant) else spec
        return self._tell("hole", node.value, self.visit(node.value), conversion, spec)

    def _augmented(self, node: ast.AugAssign) -> list[ast.stmt]:
        """``x += y`` in an async def, which awaits the old value of a name first."""
        value = self._operand(node.value)
        changed = copied(node, target=self.visit(node.target), value=value)
        if not isinstance(node.target, ast.Name) or self.plain(node.target):
            return [changed]
        old = at(node.target, ast.Name(id=node.target.id, ctx=ast.Load()))
        finished = self._awaited("await_", old)
        return [at(node.target, ast.Assign(targets=[node.target], value=finished)), changed]

    def _try(self, node: ast.Try) -> ast.Try:
        """A ``try`` with a region around its body, which waits for the calls started inside."""
        form, hook = (ast.AsyncWith, "aregion") if self.awaits else (ast.With, "region")
        word = copied(node, end_lineno=node.lineno, end_col_offset=node.col_offset + len("try"))
        catches = bool(node.handlers)
        region = self._hook(hook, word, constant(catches, word))
        item = ast.withitem(context_expr=region, optional_vars=None)
        body = [at(node, form(items=[item], body=self._catching_body(node.body, catches)))]
        return self._same_shape(node, body=lambda _: body)

    def _with(self, node: ast.With | ast.AsyncWith) -> ast.stmt:
        hook = "scope"
        if self.awaits:
            hook = "ascope" if isinstance(node, ast.AsyncWith) else "mixed"
        items = []
        for item in node.items:
            manager = self._hook(hook, item.context_expr, self._value(item.context_expr))
            target = item.optional_vars and self.visit(item.optional_vars)
            items.append(copied(item, context_expr=manager, optional_vars=target))
        body = self._catching_body(node.body)
        if isinstance(node, ast.With) and self.awaits:
            return at(node, ast.AsyncWith(items=items, body=body))
        return copied(node, items=items, body=body)

    def _match(self, node: ast.Match) -> ast.Match:
        cases = []
        for case in node.cases:
            guard = case.guard and self._operand(case.guard)
            cases.append(copied(case, guard=guard, body=self._body(case.body)))
        return copied(node, subject=self._complete(node.subject), cases=cases)

    def _for(self, node: ast.For | ast.AsyncFor) -> ast.AST:
        iterated = node.iter
        lowered = self._shallow(iterated) if isinstance(node, ast.For) else self.visit(iterated)
        # The calls of a generator's step have their answers before the body begins.
        steps = [self._settled(node)] if self.guarded and not self.plain(iterated) else []
        return copied(
            node,
            target=self._target(node.target),
            iter=self._awaited_value(iterated, lowered),
            body=[*steps, *self._body(node.body)],
            orelse=[*steps, *self._body(node.orelse)],
        )

    def _assign(self, node: ast.Assign) -> ast.Assign:
        unpacked = any(isinstance(target, ast.Tuple | ast.List) for target in node.targets)
        value = self._shallow(node.value) if unpacked else self.visit(node.value)
        return copied(
            node,
            targets=[self._target(target) for target in node.targets],
            value=self._awaited_value(node.value, value),
        )

    def _annotated(self, node: ast.AnnAssign) -> ast.AnnAssign:
        value = node.value and self._value(node.value)
        return copied(node, target=self._target(node.target), value=value)

    # Expressions

    def visit(self, node: Any) -> Any:
        """*node* lowered; the same object if nothing changes."""
        if type(node) in LEAVES or type(node) is ast.Name:
            return node
        lower_it = _LOWERINGS.get(type(node))
        if lower_it is not None:
            return lower_it(self, node)
        ways = _WAYS.get(type(node), {})
        return self._same_shape(node, **{name: partial(way, self) for name, way in ways.items()})

    def _same_shape(self, node: _N, **ways: Callable[[Any], object]) -> _N:
        """*node* with its parts lowered, those in *ways*, if they are there, in their own way."""
        changes: dict[str, object] = {}
        new: Any
        for name, old in node.__dict__.items():
            if name in ways:
                new = old and ways[name](old)
            elif type(old) is not list:
                new = self.visit(old)
            elif old and isinstance(old[0], ast.stmt):
                new = self._body(old)
            else:
                new = [self.visit(child) for child in old]
                new = old if all(map(operator.is_, old, new)) else new
            if new is not old:
                changes[name] = new
        return copied(node, **changes) if changes else node

    def _call(self, node: ast.Call) -> ast.expr:
        func = self.visit(node.func)
        args = [
            self._hook("items", argument, self.visit(argument))
            if isinstance(argument, ast.GeneratorExp)
            else self.visit(argument)
            for argument in node.args
        ]
        keywords = [self.visit(keyword) for keyword in node.keywords]
        if all(map(self.plain, node.args)) and all(
            self.plain(keyword.value) for keyword in keywords
        ):
            return copied(node, func=func, args=args, keywords=keywords)
        hook = "a" * self.awaits + "g" * self.guarded + "prep"
        ready: ast.expr = self._hook(hook, node, func, *args)
        cast(ast.Call, ready).keywords = keywords
        if self.awaits:
            ready = at(node, ast.Await(value=ready))
        call = at(node, ast.Call(func=ready, args=[], keywords=[]))
        method = node.func
        if isinstance(method, ast.Attribute) and method.end_lineno != call.lineno:
            # Python reports a call of a method on the line of the method's name.
            call.lineno = method.end_lineno or call.lineno
            call.col_offset = max((method.end_col_offset or 0) - len(method.attr.encode()), 0)
        return call

    def _set(self, node: ast.Set) -> ast.Set:
        members = [
            copied(element, value=self._deep(element.value))
            if isinstance(element, ast.Starred)
            else self._deep(element)
            for element in node.elts
        ]
        return copied(node, elts=members)

    def _dict(self, node: ast.Dict) -> ast.Dict:
        keys = [key and self._deep(key) for key in node.keys]
        return copied(node, keys=keys, values=[self.visit(value) for value in node.values])

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
    ) -> ast.AST:
        outer = inner = self.awaits, self.guarded
        if isinstance(node, ast.GeneratorExp):  # what is evaluated later cannot await
            inner = False, self.guarded and not self.awaits
        with self.plain.inside(node.generators):
            generators = []
            for index, loop in enumerate(node.generators):
                # The first iterable belongs to the outer scope, and may await.
                with self._in_scope(*(inner if index else outer)):
                    iterated = self.visit(loop.iter) if loop.is_async else self._shallow(loop.iter)
                with self._in_scope(*inner):
                    ifs = [self._shallow(test) for test in loop.ifs]
                    target = self.visit(loop.target)
                generators.append(copied(loop, iter=iterated, ifs=ifs, target=target))
            with self._in_scope(*inner):
                if isinstance(node, ast.DictComp):
                    parts = {"key": self._deep(node.key), "value": self.visit(node.value)}
                else:
                    set_member = isinstance(node, ast.SetComp)
                    parts = {"elt": self._deep(node.elt) if set_member else self.visit(node.elt)}
        return copied(node, generators=generators, **parts)

    def _compare(self, node: ast.Compare) -> ast.Compare:
        """A comparison; ``x in text`` needs a finished text, an async def awaits all operands."""
        if all(isinstance(op, ast.Is | ast.IsNot) for op in node.ops):
            return self._same_shape(node)
        operands = [node.left, *node.comparators]
        needed = [isinstance(op, ast.In | ast.NotIn) for op in node.ops] + [False]
        lowered = [
            self._deep(operand) if need or self.awaits else self.visit(operand)
            for operand, need in zip(operands, needed, strict=True)
        ]
        return copied(node, left=lowered[0], comparators=lowered[1:])

    def _subscript(self, node: ast.Subscript) -> ast.Subscript:
        way = self.visit if isinstance(node.slice, ast.Slice) else self._deep
        return copied(node, value=self._shallow(node.value), slice=way(node.slice))

    def _attribute(self, node: ast.Attribute) -> ast.Attribute:
        base = self.visit(node.value)
        if self.awaits and isinstance(node.ctx, ast.Load) and not self._no_future(node.value):
            base = self._awaited("abase", base, constant(node.attr, node.value))
        return copied(node, value=base)

    def _no_future(self, node: ast.expr) -> bool:
        """True if *node* is no future: the receiver, a module or a global object."""
        if isinstance(node, ast.Name) and node.id == self.receiver:
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return node.func.id == "super" or self.plain(node)
        value = self.names.object_of(node)
        return self.plain(node) or callable(value) or isinstance(value, ModuleType)

    def _formatted(self, node: Any) -> Any:
        return self._same_shape(node, **({"value": self._deep} if self.awaits else {}))

    def _binary(self, node: ast.BinOp) -> ast.BinOp:
        deep = self.awaits and isinstance(node.op, ast.Mod)
        right = self._deep if deep else self._shallow
        return self._same_shape(node, left=self._shallow, right=right)

    def _boolean(self, node: ast.BoolOp) -> ast.BoolOp:
        tested = [self._shallow(value) for value in node.values[:-1]]
        return copied(node, values=[*tested, self.visit(node.values[-1])])

    def _starred(self, node: ast.Starred) -> ast.Starred:
        load = isinstance(node.ctx, ast.Load)
        return self._same_shape(node, value=self._shallow if load else self.visit)

    # Waiting

    def _shallow(self, node: ast.expr) -> ast.expr:
        """An operand: in a sync body its own methods wait, in an async body it is awaited."""
        if not self.awaits or self.plain(node) or isinstance(node, _NEVER_FUTURES):
            return cast(ast.expr, self.visit(node))
        if isinstance(node, ast.BoolOp):
            return copied(node, values=[self._shallow(value) for value in node.values])
        return self._awaited("await_", self.visit(node))

    def _deep(self, node: ast.expr) -> ast.expr:
        """A value for C code, finished also inside containers."""
        lowered: ast.expr = self.visit(node)
        if self.plain(node):
            return lowered
        if self.awaits:
            return self._awaited("await_all", lowered)
        return self._hook("wait", lowered, lowered)

    def _awaited(self, hook: str, *args: ast.expr) -> ast.Await:
        return at(args[0], ast.Await(value=self._hook(hook, args[0], *args)))

    def _tell(self, hook: str, place: ast.expr, *args: ast.expr) -> ast.Expr:
        return at(place, ast.Expr(value=self._hook(hook, place, *args)))

    def _hook(self, hook: str, place: Placed, *args: ast.expr) -> ast.Call:
        hooks = constant(PLACEHOLDER, place)
        method = at(place, ast.Attribute(value=hooks, attr=hook, ctx=ast.Load()))
        return at(place, ast.Call(func=method, args=list(args), keywords=[]))


_NEVER_FUTURES = (
    *(ast.List, ast.Tuple, ast.Set, ast.Dict),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
    *(ast.BinOp, ast.UnaryOp),
)

_STARTING = (ast.Call, ast.Attribute, ast.Subscript, ast.Await, ast.Yield, ast.YieldFrom)
_AFTERWARDS = (
    *(ast.Expr, ast.AugAssign, ast.Delete, ast.Import, ast.ImportFrom),
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef),
)


def may_start(node: ast.AST) -> bool:
    """True if *node* may run foreign code, which may start calls."""
    return any(isinstance(inner, _STARTING) for inner in ast.walk(node))


_LOWERINGS: dict[type[ast.AST], Callable[[_Lowering, Any], ast.AST]] = {
    ast.FunctionDef: _Lowering._nested_function,
    ast.AsyncFunctionDef: _Lowering._nested_function,
    ast.ClassDef: _Lowering._class,
    ast.Lambda: _Lowering._lambda,
    ast.Try: _Lowering._try,
    ast.TryStar: _Lowering._try,
    ast.With: _Lowering._with,
    ast.AsyncWith: _Lowering._with,
    ast.Match: _Lowering._match,
    ast.For: _Lowering._for,
    ast.AsyncFor: _Lowering._for,
    ast.Assign: _Lowering._assign,
    ast.AnnAssign: _Lowering._annotated,
    ast.Call: _Lowering._call,
    ast.Set: _Lowering._set,
    ast.Dict: _Lowering._dict,
    ast.ListComp: _Lowering._comprehension,
    ast.SetComp: _Lowering._comprehension,
    ast.GeneratorExp: _Lowering._comprehension,
    ast.DictComp: _Lowering._comprehension,
    ast.Compare: _Lowering._compare,
    ast.Subscript: _Lowering._subscript,
    ast.Attribute: _Lowering._attribute,
    ast.FormattedValue: _Lowering._formatted,
    ast.BinOp: _Lowering._binary,
    ast.BoolOp: _Lowering._boolean,
    ast.Starred: _Lowering._starred,
}
_WAYS: dict[type[ast.AST], dict[str, Callable[[_Lowering, Any], Any]]] = {
    ast.If: {"test": _Lowering._operand},
    ast.While: {"test": _Lowering._operand},
    ast.Assert: {"test": _Lowering._operand, "msg": _Lowering._complete},
    ast.Return: {"value": _Lowering._value},
    ast.Yield: {"value": _Lowering._value},
    ast.YieldFrom: {"value": _Lowering._value},
    ast.NamedExpr: {"value": _Lowering._value},
    ast.AugAssign: {"value": _Lowering._value},
    ast.Raise: {"exc": _Lowering._value, "cause": _Lowering._value},
    ast.UnaryOp: {"operand": _Lowering._shallow},
    ast.IfExp: {"test": _Lowering._shallow},
    ast.Slice: dict.fromkeys(("lower", "upper", "step"), _Lowering._shallow),
}
"""Nodes that keep their shape, with the methods that lower some of their parts."""
