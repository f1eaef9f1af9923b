"""From the ``def`` to its call graph, by following its values without running it.

Invariant: nodes stand in program order; the inputs of a node are all that its values may come from.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from appl.compiler.bindings import survey
from appl.compiler.call_counts import count_calls
from appl.compiler.callee import Callees
from appl.compiler.dedent import parts_of, text_of
from appl.compiler.flow import NOTHING, FlowState, Provenance, Sketch
from appl.compiler.ir import Graph, verify
from appl.compiler.lower import docstring_of
from appl.compiler.names import ppl_decorator
from appl.compiler.nodes import TEMPLATES, Placed
from appl.compiler.source import Def, FunctionSource

_OWN = frozenset(
    {
        *("done", "result", "cancel", "message", "tool_calls", "response_obj", "usage", "cost"),
        *("finish_reason", "logprobs", "reasoning", "call_id", "text_stream", "samples"),
        *("prompt_logprobs", "reasoning_stream"),
    }
)  # attributes of a generation itself; those that wait say so
_SAID = ("gen", "select", "call", "map", "program", "prompt", "message")
ROLES = {
    **{"SystemRole": "system", "UserRole": "user", "AIRole": "assistant", "ToolRole": "tool"},
    **{"SystemMessage": "system", "UserMessage": "user", "AIMessage": "assistant"},
    "ToolMessage": "tool",
}
_WIDTH = 60
Parts = tuple[str | None, ...]


def build(
    function: FunctionSource, callees: Callees, kind: str, either_docstring: bool = False
) -> Graph:
    """The verified graph of *function*; *either_docstring* as in ``docstring_of``."""
    builder = _Builder(function, callees)
    node = function.node
    builder.parameters(node)
    documented = docstring_of(node, function.source, either_docstring) is not None
    builder.block(node.body[documented:])
    names = [name for name, _ in survey(node).bindings]
    parameters = {arg.arg for _, arg in _parameters(node.args)}
    rebound = tuple(sorted(name for name in parameters if names.count(name) > 1))
    graph = builder.sketch.frozen(
        node.name, function.source.file, node.lineno, node.end_lineno or node.lineno, kind, rebound
    )
    return replace(verify(graph), calls=count_calls(node, callees), texts=builder.texts)


class _Builder:
    def __init__(self, function: FunctionSource, callees: Callees) -> None:
        self.source, self.callees = function.source, callees
        self.sketch = Sketch(function.node.lineno)
        self.state = FlowState()
        self.region = 0
        self.role = "user"
        self.loops: list[list[FlowState]] = []
        self.functions: dict[str, tuple[Provenance, frozenset[int]]] = {}
        self.texts: dict[str, str] = {}
        self.returned: list[Provenance] | None = None  # what a nested function returns
        callees.local |= {name for name, _ in survey(function.node).once(ast.Lambda)}

    def parameters(self, node: Def) -> None:
        for label, arg in _parameters(node.args):
            number = self.node("param", arg, label, NOTHING)
            self.state.names[arg.arg] = Provenance(frozenset({number}))

    def node(
        self,
        op: str,
        place: Placed,
        label: str,
        value: Provenance,
        prompted: bool = False,
        part: int = 0,
        parts: Parts = (),
        role: str = "",
    ) -> int:
        prompt = self.state.prompt if prompted else ()
        return self.sketch.node(op, place, label, self.region, value.ids, prompt, part, parts, role)

    # Statements

    def block(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            if self.state.dead:
                return
            handle = _STATEMENTS.get(type(statement))
            if handle is not None:
                handle(self, statement)

    def _expression(self, node: ast.Expr) -> None:
        value = node.value
        if isinstance(value, ast.Constant):
            if isinstance(value.value, str):
                text = text_of(value, self.source)
                self._add("text", value, _shown(text), NOTHING, parts=(text,))
        elif isinstance(value, TEMPLATES):
            self._template(value)
        else:
            result = self.value(value)
            self._note_text(value)
            if self._is_said(value):
                role, parts = self._message(value)
                self._add("say", value, _code(value), result, parts=parts, role=role)

    def _is_said(self, node: ast.expr) -> bool:
        """True if a statement's value goes to the prompt; a call must be known to add text."""
        if isinstance(node, ast.Await):
            node = node.value
        if not isinstance(node, ast.Call):
            return not isinstance(node, ast.YieldFrom)
        if isinstance(node.func, ast.Name) and node.func.id in self.functions:
            return bool(self.functions[node.func.id][0].ids)
        results = isinstance(node.func, ast.Attribute) and node.func.attr == "run_tool_calls"
        return results or self.callees.kind(node.func) in _SAID

    def _message(self, node: ast.expr) -> tuple[str, Parts]:
        """Role and constant parts of the message that *node* makes; empty if it makes none."""
        if not isinstance(node, ast.Call) or self.callees.kind(node.func) != "message":
            return "", ()
        role = ROLES.get(self.callees.name(node.func), "")
        content = node.args[0] if node.args else None
        if isinstance(content, ast.Constant) and isinstance(content.value, str):
            return role, (content.value,)
        if isinstance(content, ast.JoinedStr):
            constant = (p.value if isinstance(p, ast.Constant) else None for p in content.values)
            return role, tuple(None if text is None else str(text) for text in constant)
        return role, ()

    def _template(self, node: Any) -> None:
        """Add an f-string; the part before a call that sees the prompt is a node of its own."""
        text, value, part = "", NOTHING, 0
        parts: list[str | None] = []
        for piece in parts_of(node, self.source):
            if isinstance(piece, str):
                text += piece
                parts.append(piece)
                continue
            calls = (inner for inner in ast.walk(piece.value) if isinstance(inner, ast.Call))
            if text and any(self.callees.kind(call.func) in _SAID for call in calls):
                op = "say" if value.ids else "text"
                self._add(op, node, _shown(text), value, part, tuple(parts))
                text, value, part, parts = "", NOTHING, part + 1, []
            value |= self.value(piece.value)
            if piece.conversion < 0 and piece.format_spec is None:
                self._note_text(piece.value)
            text += f"{{{_code(piece.value)}}}"
            parts.append(None)
        if text:
            op = "say" if None in parts else "text"
            self._add(op, node, _shown(text), value, part, tuple(parts))

    def _note_text(self, node: ast.expr) -> None:
        """Note the text of *node* if it is a name from outside that stands for one."""
        if isinstance(text := self.callees.names.object_of(node), str):
            self.texts[_code(node)] = text

    def _add(
        self,
        op: str,
        place: Placed,
        label: str,
        value: Provenance,
        part: int = 0,
        parts: Parts = (),
        role: str = "",
    ) -> None:
        role = role or self.role
        number = self.node(op, place, label, value, True, part, parts, role)
        self.state.prompt = frozenset({number})

    def _assign(self, node: ast.Assign) -> None:
        value = self.value(node.value)
        for target in node.targets:
            self.bind(target, value)

    def _annotated(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.bind(node.target, self.value(node.value))

    def _augmented(self, node: ast.AugAssign) -> None:
        value = self.used(node.value, "operator")
        if isinstance(node.target, ast.Name):
            before = self.used(node.target, "operator")
            self.state.names[node.target.id] = (before | value).held()
        else:
            self._hold(node.target, value)

    def bind(self, target: ast.expr, value: Provenance) -> None:
        """Bind *target* to *value*; a value that is unpacked is waited for."""
        if isinstance(target, ast.Name):
            self.state.names[target.id] = value
        elif isinstance(target, ast.Tuple | ast.List):
            value = self.wait(value, target, "unpacking")
            for part in target.elts:
                self.bind(part, Provenance(value.ids))
        elif isinstance(target, ast.Starred):
            self.bind(target.value, value.held())
        else:
            self._hold(target, value)

    def _hold(self, target: ast.expr, value: Provenance) -> None:
        """Note that the object of a name holds *value* too, as an attribute or an item."""
        while isinstance(target, ast.Attribute | ast.Subscript):
            if isinstance(target, ast.Subscript):
                self.value(target.slice)
            target = target.value
        if isinstance(target, ast.Name):
            held = self.state.names.get(target.id, NOTHING)
            self.state.names[target.id] = Provenance(held.ids | value.ids, held.direct)

    def _return(self, node: ast.Return) -> None:
        value = self.value(node.value) if node.value is not None else NOTHING
        if self.returned is not None:
            self.returned.append(value)
        else:
            self.node("return", node, _code(node.value) if node.value else "", value)
        self.sketch.escape(self.region, every=True)
        self.state.dead = True

    def _raise(self, node: ast.Raise) -> None:
        for part in (node.exc, node.cause):
            if part is not None:
                self.value(part)
        self.sketch.escape(self.region, every=True)
        self.state.dead = True

    def _leave_loop(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Break):
            self.sketch.escape(self.region, every=False)
        if self.loops:
            self.loops[-1].append(self.state.copy())
        self.state.dead = True

    def _assert(self, node: ast.Assert) -> None:
        self.used(node.test, "condition")

    def _if(self, node: ast.If) -> None:
        self.used(node.test, "condition")
        before = self.state.copy()
        with self.inside("branch", node.test, f"if {_code(node.test)}"):
            self.block(node.body)
        after, self.state = self.state, before
        if node.orelse:
            with self.inside("branch", node.orelse[0], "else"):
                self.block(node.orelse)
        self.state = self.state.joined(after)

    def _for(self, node: ast.For | ast.AsyncFor) -> None:
        iterated = self.used(node.iter, "iteration")
        label = f"for {_code(node.target)} in {_code(node.iter)}"
        with self.inside("loop", node, label):
            self._repeat(node, lambda: self.bind(node.target, Provenance(iterated.ids)))
        self.block(node.orelse)

    def _while(self, node: ast.While) -> None:
        with self.inside("loop", node, f"while {_code(node.test)}"):
            self._repeat(node, lambda: self.used(node.test, "condition"))
        self.block(node.orelse)

    def _repeat(
        self, node: ast.For | ast.AsyncFor | ast.While, begin: Callable[[], object]
    ) -> None:
        """Go through the body twice, so that what one round leaves reaches the next."""
        before = self.state.copy()
        waited = before.waited
        for _ in range(2):
            self.loops.append([])
            self.state.waited = waited
            begin()
            self.block(node.body)
            for escaped in self.loops.pop():
                self.state = self.state.joined(escaped)
            self.state = before.copy().joined(self.state)

    def _try(self, node: ast.Try) -> None:
        before = self.state.copy()
        with self.inside("try", node, ""):
            self.block(node.body)
        self._leaving(node, "try")
        after = self.state.copy()
        self.block(node.orelse)
        ends = [self.state]
        for handler in node.handlers:
            self.state = before.joined(after)
            label = _code(handler.type) if handler.type else ""
            with self.inside("except", handler, label):
                self.block(handler.body)
            ends.append(self.state)
        self.state = _all_joined(ends)
        if node.finalbody:
            dead, self.state.dead = self.state.dead, False
            with self.inside("finally", node.finalbody[0], ""):
                self.block(node.finalbody)
            self.state.dead = self.state.dead or dead

    def _with(self, node: ast.With | ast.AsyncWith) -> None:
        ours, role_before = True, self.role
        for item in node.items:
            manager = self.value(item.context_expr)
            call = item.context_expr
            role = isinstance(call, ast.Call) and self.callees.kind(call.func) == "role"
            ours = ours and role
            if role and isinstance(call, ast.Call):
                self.role = ROLES.get(self.callees.name(call.func), self.role)
            if item.optional_vars is not None:
                self.bind(item.optional_vars, manager)
        label = ", ".join(_code(item.context_expr) for item in node.items)
        with self.inside("with", node, label):
            self.block(node.body)
        self.role = role_before
        if not ours:
            self._leaving(node, "with")

    def _leaving(self, node: ast.stmt, word: str) -> None:
        """Add the wait at the end of a ``try`` or foreign ``with`` for all that it started."""
        region = self.sketch.region(word, node, "", self.region)
        started = frozenset(
            number
            for number, draft in enumerate(self.sketch.drafts)
            if self.sketch.is_future(number) and self.sketch.inside(region, draft.region)
        )
        if not self.state.dead:
            self.wait(Provenance(started), node, f"leaving {word}")

    def _match(self, node: ast.Match) -> None:
        subject = self.used(node.subject, "match")
        before, ends = self.state, [self.state.copy()]
        for case in node.cases:
            self.state = before.copy()
            for name in _captured(case.pattern):
                self.state.names[name] = Provenance(subject.ids)
            with self.inside("branch", case.pattern, f"case {_code(case.pattern)}"):
                if case.guard is not None:
                    self.used(case.guard, "condition")
                self.block(case.body)
            ends.append(self.state)
        self.state = _all_joined(ends)

    def _function(self, node: Def) -> None:
        if ppl_decorator(node, self.callees.names) is not None:
            self.callees.nested.add(node.name)
            return
        self.callees.local.add(node.name)
        documented = docstring_of(node, self.source) is not None
        with self._called_later(node, node.name) as returned:
            self.block(node.body[documented:])
            tips = self.state.prompt
        self.functions[node.name] = returned[0] if returned else NOTHING, tips

    @contextmanager
    def _called_later(self, node: Def | ast.Lambda, label: str) -> Iterator[list[Provenance]]:
        """The body of a nested function, which starts from what is there when it is made."""
        state, outer, self.state = self.state, self.returned, self.state.copy()
        self.state.prompt, self.returned = frozenset(), []
        returned: list[Provenance] = []
        for _, arg in _parameters(node.args):
            self.state.names[arg.arg] = NOTHING
        with self.inside("function", node, label):
            yield returned
        if self.returned:
            returned.append(Provenance(frozenset().union(*(value.ids for value in self.returned))))
        self.state, self.returned = state, outer

    # Expressions

    def value(self, node: ast.expr) -> Provenance:
        """The possible sources of the value of *node*; visits its parts in evaluation order."""
        handle = _EXPRESSIONS.get(type(node))
        return handle(self, node) if handle is not None else self._parts(node)

    def _parts(self, node: ast.AST) -> Provenance:
        """The value of an operator, which waits for its operands."""
        result = NOTHING
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                result |= self.used(child, "operator")
            elif isinstance(child, ast.keyword):
                result |= self.value(child.value)
        return result.held()

    def used(self, node: ast.expr, why: str) -> Provenance:
        """The value of *node*, waited for if it may be a future itself."""
        value = self.value(node)
        return self.wait(value, node, why) if value.direct else value

    def wait(self, value: Provenance, place: Placed, why: str) -> Provenance:
        """*value* after a wait, if it may not exist yet."""
        late = frozenset(
            source for source in value.ids - self.state.waited if self.sketch.is_future(source)
        )
        if not late:
            return value
        number = self.node("wait", place, why, Provenance(late))
        self.state.finish(late, number)
        return Provenance(value.ids - late | {number}, value.direct)

    def _name(self, node: ast.Name) -> Provenance:
        return self.state.names.get(node.id, NOTHING)

    def _display(self, node: ast.List | ast.Tuple) -> Provenance:
        return self._union(node.elts)

    def _union(self, nodes: Sequence[ast.expr]) -> Provenance:
        result = NOTHING
        for node in nodes:
            result |= self.value(node)
        return result.held()

    def _set(self, node: ast.Set) -> Provenance:
        return self.wait(self._union(node.elts), node, "member of a set").held()

    def _dict(self, node: ast.Dict) -> Provenance:
        for key in node.keys:
            if key is not None:
                self.used(key, "key of a dict")
        return self._union(node.values)

    def _named(self, node: ast.NamedExpr) -> Provenance:
        value = self.value(node.value)
        self.bind(node.target, value)
        return value

    def _conditional(self, node: ast.IfExp) -> Provenance:
        self.used(node.test, "condition")
        before = self.state.copy()
        with self.inside("branch", node.body, f"if {_code(node.test)}"):
            value = self.value(node.body)
        after, self.state = self.state, before
        with self.inside("branch", node.orelse, "else"):
            value |= self.value(node.orelse)
        self.state = self.state.joined(after)
        return value

    def _boolean(self, node: ast.BoolOp) -> Provenance:
        result = NOTHING
        for operand in node.values[:-1]:
            result |= self.used(operand, "condition")
        return result | self.value(node.values[-1])

    def _attribute(self, node: ast.Attribute) -> Provenance:
        value = self.value(node.value)
        if value.direct and node.attr not in _OWN:
            value = self.wait(value, node, f".{node.attr}")
        return Provenance(value.ids)

    def _subscript(self, node: ast.Subscript) -> Provenance:
        base = self.used(node.value, "subscript")
        self.used(node.slice, "subscript")
        return Provenance(base.ids)

    def _starred(self, node: ast.Starred) -> Provenance:
        return self.used(node.value, "iteration")

    def _yield(self, node: ast.Yield | ast.YieldFrom) -> Provenance:
        value = self.value(node.value) if node.value is not None else NOTHING
        number = self.node("yield", node, _code(node.value) if node.value else "", value)
        return Provenance(frozenset({number}))

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
    ) -> Provenance:
        names = dict(self.state.names)
        with ExitStack() as regions:
            for generator in node.generators:
                iterated = self.used(generator.iter, "iteration")
                label = f"for {_code(generator.target)} in {_code(generator.iter)}"
                regions.enter_context(self.inside("loop", generator.target, label))
                self.bind(generator.target, Provenance(iterated.ids))
                for test in generator.ifs:
                    self.used(test, "condition")
                    regions.enter_context(self.inside("branch", test, f"if {_code(test)}"))
            if isinstance(node, ast.DictComp):
                self.used(node.key, "key of a dict")
            value = self.value(node.value if isinstance(node, ast.DictComp) else node.elt)
            if isinstance(node, ast.SetComp):
                value = self.wait(value, node.elt, "member of a set")
        targets = {name for loop in node.generators for name in _captured(loop.target)}
        self.state.names |= {name: names.get(name, NOTHING) for name in targets}
        return value.held()

    def _lambda(self, node: ast.Lambda) -> Provenance:
        with self._called_later(node, "lambda"):
            value = self.value(node.body)
        return value.held()

    # Calls

    def _call(self, node: ast.Call) -> Provenance:
        kind = self.callees.kind(node.func)
        values = [*node.args, *(keyword.value for keyword in node.keywords)]
        if kind in _CALLS:
            return self._started(kind, node, self._union(values))
        if self.callees.may_ask(node):
            return self._unknown(node, values)
        if kind == "grow":
            self._add("say", node, _code(node), self._union(values))
            return NOTHING
        if kind in ("keeps", "role", "message"):
            return self._union(values)
        if kind == "stores" and isinstance(node.func, ast.Attribute):
            self._hold(node.func.value, self._union(values))
            return self.state.names.get(getattr(node.func.value, "id", ""), NOTHING)
        # Any other function gets finished values; one that is defined inside may also say text.
        function = self.functions.get(node.func.id) if isinstance(node.func, ast.Name) else None
        if function is None:
            return self._passed(node, values).held()
        self.state.prompt |= function[1]
        return function[0] | self._passed(node, values)

    def _started(self, kind: str, node: ast.Call, arguments: Provenance) -> Provenance:
        ctx = self.callees.ctx(node.func) if kind == "program" else ""
        number = self.node(kind, node, _code(node), arguments, prompted=ctx != "new")
        draft = self.sketch.drafts[number]
        draft.ctx = ctx
        if kind == "program":
            draft.callee = self.callees.written(node.func)
        elif kind in ("call", "map") and node.args and not isinstance(node.args[0], ast.Starred):
            draft.callee = self.callees.written(node.args[0])
            if kind == "map" and len(node.args) > 1:
                draft.over = ast.unparse(node.args[1])
        self.state.waited -= {number}
        if ctx == "same":
            self.state.prompt = frozenset({number})
        return Provenance(frozenset({number}), kind != "map")

    def _passed(self, node: ast.Call, values: list[ast.expr]) -> Provenance:
        """The arguments of an ordinary function, after a wait for them."""
        func = node.func
        base = self.value(func) if isinstance(func, ast.Attribute) else NOTHING
        return base | self.wait(self._union(values), node, f"argument of {_code(func)}()")

    def _unknown(self, node: ast.Call, values: list[ast.expr]) -> Provenance:
        """A call of a function that may ask a model."""
        passed = self._passed(node, values)
        number = self.node("unknown call", node, _code(node), passed, prompted=True)
        self.sketch.drafts[number].callee = ast.unparse(node.func)
        return Provenance(passed.ids | {number}).held()

    @contextmanager
    def inside(self, kind: str, place: Placed, label: str) -> Iterator[None]:
        outer = self.region
        self.region = self.sketch.region(kind, place, label[:_WIDTH], outer)
        yield
        self.region = outer


