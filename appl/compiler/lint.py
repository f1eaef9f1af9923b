"""``appl check``: findings in the source of a program before it runs.

Invariant: nothing of the program is imported or run; a finding names its rule, and a comment
``# appl: ignore[rule]`` on its line silences it.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from appl.compiler import rules, serial_calls, unprotected_calls, unrecorded_timers
from appl.compiler.bindings import Survey, survey
from appl.compiler.callee import Callees, constant_options, static_names
from appl.compiler.graph import build
from appl.compiler.ir import Graph
from appl.compiler.lower import docstring_of, lower
from appl.compiler.names import FunctionNames, ppl_decorator
from appl.compiler.plain_values import PlainValues
from appl.compiler.refusals import fence_source, refuse_wrapper, swapped
from appl.compiler.rules import RULES, Facts, LintFinding, Subject
from appl.compiler.source import FunctionSource, Module, parse
from appl.compiler.verify import verify_lowered
from appl.errors import PromptSyntaxError, nearest

REFUSED, UNKNOWN_IGNORE, UNUSED_IGNORE = "refused", "unknown-ignore", "unused-ignore"
RUFF_FIX = "ruff-fix"
ALL_RULES = {
    REFUSED: "the compiler refuses the function, or Python the file",
    **RULES,
    serial_calls.NAME: serial_calls.ABOUT,
    unprotected_calls.NAME: unprotected_calls.ABOUT,
    unrecorded_timers.NAME: unrecorded_timers.ABOUT,
    RUFF_FIX: "a fix of ruff takes a prompt for a docstring, and changes it",
    UNKNOWN_IGNORE: "an `# appl: ignore[...]` comment names a rule that does not exist",
    UNUSED_IGNORE: "an `# appl: ignore` comment silences nothing",
}

Graphs = dict[str, tuple[ast.AST, Graph]]
_COMMENT = re.compile(r"#\s*appl:\s*ignore(?:\[([^\]]*)\])?")


@dataclass(slots=True)
class _Ignore:
    """One ignore comment: its place, the rules it names (none: all), the rules it silenced."""

    line: int
    column: int
    names: tuple[str, ...]
    used: set[str] = field(default_factory=set)


def check_text(
    file: str,
    text: str,
    *,
    select: Collection[str] = (),
    ignore: Collection[str] = (),
    fixes: Collection[str] = (),
) -> list[LintFinding]:
    """The findings in the Python source *text*, in the order of its lines.

    Of the rules only those in *select* (none: all), and none that is in *ignore*. *fixes* are rules
    of ruff that are in use, and would change a prompt that begins as a docstring does.
    """
    lines = text.splitlines(keepends=True)
    try:
        module = parse(file, lines)
    except SyntaxError as error:
        return [_refusal(file, error, _hint(lines, error))]
    except ValueError as error:  # a NUL in the source
        return [LintFinding(REFUSED, file, 1, 1, 1, 1, str(error), "")]
    chosen = set(select or ALL_RULES) - set(ignore)
    try:
        findings = [finding for finding in _findings(module, fixes) if finding.rule in chosen]
    except RecursionError:  # Python could parse it, with its own stack
        return [LintFinding(REFUSED, file, 1, 1, 1, 1, "it is nested too deeply", "")]
    unignored = _after_comments(module, text, findings)
    return sorted(
        (finding for finding in unignored if finding.rule in chosen),
        key=lambda problem: (problem.line, problem.column, problem.rule),
    )


def _refusal(file: str, error: SyntaxError, hint: str = "") -> LintFinding:
    line, column = error.lineno or 1, error.offset or 1
    return LintFinding(
        REFUSED,
        file,
        line,
        column,
        error.end_lineno or line,
        error.end_offset or column,
        error.msg or "invalid syntax",
        hint,
    )


def _hint(lines: Sequence[str], error: SyntaxError) -> str:
    """Advice about a notebook's magic line in the text, which is not Python."""
    line = error.lineno or 1
    text = lines[line - 1].strip() if line <= len(lines) else ""
    if text.startswith(("%", "!")):
        return (
            "this is a line of a notebook; `jupyter nbconvert --to script` makes Python of it, or "
            "leave it out"
        )
    return ""


def _findings(module: Module, fixes: Collection[str]) -> Iterator[LintFinding]:
    outer = static_names(module)
    names = FunctionNames(Survey(), outer)
    prompted: dict[str | None, list[FunctionSource]] = {}  # by class, and those outside classes
    for function in module.functions.values():
        if ppl_decorator(function.node, names) is not None:
            prompted.setdefault(function.owner, []).append(function)
    facts = Facts.of(module, {function.path for group in prompted.values() for function in group})
    spans = [
        (function.node.lineno, function.node.end_lineno or 0)
        for g in prompted.values()
        for function in g
    ]

    def inside(function: FunctionSource) -> bool:
        """True if a function stands in a prompt function, whose compiler says its text."""
        return any(first < function.node.lineno <= last for first, last in spans)

    called = {
        owner: {function.node.name for function in group} for owner, group in prompted.items()
    }
    graphs: Graphs = {}
    for function in module.functions.values():
        names = FunctionNames(survey(function.node), outer)
        decorator = ppl_decorator(function.node, names)
        if decorator is None and not inside(function):
            yield from rules.unprompted(function, Callees(names))
        elif decorator is not None:
            near = called.get(function.owner, ())
            methods, programs = (near, ()) if function.owner else ((), near)
            callees = Callees(names, programs, methods)
            yield from _of_function(facts, function, callees, decorator, graphs)
            yield from _fixed(function, fixes)
    waiting = serial_calls.waiters(graphs)
    file, tree = module.source.file, module.tree
    yield from serial_calls.findings(file, tree, waiting, facts.imported)
    nodes = {name: node for name, (node, _) in graphs.items()}
    yield from unprotected_calls.findings(file, tree, nodes, facts.imported)
    own = set().union(*called.values())
    yield from unrecorded_timers.findings(file, tree, own, facts.imported)


