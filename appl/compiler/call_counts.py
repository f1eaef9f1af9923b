"""The number of calls that an activation makes on its own prompt, before it runs.

A function is read from its end to its beginning: for each point, the least and the most calls that
may still come from there until the activation ends. Loops of a known number of rounds, branches,
``break``, early returns and handlers are followed; what is not known makes the most unknown.

Invariant: an activation that ends without an error makes no fewer calls than the least, and no more
than the most. Calls on other prompts (of functions that begin a new one, or a copy) do not count.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, NamedTuple

from appl.compiler.callee import ASKING, Callees
from appl.compiler.ir import CallBounds, CallCounts
from appl.compiler.names import FunctionNames, ppl_decorator
from appl.compiler.nodes import walk
from appl.compiler.rounds import rounds_over
from appl.compiler.source import Def

_FAR, _FARTHER = 10**9, 10**6
"""More calls than any function makes; and by how much more than that a loop around it tries."""
_SEVERAL = frozenset({"response_format", "choices", "max_relay_rounds", None})
"""Options with which one answer may take several calls; ``None`` stands for unknown ones."""
_ELSEWHERE = frozenset({"ctx_method", "_ctx", None})
"""Keywords of a call that may choose another prompt than the function's own."""
_LEAVING = (ast.Return, ast.Break, ast.Continue)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def count_calls(node: Def, callees: Callees) -> CallCounts:
    """The counts of the function *node*, whose callees are known."""
    counter = _Counter(node.name, callees)
    total = counter.block(node.body, _Ways(_NONE, _NEVER, _NEVER, _NONE)).bounds
    models = frozenset(counter.models)
    if counter.asks_later(node.body):
        return CallCounts(CallBounds(total.least, None), {}, models)
    after = {line: rest.bounds for line, rest in sorted(counter.after.items())}
    return CallCounts(total, after, models)


class _Left(NamedTuple):
    """The least and the most calls to come; ``inf`` where nobody knows."""

    low: float
    high: float

    def __or__(self, other: _Left) -> _Left:
        """The calls to come where it is not known which of two ways is taken."""
        return _Left(min(self.low, other.low), max(self.high, other.high))

    def after(self, low: float, high: float) -> _Left:
        """The calls to come if between *low* and *high* more come before them."""
        return _Left(self.low + low, self.high + high)

    @property
    def never(self) -> bool:
        """True if the activation does not end on this way."""
        return self.low >= _FAR

    @property
    def bounds(self) -> CallBounds:
        """The same as a value of the graph."""
        low = 0 if self.never else int(self.low)
        return CallBounds(low, None if self.high == inf else max(low, int(self.high)))


_NONE, _NEVER = _Left(0, 0), _Left(_FAR, -_FAR)
"""The calls to come at the end; and on a way that is not taken."""


_Round = Callable[[_Left], _Left]


@dataclass(frozen=True, slots=True)
class _Ways:
    """The calls to come behind a block, by the way in which it is left."""

    next: _Left
    again: _Left
    broken: _Left
    left: _Left

    def map(self, act: Callable[[_Left], _Left]) -> _Ways:
        """The same after *act* on each of them."""
        return _Ways(act(self.next), act(self.again), act(self.broken), act(self.left))


