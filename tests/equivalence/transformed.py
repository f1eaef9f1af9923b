"""Changes of a program's code that keep its meaning: the changed program has the same calls.

Each changes the syntax tree at places drawn at random. What they promise is Python's own semantics,
so that the oracle stays the plain twin of the program as it was.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Iterator

from .compare import Outcome, Verdict, described, module_of, problem_of, run_plain
from .programs import Program

Function = ast.FunctionDef | ast.AsyncFunctionDef
Change = Callable[[ast.Module, random.Random], None]


def parsed(text: str) -> list[ast.stmt]:
    return ast.parse(text).body


def functions(tree: ast.AST) -> list[Function]:
    return [node for node in ast.walk(tree) if isinstance(node, Function)]


def bodies(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    """Every list of statements inside of functions, class bodies left out."""
    for function in functions(tree):
        for node in ast.walk(function):
            if not isinstance(node, ast.ClassDef | ast.Lambda):
                for name in ("body", "orelse", "finalbody"):
                    found = getattr(node, name, None)
                    if isinstance(found, list) and found and isinstance(found[0], ast.stmt):
                        yield found


def places(tree: ast.AST, rng: random.Random, share: float) -> Iterator[tuple[list[ast.stmt], int]]:
    """Statements drawn at random, the last of each list first; a docstring is none of them."""
    for body in list(bodies(tree)):
        for at in reversed(range(len(body))):
            first = body[at]
            is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
            is_scoped = isinstance(first, ast.Global | ast.Nonlocal)
            if not (at == 0 and is_text) and not is_scoped and rng.random() < share:
                yield body, at


def wrap_in_if(tree: ast.Module, rng: random.Random) -> None:
    for body, at in places(tree, rng, 0.2):
        body[at] = ast.If(ast.Constant(True), [body[at]], [])


def wrap_in_try(tree: ast.Module, rng: random.Random) -> None:
    for body, at in places(tree, rng, 0.1):
        body[at] = ast.Try([body[at]], [], [], [ast.Pass()])


def insert_dead_code(tree: ast.Module, rng: random.Random) -> None:
    dead = [
        "pass",
        "if False:\n 'never said'\n gen()",
        "while False:\n f'{gen()}'",
        "unused_value = 3",
    ]
    for body, at in places(tree, rng, 0.2):
        body[at:at] = parsed(rng.choice(dead))


def swap_branches(tree: ast.Module, rng: random.Random) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and node.orelse and rng.random() < 0.7:
            node.test = ast.UnaryOp(ast.Not(), node.test)
            node.body, node.orelse = node.orelse, node.body


def name_results(tree: ast.Module, rng: random.Random) -> None:
    """What is returned is first put into a variable."""
    for body, at in places(tree, rng, 0.5):
        found = body[at]
        if isinstance(found, ast.Return) and found.value is not None:
            target = ast.Name("named_result", ast.Store())
            body[at : at + 1] = [
                ast.Assign([target], found.value),
                ast.Return(ast.Name("named_result", ast.Load())),
            ]


def annotate(tree: ast.Module, rng: random.Random) -> None:
    outer = {name for node in ast.walk(tree) for name in _declared(node)}
    for body, at in places(tree, rng, 0.5):
        found = body[at]
        if isinstance(found, ast.Assign) and len(found.targets) == 1:
            (target,) = found.targets
            if isinstance(target, ast.Name) and target.id not in outer:
                body[at] = ast.AnnAssign(target, ast.Name("object", ast.Load()), found.value, 1)


def _declared(node: ast.AST) -> list[str]:
    return node.names if isinstance(node, ast.Global | ast.Nonlocal) else []


def decorate(tree: ast.Module, rng: random.Random) -> None:
    """A decorator that returns what it is given, around all others."""
    for function in functions(tree):
        if rng.random() < 0.5:
            function.decorator_list.insert(0, ast.Name("passed_on", ast.Load()))
    tree.body[0:0] = parsed("def passed_on(function):\n    return function")


def name_arguments(tree: ast.Module, rng: random.Random) -> None:
    """Positional arguments become named ones, of functions of which there is one of their name."""
    known: dict[str, list[Function]] = {}
    for function in functions(tree):
        known.setdefault(function.name, []).append(function)
    methods = {
        each for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for each in node.body
    }
    stored = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and _binds(node)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        found = known.get(node.func.id, [])
        if len(found) != 1 or found[0] in methods or node.func.id in stored:
            continue
        taken = found[0].args
        plain = not (taken.posonlyargs or taken.vararg) and len(node.args) <= len(taken.args)
        starred = any(isinstance(each, ast.Starred) for each in node.args)
        if plain and not starred and all(each.arg for each in node.keywords) and rng.random() < 0.7:
            named = [
                ast.keyword(to.arg, each) for to, each in zip(taken.args, node.args, strict=False)
            ]
            node.args, node.keywords = [], [*named, *node.keywords]


def _binds(node: ast.Name) -> bool:
    return not isinstance(node.ctx, ast.Load)


def rename_locals(tree: ast.Module, rng: random.Random) -> None:
    """Variables of outermost functions get other names, also in functions inside of them."""
    outer = [node for node in tree.body if isinstance(node, Function)]
    for function in outer:
        if rng.random() < 0.7:
            names = _renamable(function)
            for node in ast.walk(function):
                if isinstance(node, ast.Name) and node.id in names:
                    node.id = f"{node.id}_renamed"


def _renamable(function: Function) -> set[str]:
    nodes = list(ast.walk(function))
    bound = {node.id for node in nodes if isinstance(node, ast.Name) and _binds(node)}
    fixed = {name for node in nodes for name in _declared(node)}
    fixed |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    fixed |= {getattr(node, "name", None) or "" for node in nodes}  # functions, handlers, patterns
    fixed |= {node.rest or "" for node in nodes if isinstance(node, ast.MatchMapping)}
    fixed |= {each.asname or each.name for node in nodes if isinstance(node, ast.Import | ast.ImportFrom) for each in node.names}  # fmt: skip
    inside = (node for node in nodes if isinstance(node, ast.ClassDef))
    fixed |= {each.id for node in inside for each in ast.walk(node) if isinstance(each, ast.Name)}
    return bound - fixed


class Written:
    """A program's syntax tree, of which texts are written with the quotes that they had.

    Triple quotes are no matter of style: a text in them is dedented, and documentation where it
    comes first. ``has_names`` is true if such a text has holes, whose names stay as they are.
    """

    def __init__(self, source: str) -> None:
        self.tree, self._said = ast.parse(source), dict[str, str]()
        self.has_names = False
        for node in ast.walk(self.tree):
            found = node.value if isinstance(node, ast.Expr) else None
            is_text = isinstance(found, ast.Constant) and isinstance(found.value, str)
            if isinstance(node, ast.Expr) and (is_text or isinstance(found, ast.JoinedStr)):
                written = ast.get_source_segment(source, node) or ""
                is_long = written.lstrip("rbfuRBFU").startswith(('"""', "'''"))
                if is_text or is_long:
                    self._mark(node, written)
                    self.has_names |= not is_text

    def _mark(self, node: ast.Expr, written: str) -> None:
        mark = f"text {len(self._said)}"
        node.value = ast.Constant(mark)
        self._said |= {f'"""{mark}"""': written, f"'{mark}'": written}

    def source(self) -> str:
        """The source of the tree as it is now."""
        lines = f"{ast.unparse(self.tree)}\n".split("\n")
        return "\n".join([self._line(line) for line in lines])

    def _line(self, line: str) -> str:
        said = self._said.get(line.strip())
        return line if said is None else line.replace(line.strip(), said)