_CALLS = ("gen", "select", "call", "map", "program", "prompt")

_STATEMENTS: dict[type[ast.stmt], Callable[[_Builder, Any], None]] = {
    ast.Expr: _Builder._expression,
    ast.Assign: _Builder._assign,
    ast.AnnAssign: _Builder._annotated,
    ast.AugAssign: _Builder._augmented,
    ast.Return: _Builder._return,
    ast.Raise: _Builder._raise,
    ast.Break: _Builder._leave_loop,
    ast.Continue: _Builder._leave_loop,
    ast.Assert: _Builder._assert,
    ast.If: _Builder._if,
    ast.For: _Builder._for,
    ast.AsyncFor: _Builder._for,
    ast.While: _Builder._while,
    ast.Try: _Builder._try,
    ast.TryStar: _Builder._try,
    ast.With: _Builder._with,
    ast.AsyncWith: _Builder._with,
    ast.Match: _Builder._match,
    ast.FunctionDef: _Builder._function,
    ast.AsyncFunctionDef: _Builder._function,
}

_EXPRESSIONS: dict[type[ast.expr], Callable[[_Builder, Any], Provenance]] = {
    ast.Name: _Builder._name,
    ast.List: _Builder._display,
    ast.Tuple: _Builder._display,
    ast.Set: _Builder._set,
    ast.Dict: _Builder._dict,
    ast.NamedExpr: _Builder._named,
    ast.IfExp: _Builder._conditional,
    ast.BoolOp: _Builder._boolean,
    ast.Attribute: _Builder._attribute,
    ast.Subscript: _Builder._subscript,
    ast.Starred: _Builder._starred,
    ast.Await: lambda builder, node: builder.wait(builder.value(node.value), node, "await"),
    ast.Yield: _Builder._yield,
    ast.YieldFrom: _Builder._yield,
    ast.ListComp: _Builder._comprehension,
    ast.SetComp: _Builder._comprehension,
    ast.DictComp: _Builder._comprehension,
    ast.GeneratorExp: _Builder._comprehension,
    ast.Lambda: _Builder._lambda,
    ast.Call: _Builder._call,
}


def _parameters(args: ast.arguments) -> Iterator[tuple[str, ast.arg]]:
    for arg in (*args.posonlyargs, *args.args):
        yield arg.arg, arg
    if args.vararg is not None:
        yield f"*{args.vararg.arg}", args.vararg
    for arg in args.kwonlyargs:
        yield arg.arg, arg
    if args.kwarg is not None:
        yield f"**{args.kwarg.arg}", args.kwarg


def _all_joined(states: Sequence[FlowState]) -> FlowState:
    joined = states[0]
    for state in states[1:]:
        joined = joined.joined(state)
    return joined


def _captured(pattern: ast.AST) -> Iterator[str]:
    """The names that a pattern or a target binds."""
    for node in ast.walk(pattern):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.MatchAs | ast.MatchStar) and node.name:
            yield node.name
        elif isinstance(node, ast.MatchMapping) and node.rest:
            yield node.rest


def _code(node: ast.AST) -> str:
    return _cut(ast.unparse(node))


def _shown(text: str) -> str:
    return repr(_cut(text))


def _cut(text: str) -> str:
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"