class _Counter:
    def __init__(self, name: str, callees: Callees) -> None:
        self._name, self._callees = name, callees
        self._known = _Constants(callees.names)
        self._handlers: list[_Left] = []
        self._far = _FAR
        self.after: dict[int, _Left] = {}
        self.models: set[str] = set()

    # Statements

    def block(self, body: Sequence[ast.stmt], ways: _Ways) -> _Left:
        """The calls to come from the beginning of *body* on."""
        for statement in reversed(body):
            ways = replace(ways, next=self._statement(statement, ways))
        return ways.next

    def _statement(self, node: ast.stmt, ways: _Ways) -> _Left:
        handle = _STATEMENTS.get(type(node))
        return handle(self, node, ways) if handle is not None else self._parts(node, ways.next)

    def _leave(self, node: ast.Return | ast.Raise, ways: _Ways) -> _Left:
        return self._parts(node, ways.left)

    def _define(self, _: ast.stmt, ways: _Ways) -> _Left:
        return ways.next

    def _if(self, node: ast.If, ways: _Ways) -> _Left:
        return self._value(node.test, self.block(node.body, ways) | self.block(node.orelse, ways))

    def _match(self, node: ast.Match, ways: _Ways) -> _Left:
        rest = ways.next
        for case in reversed(node.cases):
            inner = self.block(case.body, ways)
            rest |= inner if case.guard is None else self._value(case.guard, inner | rest)
        return self._value(node.subject, rest)

    def _for(self, node: ast.For | ast.AsyncFor, ways: _Ways) -> _Left:
        after = self.block(node.orelse, ways)
        inside = self._in_round(node.body, ways)
        return self._value(node.iter, self._rounds(self._length(node.iter), inside, after))

    def _while(self, node: ast.While, ways: _Ways) -> _Left:
        after = self.block(node.orelse, ways)
        inside = self._in_round(node.body, ways)
        if isinstance(node.test, ast.Constant) and node.test.value:
            return self._rounds(None, inside, _NEVER)
        return self._rounds(None, lambda rest: self._value(node.test, inside(rest) | after), _NEVER)

    def _in_round(self, body: Sequence[ast.stmt], ways: _Ways) -> _Round:
        """A function that tells the calls to come before *body* from those behind the round."""
        return lambda rest: self.block(body, replace(ways, next=rest, again=rest, broken=ways.next))

    def _rounds(self, count: float | None, begin: _Round, after: _Left) -> _Left:
        """The calls to come before a loop of *count* rounds; ``None``: of any number.

        *begin* tells the calls before a round from those behind it. Whatever the body is, the least
        is the smaller of two: what a round adds, and what comes if the loop is left in it. The most
        is the larger of them. So a few tries show all that any number of rounds can add.
        """
        if count == 0:
            return after
        one_round = begin
        if count is None:
            count, one_round = inf, lambda rest: begin(rest) | after
        # While it tries, nothing is noted of the calls that are met. The loops around it try with
        # smaller numbers, so that it can tell its own from theirs.
        self._far *= _FARTHER
        try:
            low = _least_added(one_round, self._far)
            high = _most_added(one_round, self._far)
        finally:
            self._far //= _FARTHER

        def before(rounds: float, rest: _Left) -> _Left:
            return _Left(low(rounds, rest.low), high(rounds, rest.high)) if rounds else rest

        # For the calls inside: what comes behind the first round, the last one, or any between.
        one_round(after | before(count - 1, after))
        return before(count, after)

    def _try(self, node: ast.Try, ways: _Ways) -> _Left:
        end, outer = node.finalbody, ways
        if end:
            ways = ways.map(lambda rest: self.block(end, replace(outer, next=rest)))
        inside = replace(ways, next=self.block(node.orelse, ways))
        handlers = [self.block(handler.body, ways) for handler in node.handlers]
        if any(isinstance(inner, _LEAVING) for inner in walk(end)):  # which ends the error
            handlers.append(self.block(end, replace(outer, next=_NEVER)))
        return self._guarded(node.body, inside, handlers)

    def _with(self, node: ast.With | ast.AsyncWith, ways: _Ways) -> _Left:
        managers = [item.context_expr for item in node.items]
        ours = all(
            isinstance(manager, ast.Call) and self._callees.kind(manager.func) == "role"
            for manager in managers
        )
        counts = self._guarded(node.body, ways, [] if ours else [ways.next])
        return self._values(managers, counts)

    def _guarded(self, body: Sequence[ast.stmt], ways: _Ways, handlers: list[_Left]) -> _Left:
        """The calls to come before *body*, which an error may leave at any point for *handlers*."""
        if not handlers:
            return self.block(body, ways)
        handled = handlers[0]
        for other in handlers[1:]:
            handled |= other
        self._handlers.append(handled)
        counts = self.block(body, ways.map(lambda rest: rest | handled))
        self._handlers.pop()
        return _Left(min(counts.low, handled.low), counts.high)

    # Expressions

    def _value(self, node: ast.expr, rest: _Left) -> _Left:
        """The calls to come before *node* is evaluated; *rest* come after it."""
        handle = _EXPRESSIONS.get(type(node))
        return handle(self, node, rest) if handle is not None else self._parts(node, rest)

    def _values(self, nodes: Sequence[ast.expr], rest: _Left) -> _Left:
        for node in reversed(nodes):
            rest = self._value(node, rest)
        return rest

    def _parts(self, node: ast.AST, rest: _Left) -> _Left:
        for child in reversed([*ast.iter_child_nodes(node)]):
            if isinstance(child, ast.expr):
                rest = self._value(child, rest)
            elif isinstance(child, ast.keyword):
                rest = self._value(child.value, rest)
        return rest

    def _maybe(self, nodes: Sequence[ast.expr], rest: _Left) -> _Left:
        """*nodes* in their order, of which the first few alone may be evaluated."""
        counts = rest
        for node in reversed(nodes):
            counts = rest | self._value(node, counts)
        return counts

    def _boolean(self, node: ast.BoolOp, rest: _Left) -> _Left:
        return self._value(node.values[0], self._maybe(node.values[1:], rest))

    def _compare(self, node: ast.Compare, rest: _Left) -> _Left:
        return self._values(
            [node.left, node.comparators[0]], self._maybe(node.comparators[1:], rest)
        )

    def _conditional(self, node: ast.IfExp, rest: _Left) -> _Left:
        return self._value(node.test, self._value(node.body, rest) | self._value(node.orelse, rest))

    def _lambda(self, _: ast.Lambda, rest: _Left) -> _Left:
        return rest

    def _yield(self, node: ast.Yield | ast.YieldFrom, rest: _Left) -> _Left:
        return self._parts(node, rest | _NONE)  # nobody need go on with it

    def _comprehension(self, node: Any, rest: _Left) -> _Left:
        values = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        return self._clause(node.generators, values, rest, isinstance(node, ast.GeneratorExp))

    def _clause(
        self,
        clauses: Sequence[ast.comprehension],
        values: Sequence[ast.expr],
        rest: _Left,
        lazy: bool,
    ) -> _Left:
        if not clauses:
            return self._values(values, rest)
        first, *inner = clauses

        def begin(behind: _Left) -> _Left:
            counts = self._clause(inner, values, behind, False)
            counts = self._maybe(first.ifs, counts) | behind if first.ifs else counts
            return counts | rest if lazy else counts

        return self._value(first.iter, self._rounds(self._length(first.iter), begin, rest))

    def _length(self, node: ast.expr) -> int | None:
        return rounds_over(node, self._known)

    # Calls

    def _call(self, node: ast.Call, rest: _Left) -> _Left:
        kind = self._callees.kind(node.func)
        if kind in ASKING:
            self._note(node, rest)
            options = {keyword.arg for keyword in node.keywords}
            is_one = self._callees.name(node.func) == "gen" and not options & _SEVERAL
            rest = rest.after(1, 1 if is_one else inf)
        elif kind == "program":  # the calls that it makes on the prompt of its caller
            ctx = self._callees.ctx(node.func)
            is_sure = not any(keyword.arg in _ELSEWHERE for keyword in node.keywords)
            if not is_sure or ctx in ("", "same"):
                counts = self._callees.counts(node.func) if is_sure else None
                low, high = (0, None) if counts is None else counts.total
                self.models |= counts.models if counts is not None else frozenset()
                rest = rest.after(low, inf if high is None else high)
        elif self._callees.may_ask(node):
            rest = rest.after(0, inf)
        return self._parts(node, rest)

    def _note(self, node: ast.Call, rest: _Left) -> None:
        """Note the calls that come after a call of a model; an error may skip some."""
        values = [
            *node.args[:1],
            *(keyword.value for keyword in node.keywords if keyword.arg == "model"),
        ]
        unknown = [value for value in values if not isinstance(value, ast.Constant)]
        names = [str(value.value) for value in values if isinstance(value, ast.Constant)]
        self.models.add(f"{self._name}: {ast.unparse(unknown[0])}" if unknown else (*names, "")[0])
        if self._far > _FAR or rest.never:
            return
        for handled in self._handlers:
            rest = _Left(min(rest.low, handled.low), rest.high)
        self.after[node.lineno] = self.after.get(node.lineno, rest) | rest

    def asks_later(self, body: Iterable[ast.AST]) -> bool:
        """True if a function inside of *body* may ask a model: nobody knows when it is called."""
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                if ppl_decorator(node, self._callees.names) is not None:
                    continue
                if self._asks(node):
                    return True
            elif isinstance(node, ast.Lambda | ast.ClassDef):
                if self._asks(node):
                    return True
            elif self.asks_later(ast.iter_child_nodes(node)):
                return True
        return False

    def _asks(self, node: ast.AST) -> bool:
        calls = (inner for inner in ast.walk(node) if isinstance(inner, ast.Call))
        kinds = (*ASKING, "program")
        return any(
            self._callees.kind(call.func) in kinds or self._callees.may_ask(call) for call in calls
        )