CHANGES: dict[str, Change] = {
    "if True": wrap_in_if,
    "try/finally": wrap_in_try,
    "dead code": insert_dead_code,
    "branches swapped": swap_branches,
    "results named": name_results,
    "annotations": annotate,
    "a decorator": decorate,
    "arguments named": name_arguments,
    "locals renamed": rename_locals,
}
LAYOUT = "comments"


def commented(source: str, rng: random.Random) -> str:
    """*source* with comments and blank lines before statements."""
    starts = {node.lineno for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt)}
    found: list[str] = []
    for number, line in enumerate(source.splitlines(keepends=True), 1):
        if number in starts and not line.lstrip().startswith(("el", "except", "finally", "@")):
            if rng.random() < 0.3:
                found.append(" " * rng.randrange(9) + "# 'no prompt text' {gen()}\n")
            if rng.random() < 0.2:
                found.append("\n")
        found.append(line)
    return "".join(found)


def transformed(program: Program, rng: random.Random, plain: Outcome) -> tuple[str, list[str]]:
    """The source of *program* after three changes, and their names.

    What ends by itself is not put into a ``try``: there a failure comes at its own statement.
    """
    failing = plain.error is not None or plain.marks["failing calls"] > 0
    head, own = program.source().removesuffix(program.text(plain=False)), program.text(plain=False)
    written = Written(own)
    barred = {"try/finally"} if failing else set[str]()
    barred |= {"locals renamed"} if written.has_names else set()
    drawn = rng.sample([name for name in (*CHANGES, LAYOUT) if name not in barred], 3)
    for name in drawn:
        if name in CHANGES:
            CHANGES[name](written.tree, rng)
            ast.fix_missing_locations(written.tree)
    source = written.source()
    return head + (commented(source, rng) if LAYOUT in drawn else source), drawn


def judge_transformed(program: Program) -> tuple[Verdict, list[str], str]:
    """The verdict on *program* after three changes, their names, and the source."""
    rng, plain = random.Random(f"transformed {program.seed}"), run_plain(program)
    source, names = transformed(program, rng, plain)
    try:
        module = module_of(f"<transformed {program.seed}>", source)
    except Exception as error:
        return Verdict(f"compile: {described(error)}", plain.marks, 0), names, source
    return Verdict(problem_of(program, module, plain), plain.marks, len(plain.calls)), names, source