def _fixed(function: FunctionSource, fixes: Collection[str]) -> Iterator[LintFinding]:
    """The first text of a prompt, which *fixes* of ruff would take for a docstring."""
    first = function.node.body[0]
    is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    if not fixes or not is_text or not isinstance(first.value.value, str):  # type: ignore[attr-defined]
        return
    if docstring_of(function.node, function.source) is None:
        rules_of_ruff = ", ".join(fixes)
        yield rules.finding_at(
            function.source.file,
            RUFF_FIX,
            first,
            f"this is text of the prompt, and a fix of ruff ({rules_of_ruff}) changes it, as it "
            "stands where a docstring would",
            f"write lint.ignore = {[*fixes]} into the settings of ruff",
        )


def _innermost(facts: Facts, function: FunctionSource, decorator: ast.expr) -> None:
    """Refuse ``@ppl`` above a decorator that makes something else of the function."""
    every = function.node.decorator_list
    for below in every[every.index(decorator) + 1 :]:
        product = facts.made_by(below)
        if product == "wrapper":
            raise refuse_wrapper(function)
        if product:
            raise function.source.refusal(decorator, swapped(product))


def _of_function(
    facts: Facts, function: FunctionSource, callees: Callees, decorator: ast.expr, graphs: Graphs
) -> Iterator[LintFinding]:
    """The findings of all rules in one prompt function.

    *graphs* gets its graph, if calls of the function could run beside each other.
    """
    names = callees.names
    options = constant_options(decorator)
    either = "docstring_as" in options
    bindings = survey(function.node)
    is_async = isinstance(function.node, ast.AsyncFunctionDef)
    try:
        _innermost(facts, function, decorator)
        fence_source(
            function,
            names,
            ctx=str(options.get("ctx", "new")),
            parallel=options.get("parallel") is True,
            generator=bindings.yields,
        )
        lowered = lower(function, names, PlainValues(names, bindings), quiet_docstring=either)
        verify_lowered(lowered.node, function.node)
    except PromptSyntaxError as error:
        yield _refusal(function.source.file, error)
        return
    graph = build(function, callees, "async" if is_async else "sync", either)
    alone = options.get("ctx", "new") in ("new", "copy") and options.get("parallel") is not True
    if alone and function.owner is None and not bindings.yields:
        graphs[function.node.name] = function.node, graph
    yield from rules.apply(Subject(facts, function, graph, callees))


# -- comments that silence


def _after_comments(
    module: Module, text: str, findings: Sequence[LintFinding]
) -> Iterator[LintFinding]:
    comments = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        match = _COMMENT.search(token.string) if token.type == tokenize.COMMENT else None
        if match is not None:
            names = tuple(name.strip() for name in (match[1] or "").split(",") if name.strip())
            comments.append(_Ignore(token.start[0], token.start[1] + 1, names))
    # The comment on a simple statement with several lines stands on its last one.
    ends: dict[int, int] = {}
    for node in ast.walk(module.tree) if comments else ():
        if isinstance(node, ast.stmt) and not hasattr(node, "body"):
            last = node.end_lineno or node.lineno
            ends |= {line: last for line in range(node.lineno, last + 1)}
    for finding in findings:
        around = {finding.line, ends.get(finding.line, finding.line)}
        silent = [
            remark
            for remark in comments
            if remark.line in around and (not remark.names or finding.rule in remark.names)
        ]
        for comment in silent:
            comment.used.add(finding.rule)
        if not silent:
            yield finding
    for comment in comments:
        yield from _about(module.source.file, comment)


def _about(file: str, comment: _Ignore) -> Iterator[LintFinding]:
    where = (file, comment.line, comment.column, comment.line, comment.column)
    unknown = [name for name in comment.names if name not in ALL_RULES]
    for name in unknown:
        yield LintFinding(
            UNKNOWN_IGNORE,
            *where,
            f"there is no rule {name!r}{nearest(name, ALL_RULES)}",
            "`appl check --rules` lists them",
        )
    idle = [name for name in comment.names if name not in comment.used and name not in unknown]
    if idle or (not comment.names and not comment.used):
        what = ", ".join(idle) or "any rule"
        yield LintFinding(
            UNUSED_IGNORE, *where, f"nothing here breaks {what}", "remove the comment"
        )