def _least_added(begin: _Round, far: int) -> Callable[[float, float], float]:
    """The least calls before so many rounds, and so many calls behind them; less than *far*."""
    least = begin(_Left(far, -far)).low  # in this round, if it can be
    if least >= far:
        return lambda rounds, behind: behind + _times(rounds, least - far)
    adds = begin(_NONE).low
    return lambda rounds, behind: min(behind + _times(rounds, adds), least)


def _most_added(begin: _Round, far: int) -> Callable[[float, float], float]:
    """The most calls before so many rounds, and so many calls behind them; less than *far*."""
    on = begin(_Left(0, far)).high
    if on < far / 2:  # no second round
        return lambda rounds, behind: on
    adds, most = on - far, begin(_Left(far, -far)).high
    return lambda rounds, behind: max(
        behind + _times(rounds, adds), most + _times(rounds - 1, adds)
    )


def _times(rounds: float, calls: float) -> float:
    return rounds * calls if rounds and calls else 0


class _Constants:
    """The numbers and tuples that names outside of a function stand for."""

    def __init__(self, names: FunctionNames) -> None:
        self._names = names

    def get(self, name: str, /) -> object:
        """The value of *name*; ``None`` if it may change while its value is in use."""
        value = self._names.object_of(ast.Name(name))
        return value if type(value) in (int, str, tuple) else None


