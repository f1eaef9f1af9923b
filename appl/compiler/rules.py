"""The rules of ``appl check``: each looks at one prompt function and yields what it finds.

Invariant: a rule speaks only where the source leaves no doubt; it would rather miss than nag.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Container, Iterator
from dataclasses import asdict, dataclass

from appl.compiler.bindings import survey
from appl.compiler.callee import OTHERS, Callees, constant_options
from appl.compiler.graph import ROLES
from appl.compiler.ir import OPS, Graph, GraphRegion, Node
from appl.compiler.lost_text import (
    Caller,
    bare_text,
    cause_of,
    is_prompt_part,
    plain_functions,
    textless_names,
)
from appl.compiler.names import ppl_decorator
from appl.compiler.nodes import TEMPLATES, Placed, call_of, called, own_statements, walk
from appl.compiler.notes import hands_out, read_names, unread_texts
from appl.compiler.source import Def, FunctionSource, Module

LONG_CONSTANT = 200
"""Characters of constant text (about fifty tokens) from which sharing it is worth a word."""


@dataclass(frozen=True, slots=True)
class LintFinding:
    """A finding of a rule at one place; lines and columns count from 1."""

    rule: str
    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    message: str
    hint: str

    def as_dict(self) -> dict[str, object]:
        """The finding for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts about a whole file that the rules share.

    ``imported`` are the dotted names of what its top level imports, ``texts`` the annotations of
    ordinary functions that return text, ``wrapping`` the functions that put a wrapper around
    another, ``plain`` the functions of the top level that are no prompt functions, and
    ``textless`` the names of the top level that stand for something without a text, with its kind.
    """

    imported: dict[str, str]
    texts: dict[str, str]
    wrapping: frozenset[str]
    plain: dict[str, Def]
    textless: dict[str, str]

    @classmethod
    def of(cls, module: Module, prompted: Container[str]) -> Facts:
        """The facts of *module*, whose functions at the paths *prompted* are prompt functions."""
        texts = {
            function.path: ast.unparse(function.node.returns)
            for function in module.functions.values()
            if function.node.returns is not None and function.path not in prompted
        }
        imported = _imported(module.tree)
        wrapping = {
            function.path.partition(".")[0]
            for function in module.functions.values()
            for decorator in function.node.decorator_list
            if isinstance(decorator, ast.Call) and dotted(decorator.func, imported) == _WRAPS
        }
        texts = {path: kind for path, kind in texts.items() if kind in _TEXTS}
        functions = {function.path for function in module.functions.values()}
        plain, textless = plain_functions(module), textless_names(module)
        return cls(imported, texts, frozenset(wrapping & functions), plain, textless)

    def made_by(self, decorator: ast.expr) -> str:
        """The kind of object that *decorator* certainly makes: ``wrapper``, ``property``, …"""
        if isinstance(decorator, ast.Call):
            decorator = decorator.func
        if isinstance(decorator, ast.Name) and decorator.id in self.wrapping:
            return "wrapper"
        name = decorator.id if isinstance(decorator, ast.Name) else ""
        path = dotted(decorator, self.imported) or name
        return _MADE.get(path, "")


_WRAPS = "functools.wraps"
_MADE = {
    "property": "property",
    "functools.cached_property": "cached_property",
    "functools.lru_cache": "lru_cache",
    "functools.cache": "cache",
    "contextlib.contextmanager": "wrapper",
    "contextlib.asynccontextmanager": "wrapper",
}
_TEXTS = ("str", "list[str]", "tuple[str, ...]", "Iterable[str]")


@dataclass(frozen=True, slots=True)
class Subject:
    """A prompt function with the facts that rules use."""

    facts: Facts
    found: FunctionSource
    graph: Graph
    callees: Callees

    def at_node(self, rule: str, node: Node, message: str, hint: str) -> LintFinding:
        """A finding at a node of the graph."""
        line, column = node.end if node.end[0] else (node.line, node.column)
        return LintFinding(
            rule, self.graph.file, node.line, node.column + 1, line, column + 1, message, hint
        )

    def at(self, rule: str, node: Placed, message: str, hint: str) -> LintFinding:
        """A finding at a node of the syntax tree."""
        return finding_at(self.graph.file, rule, node, message, hint)

    def may_say(self, statement: ast.stmt) -> bool:
        """True if *statement* calls something unknown, which may say text."""
        call, name = call_of(statement), called(call_of(statement))
        if call is None:
            return False
        definition = self.facts.plain.get(name)
        silent = definition is not None and not any(
            isinstance(inner, ast.Return) and inner.value is not None
            for inner in ast.walk(definition)
        )
        return not silent and name != "print" and self.callees.kind(call.func) in OTHERS


def finding_at(file: str, rule: str, node: Placed, message: str, hint: str) -> LintFinding:
    """A finding at *node*, a node of the syntax tree of *file*."""
    return LintFinding(
        rule,
        file,
        node.lineno,
        node.col_offset + 1,
        node.end_lineno or node.lineno,
        (node.end_col_offset or node.col_offset) + 1,
        message,
        hint,
    )


# -- waits that make calls run one after another


def serial_wait(subject: Subject) -> Iterator[LintFinding]:
    """A loop waits for each answer, although no call needs an earlier answer."""
    for wait in subject.graph.nodes:
        if wait.op != "wait" or wait.label.startswith("leaving "):
            continue
        for loop, call in _serialised(subject.graph, wait):
            yield subject.at_node(
                "serial-wait",
                wait,
                f"the wait for `{call.label}` (line {wait.line}, {wait.label}) stands inside "
                f"`{loop.label}`, so its calls run one after another, though none needs an earlier "
                "answer",
                "start all calls first, in a list of their own, and use the answers afterwards",
            )
            break


def region_wait(subject: Subject) -> Iterator[LintFinding]:
    """The end of a ``try`` or ``with`` waits for calls, which delays others without need."""
    graph = subject.graph
    for wait in graph.nodes:
        if wait.op != "wait" or not wait.label.startswith("leaving "):
            continue
        loops = _serialised(graph, wait)
        word = wait.label.removeprefix("leaving ")
        if loops:
            loop, call = loops[0]
            held = f"so the rounds of `{loop.label}` run one after another"
        else:
            later = _independent_after(graph, wait)
            if later is None:
                continue
            call = graph.nodes[wait.inputs[0]]
            held = f"so `{later.label}` (line {later.line}) starts later than it could"
        yield subject.at_node(
            "region-wait",
            wait,
            f"leaving this `{word}` waits for `{call.label}`, which it protects, {held}",
            f"start the calls before the `{word}` and use their answers inside it, "
            'or collect failures with appl.map(f, items, on_error="collect")',
        )


def _serialised(graph: Graph, wait: Node) -> list[tuple[GraphRegion, Node]]:
    """The loops whose calls *wait* serialises, each with one of these calls."""
    serialised = []
    for region in reversed(graph.within(wait.region)):
        if region.kind == "function":
            break
        if region.kind != "loop" or not region.label.startswith(("for ", "async for ")):
            continue
        if region.escapes:
            continue
        for number in wait.inputs:
            call = graph.nodes[number]
            inside = any(outer.id == region.id for outer in graph.within(call.region))
            if inside and _stands_alone(call) and not _needs(graph, call, number):
                serialised.append((region, call))
    return serialised


def _stands_alone(call: Node) -> bool:
    """True if a call leaves nothing behind that the next one would need."""
    return OPS[call.op].future and (call.op != "program" or call.ctx in ("new", "copy"))


def _needs(graph: Graph, node: Node, other: int) -> bool:
    """True if *node* needs the value of *other*, perhaps of an earlier round of a loop."""
    visited: set[int] = set()
    todo = [*node.inputs, *node.prompt]
    while todo:
        number = todo.pop()
        if number == other:
            return True
        if number not in visited:
            visited.add(number)
            todo += graph.nodes[number].inputs + graph.nodes[number].prompt
    return False


def _independent_after(graph: Graph, wait: Node) -> Node | None:
    """The first call behind *wait* that does not need the awaited values."""
    around = [region.id for region in graph.within(wait.region)]
    for node in graph.nodes[wait.id + 1 :]:
        same_way = graph.within(node.region)[: len(around)]
        if not _stands_alone(node) or [region.id for region in same_way] != around:
            continue
        if not any(_needs(graph, node, source) for source in (*wait.inputs, wait.id)):
            return node
    return None


# -- prompts that cannot share a prefix


def late_constant(subject: Subject) -> Iterator[LintFinding]:
    """A long constant text after a part that varies: calls cannot share it as a prefix."""
    reported: set[int] = set()
    for call in subject.graph.nodes:
        if call.op not in ("gen", "select") or not call.prompt:
            continue
        chain = _chain(subject.graph, call)
        varies = (n.op == "say" and (not n.parts or None in n.parts) for n in chain)
        varying = next((at for at, varied in enumerate(varies) if varied), None)
        if varying is None or any(earlier.op == "program" for earlier in chain[:varying]):
            continue
        before = sum(_constant_size(node) for node in chain[:varying])
        begun = chain[varying].parts[:1]  # the constant text with which it begins, if it does
        before += len(begun[0] or "") if begun else 0
        for node in chain[varying + 1 :]:
            size = _constant_size(node)
            if size >= LONG_CONSTANT and size > before and node.id not in reported:
                reported.add(node.id)
                yield subject.at_node(
                    "late-constant",
                    node,
                    f"these {size:,} characters are the same in every call, but stand behind "
                    f"`{chain[varying].label}` (line {chain[varying].line}), which is not; calls "
                    f"share a cached prefix of {before:,} characters only",
                    "say the constant text first, or in a SystemMessage, which stands in front",
                )


def _chain(graph: Graph, call: Node) -> list[Node]:
    """The prompt of *call*, from its beginning, where branches and loops leave no doubt."""
    chain: list[Node] = []
    at, visited = call.prompt, {call.id}
    while len(at) == 1 and at[0] not in visited:
        node = graph.nodes[at[0]]
        visited.add(node.id)
        chain.append(node)
        at = node.prompt
    chain.reverse()
    front = [node for node in chain if node.role == "system"]
    return front + [node for node in chain if node.role != "system"]


def _constant_size(node: Node) -> int:
    return sum(len(part) for part in node.parts if part is not None)


# -- text that reaches no prompt


def empty_prompt(subject: Subject) -> Iterator[LintFinding]:
    """The prompt of a call is empty, because its text stands where no prompt gets it."""
    function = subject.found
    if not _starts_empty(subject):
        return
    caller = Caller(function, True, subject.facts.plain)
    if (cause := cause_of(caller)) is None or any(
        map(subject.may_say, own_statements(function.node))
    ):
        return
    for node in subject.graph.nodes:
        if node.op not in ("gen", "select") or node.prompt:
            continue
        place = node.line, node.column
        calls = (c for c in _calls(function.node) if (c.lineno, c.col_offset) == place)
        call = next(calls, None)
        if call is None or {option.arg for option in call.keywords} & {"messages", "_ctx", None}:
            continue  # it does not ask about the prompt of the function
        yield subject.at_node(
            "empty-prompt",
            node,
            f"the prompt of {caller.name} is empty: {cause.what} "
            f"(line {getattr(cause.node, 'lineno', 0)})",
            cause.hint,
        )
        return


def _starts_empty(subject: Subject) -> bool:
    """True if the function begins with an empty prompt and says nothing by itself."""
    names = subject.callees.names
    decorator = ppl_decorator(subject.found.node, names)
    if decorator is None:
        return False
    options = constant_options(decorator)
    written = len(decorator.keywords) if isinstance(decorator, ast.Call) else 0
    silent = {"ctx", "model", "parallel", "auto_prime"}
    return options.get("ctx", "new") == "new" and written <= len(options.keys() & silent)


def unsaid_text(subject: Subject) -> Iterator[LintFinding]:
    """A text or a message is made, but never said or used."""
    for statement, name in unread_texts(subject.found.node):
        yield subject.at(
            "unsaid-text",
            statement,
            f"nothing says or reads `{name}`",
            f"leave out `{name} =` to say it, or write `{name}` on a line of its own",
        )
    for statement in own_statements(subject.found.node):
        call = statement.value if isinstance(statement, ast.Expr) else None
        helper = subject.facts.plain.get(name := called(call))
        # A function that consists of texts was meant to say them.
        if (
            call is not None
            and helper is not None
            and all(
                isinstance(inner, ast.Expr) and is_prompt_part(inner.value) for inner in helper.body
            )
        ):
            yield subject.at(
                "unsaid-text",
                call,
                f"the text in {name}() is said to nobody: it is no prompt function",
                f'write @ppl(ctx="same") above `def {name}`',
            )


def unprompted(function: FunctionSource, callees: Callees) -> Iterator[LintFinding]:
    """``unsaid-text`` in a function that is no prompt function: it asks a model, and says text."""
    text = bare_text(function.node, docstring=False)
    asks = any(
        callees.kind(call.func) in ("gen", "select")
        and not {keyword.arg for keyword in call.keywords} & {"messages", "_ctx", None}
        for call in _calls(function.node)
    )
    if text is not None and asks:
        yield finding_at(
            function.source.file,
            "unsaid-text",
            text,
            f"this text is said to nobody: {function.node.name}() is no prompt function",
            f"write @ppl above `def {function.node.name}`",
        )


def not_text(subject: Subject) -> Iterator[LintFinding]:
    """A statement says a value without text: a function, a class, a module, a role not entered."""
    bound = survey(subject.found.node).bound
    for statement in own_statements(subject.found.node):
        if not isinstance(statement, ast.Expr):
            continue
        value = statement.value
        if isinstance(value, ast.BoolOp) and isinstance(value.op, ast.And):
            *tested, text = value.values
            flags = all(isinstance(condition, ast.Compare | ast.UnaryOp) for condition in tested)
            if flags and isinstance(text, ast.Constant | ast.JoinedStr):
                yield subject.at(
                    "not-text",
                    statement,
                    "where this is false, its value is no text",
                    f"write `if {' and '.join(map(ast.unparse, tested))}:` with the text below it",
                )
        for node in _said(value):
            if (what := _textless(subject, node, bound)) is not None:
                yield subject.at("not-text", node, *what)


def _said(value: ast.expr) -> Iterator[ast.expr]:
    """The expressions whose values a statement says."""
    if not isinstance(value, TEMPLATES):
        yield value
        return
    for part in getattr(value, "values", ()):
        if not isinstance(part, ast.Constant) and part.conversion < 0 and part.format_spec is None:
            yield part.value


def _textless(subject: Subject, node: ast.expr, bound: Container[str]) -> tuple[str, str] | None:
    """A description of *node* if it has no text, and the advice what to write instead."""
    shown = ast.unparse(node)[:60]
    if isinstance(node, ast.GeneratorExp):
        return "a generator has no text", f"write a list, [{ast.unparse(node)[1:-1][:60]}]"
    if isinstance(node, ast.Call):
        if subject.callees.kind(node.func) == "role":
            return f"`{shown}` is not entered", f"write `with {shown}:` around its text"
        name = called(node)
        if name not in bound and subject.facts.textless.get(name) == "async function":
            return f"`{shown}` is a coroutine, which has no text", f"write await {shown}"
        return None
    name = node.id if isinstance(node, ast.Name) else ""
    kind = subject.facts.textless.get(name)
    if kind is None or name in bound:
        return None
    hint = f"write {name}(...)" if kind != "module" else f"write what you need of it, {name}.…"
    return f"`{name}` is a {kind}, which has no text".replace("a async", "an async"), hint


def lost_answer(subject: Subject) -> Iterator[LintFinding]:
    """The last statement asks a model, but the function does not return the answer."""
    node = subject.found.node
    call = call_of(node.body[-1])
    if call is None or subject.callees.kind(call.func) not in ("gen", "select"):
        return
    if _starts_empty(subject) and not hands_out(node):
        yield subject.at(
            "lost-answer",
            call,
            f"{node.name}() returns nothing, so this answer is lost",
            f"write return {ast.unparse(call)[:60]}",
        )


# -- text that lands in the prompt, or nowhere

_METHODS = frozenset(
    {
        "capitalize",
        "casefold",
        "format",
        "get",
        "join",
        "lower",
        "pop",
        "popleft",
        "read",
        "readline",
        "readlines",
        "read_text",
        "recv",
        "replace",
        "rstrip",
        "lstrip",
        "setdefault",
        "split",
        "splitlines",
        "strip",
        "title",
        "upper",
    }
)
_FUNCTIONS = frozenset({"input", "next", "repr", "str", "format", "sorted", "min", "max"})


def accidental_text(subject: Subject) -> Iterator[LintFinding]:
    """The text that an ordinary call returns goes into the prompt."""
    for statement in own_statements(subject.found.node):
        call = call_of(statement)
        if call is None or subject.callees.kind(call.func) not in OTHERS:
            continue
        func, why = call.func, ""
        if isinstance(func, ast.Attribute) and func.attr in _METHODS:
            why = f"`.{func.attr}()` may return text"
        elif (name := called(call)) in _FUNCTIONS and subject.callees.names.is_builtin(name):
            why = f"`{name}()` may return text"
        elif kind := subject.facts.texts.get(name):
            why = f"`{name}()` returns {kind}"
        if why:
            shown = ast.unparse(call)
            yield subject.at(
                "accidental-text",
                call,
                f"{why}, and what a statement returns as text goes into the prompt",
                f"write `grow({shown})` to say it, or `_ = {shown}` to leave it out",
            )


def unused_result(subject: Subject) -> Iterator[LintFinding]:
    """A variable holds an answer that nothing reads."""
    node = subject.found.node
    read = read_names(node)
    for statement in own_statements(node):
        target, value = _bound(statement)
        if target is None or value is None or target.id in read or target.id.startswith("_"):
            continue
        kind, call = subject.callees.kind(value.func), ast.unparse(value)[:60]
        hint = f"leave the call out, or write `_ = {call}` if it is meant"
        if kind in ("gen", "select"):
            hint = (
                f"write `({target.id} := {call})` on a line of its own to have the answer in the "
                f"prompt too, {hint}"
            )
        if kind in ("gen", "select", "call", "map", "program"):
            yield subject.at(
                "unused-result",
                value,
                f"nothing reads `{target.id}`, so this call is paid for and its answer lost",
                hint,
            )


def _bound(statement: ast.stmt) -> tuple[ast.Name | None, ast.Call | None]:
    target: ast.expr | None = None
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
    elif isinstance(statement, ast.AnnAssign):
        target = statement.target
    value = getattr(statement, "value", None)
    if isinstance(target, ast.Name) and isinstance(value, ast.Call):
        return target, value
    return None, None


# -- what a replay cannot repeat

_UNDECLARED = {
    **dict.fromkeys(
        (
            "time.time",
            "time.time_ns",
            "datetime.datetime.now",
            "datetime.date.today",
            "datetime.datetime.today",
            "datetime.datetime.utcnow",
        ),
        "appl.now()",
    ),
    **dict.fromkeys(
        (
            "random.random",
            "random.randint",
            "random.choice",
            "random.choices",
            "random.sample",
            "random.shuffle",
            "random.uniform",
            "random.randrange",
            "random.gauss",
        ),
        "appl.random()",
    ),
    **dict.fromkeys(("uuid.uuid1", "uuid.uuid4"), "appl.uuid()"),
    **dict.fromkeys(("os.getenv", "os.environ.get"), "appl.env()"),
}


def undeclared_input(subject: Subject) -> Iterator[LintFinding]:
    """A clock, dice or the environment is read, so that a replay may see another value."""
    imported = subject.facts.imported
    for call in _calls(subject.found.node):
        path = dotted(call.func, imported)
        if path in _UNDECLARED:
            yield subject.at(
                "undeclared-input",
                call,
                f"`{ast.unparse(call.func)}()` gives another value when the run is replayed, "
                "which then diverges",
                f"use {_UNDECLARED[path]}, whose value is recorded",
            )
        elif path == "input" and subject.callees.names.is_builtin("input"):
            yield subject.at(
                "undeclared-input",
                call,
                "`input()` asks again when the run is replayed",
                "use appl.input()",
            )


_REQUESTS = ("get", "post", "put", "patch", "delete", "head", "request")
_WITH_PLAIN_RESULTS = frozenset(
    ["os.system", "subprocess.call", "subprocess.check_call", "subprocess.getoutput"]
)
_BLOCKING = {
    "time.sleep",
    "os.system",
    "socket.create_connection",
    "urllib.request.urlopen",
    "urllib.request.urlretrieve",
    *(f"subprocess.{name}" for name in ("run", "call", "check_call", "check_output", "getoutput")),
    *(f"{package}.{name}" for package in ("requests", "httpx") for name in _REQUESTS),
}


def blocking_call(subject: Subject) -> Iterator[LintFinding]:
    """A call such as ``time.sleep`` or ``requests.get`` blocks every program of the thread."""
    is_async = isinstance(subject.found.node, ast.AsyncFunctionDef)
    word = "await call(observe, f, ...)" if is_async else "observe(f, ...)"
    for call in walk(subject.found.node.body):
        path = dotted(call.func, subject.facts.imported) if isinstance(call, ast.Call) else ""
        if not isinstance(call, ast.Call) or path not in _BLOCKING:
            continue
        func, arguments = ast.unparse(call.func), ast.unparse(call).partition("(")[2][:-1]
        if path == "time.sleep":
            hint = f"write `{'await ' if is_async else ''}appl.sleep({arguments})`"
        elif path in _WITH_PLAIN_RESULTS:
            hint = f"write `{word.replace('f, ...', f'{func}, {arguments}')}`, on a worker thread"
        else:
            hint = (
                f"put it into a plain function f that returns plain data, such as the text, and "
                f"write `{word}`: f runs on a worker thread, and a replay does not run it again"
            )
        yield subject.at(
            "blocking-call",
            call,
            f"`{func}()` blocks its thread: every other program that waits there stands still, "
            "not this one alone",
            hint,
        )


def set_order(subject: Subject) -> Iterator[LintFinding]:
    """Calls are made in the order of a set, which differs between processes."""
    for node in ast.walk(subject.found.node):
        if not isinstance(node, ast.For | ast.comprehension):
            continue
        name = called(node.iter)
        is_built = name in ("set", "frozenset") and subject.callees.names.is_builtin(name)
        if is_built or isinstance(node.iter, ast.Set | ast.SetComp):
            yield subject.at(
                "set-order",
                node.iter,
                "the order of a set of strings differs from process to process, so a replay may "
                "diverge",
                f"iterate over sorted({ast.unparse(node.iter)[:60]})",
            )


def begun_form(subject: Subject) -> Iterator[LintFinding]:
    """An answer in a form goes on from text of the assistant, which few servers can do."""
    callees = subject.callees
    for block in ast.walk(subject.found.node):
        if not isinstance(block, ast.With | ast.AsyncWith):
            continue
        managers = (item.context_expr for item in block.items)
        entered = (manager.func for manager in managers if isinstance(manager, ast.Call))
        roles = {ROLES.get(callees.name(f)) for f in entered if callees.kind(f) == "role"}
        begun = False
        for statement in block.body if "assistant" in roles else ():
            for part in _in_order(statement):
                if not isinstance(part, ast.Call):
                    begun = True
                elif begun and callees.kind(part.func) == "gen":
                    options = [option.arg for option in part.keywords if option.arg in _FORMS]
                    for form in options[:1]:
                        yield subject.at(
                            "begun-form",
                            part,
                            f"the {form} of this answer would have to go on from text of the "
                            "assistant; servers that begin a new message there refuse it",
                            "say that text as the user, or the form in words",
                        )


def _in_order(statement: ast.stmt) -> Iterator[ast.expr]:
    """The texts that *statement* says, and its calls, in their order."""
    value = statement.value if isinstance(statement, ast.Expr | ast.Assign) else None
    parts = value.values if isinstance(value, ast.JoinedStr) else [value]
    for part in parts:
        if isinstance(part, ast.Constant) and isinstance(part.value, str) and part.value.strip():
            yield part
        elif part is not None:
            yield from _calls(part)


_FORMS = ("response_format", "regex", "grammar")


def _imported(tree: ast.Module) -> dict[str, str]:
    """The dotted names that the imports of a file's top level stand for, by local name."""
    imports: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                imports[name] = alias.name if alias.asname else name
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                imports[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return imports


def dotted(node: ast.expr, imported: dict[str, str]) -> str:
    """The path of *node* by the names that a file has *imported*; empty if it is another thing."""
    if isinstance(node, ast.Name):
        return imported.get(node.id, node.id if node.id == "input" else "")
    if isinstance(node, ast.Attribute):
        owner = dotted(node.value, imported)
        return f"{owner}.{node.attr}" if owner else ""
    return ""


# -- walking


def _calls(node: ast.AST) -> Iterator[ast.Call]:
    return (inner for inner in ast.walk(node) if isinstance(inner, ast.Call))


Rule = Callable[[Subject], Iterator[LintFinding]]

_ALL: dict[str, Rule] = {
    "serial-wait": serial_wait,
    "region-wait": region_wait,
    "late-constant": late_constant,
    "empty-prompt": empty_prompt,
    "unsaid-text": unsaid_text,
    "not-text": not_text,
    "lost-answer": lost_answer,
    "accidental-text": accidental_text,
    "unused-result": unused_result,
    "undeclared-input": undeclared_input,
    "blocking-call": blocking_call,
    "set-order": set_order,
    "begun-form": begun_form,
}
RULES = {name: (rule.__doc__ or "").strip().rstrip(".") for name, rule in _ALL.items()}


def apply(subject: Subject) -> Iterator[LintFinding]:
    """The findings of all rules in *subject*."""
    for rule in _ALL.values():
        yield from rule(subject)