_STATEMENTS: dict[type[ast.stmt], Callable[[_Counter, Any, _Ways], _Left]] = {
    ast.Return: _Counter._leave,
    ast.Raise: _Counter._leave,
    ast.Break: lambda _, __, ways: ways.broken,
    ast.Continue: lambda _, __, ways: ways.again,
    ast.If: _Counter._if,
    ast.For: _Counter._for,
    ast.AsyncFor: _Counter._for,
    ast.While: _Counter._while,
    ast.Try: _Counter._try,
    ast.TryStar: _Counter._try,
    ast.With: _Counter._with,
    ast.AsyncWith: _Counter._with,
    ast.Match: _Counter._match,
    ast.FunctionDef: _Counter._define,
    ast.AsyncFunctionDef: _Counter._define,
    ast.ClassDef: _Counter._define,
}

_EXPRESSIONS: dict[type[ast.expr], Callable[[_Counter, Any, _Left], _Left]] = {
    ast.BoolOp: _Counter._boolean,
    ast.Compare: _Counter._compare,
    ast.IfExp: _Counter._conditional,
    ast.Lambda: _Counter._lambda,
    ast.Yield: _Counter._yield,
    ast.YieldFrom: _Counter._yield,
    **dict.fromkeys(_COMPREHENSIONS, _Counter._comprehension),
    ast.Call: _Counter._call,
}
